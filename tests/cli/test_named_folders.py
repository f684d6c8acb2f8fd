"""Folders that the configuration file names, as a user types them: @papers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file with a folder beside it, one by its absolute path, and one of two paths."""
    for name in ("papers", "laws"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(f"These are the {name} of the harbor.\n")
    path = tmp_path / "config.toml"
    path.write_text(f'[folders]\npapers = "papers"\nlaws = ["{tmp_path}/laws"]\nboth = ["papers", "laws"]\n')
    return path


def test_every_name_stands_for_its_paths(fbrag: Run, config: Path, tmp_path: Path) -> None:
    for names, words in ((["@papers"], ["papers"]), (["@laws"], ["laws"]), (["@both"], ["papers", "laws"])):
        printed = fbrag("text", "--config", config, *names).stdout
        assert [word for word in ("papers", "laws") if f"the {word} of" in printed] == words
    both = fbrag("text", "--config", config, "@papers", tmp_path / "laws" / "laws.txt").stdout
    assert both.count("of the harbor") == 2


def test_a_question_is_no_name(fbrag: Run, config: Path) -> None:
    run = fbrag("explain", "--config", config, "@both", "@laws of the harbor?", "--method", "order-preserving", "--json")
    record = json.loads(run.stdout)
    assert record["question"] == "@laws of the harbor?"
    assert len(record["documents"]) == 2


def test_other_commands_that_take_documents(fbrag: Run, config: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text("Whose are the papers?\n")
    batch = fbrag("batch", "--config", config, "@nothing", "-Q", "questions.txt", "--retrieval-only")
    for command in (["chat", "@nothing"], ["ui", "@nothing"], ["serve", "@nothing"], ["mcp", "--allow", "@nothing"]):
        run = fbrag(*command, "--config", config)
        assert (run.returncode, run.stderr.splitlines()[-2:]) == (
            2,
            [
                "error: unknown folder name @nothing",
                "hint: one of @papers, @laws, @both; a file of that name is ./@nothing",
            ],
        ), command
    assert batch.returncode == 2
    assert fbrag("mcp", "--config", config, "--allow", "@papers").returncode == 0


def test_without_a_table_the_hint_says_where_names_are_given(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "@x").write_text("The lamp was made in Brackness.\n")
    run = fbrag("text", "@x")
    assert (run.returncode, "in the configuration file; a file of that name is ./@x" in run.stderr) == (2, True)
    assert "Brackness" in fbrag("text", "./@x").stdout


@pytest.mark.parametrize("table", ['folders = "papers"', "[folders]\npapers = 3", '[folders]\npapers = [["a"]]', "folders = []"])
def test_a_table_that_is_none_is_one_error(fbrag: Run, tmp_path: Path, table: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(table)
    (tmp_path / "a.txt").write_text("The lamp.\n")
    run = fbrag("text", "--config", path, "a.txt")
    assert (run.returncode, run.stderr.count("error: ")) == (2, 1)
    assert 'papers = ["~/papers"]' in run.stderr


def test_settings_and_names_are_in_one_file(fbrag: Run, config: Path) -> None:
    assert fbrag("--config", config, "config", "set", "gpu", "off").returncode == 0
    assert "unknown" not in fbrag("text", "--config", config, "@laws").stderr
    shown = fbrag("--config", config, "config", "show")
    assert 'gpu = "off"' in shown.stdout
    assert '"laws" = ["' in shown.stdout.partition("[folders]")[2]
    assert [*json.loads(fbrag("--config", config, "config", "show", "--json").stdout)["folders"]] == ["papers", "laws", "both"]


def test_tab_offers_the_names(fbrag: Run, config: Path) -> None:
    about = {"_FBRAG_COMPLETE": "complete_bash", "COMP_WORDS": "fbrag text @", "COMP_CWORD": "2", "FBRAG_CONFIG": str(config)}
    assert fbrag(env=about).stdout.split() == ["@papers", "@laws", "@both"]
