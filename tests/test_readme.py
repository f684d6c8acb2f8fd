"""README and CONTRIBUTING are true of the repository: commands, links, the file tree."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import PurePosixPath

import pytest

from tests.conftest import ROOT

README, CONTRIBUTING = ((ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md"))

PAGES = sorted((ROOT / "docs").glob("*.md"))


def _tree() -> list[str]:
    """Return the paths that the tree of CONTRIBUTING names, folders with a slash at the end."""
    block = CONTRIBUTING.split("```text\nfbrag_cli/\n")[1].split("\n```")[0]
    paths, folders = ["fbrag_cli/"], ["fbrag_cli/"]
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, phrase = line.split(maxsplit=1)
        assert phrase, f"{name} has no phrase"
        paths.append("".join(folders[:depth]) + name)
        folders[depth:] = [name] if name.endswith("/") else []
    return paths


def _tracked() -> set[str]:
    """Return all files of the repository and the folders above them, folders with a slash at the end."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    files = [name for name in listed if (ROOT / name).exists()]
    folders = {f"{folder}/" for name in files for folder in PurePosixPath(name).parents if folder.name}
    return {*files, *folders}


def _command(name: str) -> list[str]:
    return README.split(f"<!-- {name} command -->\n```sh\n")[1].split("\n```")[0].splitlines()


def test_all_that_the_tree_names_exists_and_is_named_once() -> None:
    tree = _tree()
    assert set(tree) <= _tracked()
    assert len(tree) == len(set(tree))


def test_the_tree_names_every_home() -> None:
    tracked = [name for name in _tracked() if name.startswith("fbrag_cli/")]
    homes = {name for name in tracked if name.endswith("/")}
    modules = {name for name in tracked if name.count("/") == 1 and name.endswith(".py") and "/__" not in name}
    assert homes | modules <= set(_tree())


def test_a_stranger_reads_120_lines_and_learns_first_what_it_is() -> None:
    lines = README.splitlines()
    assert len(lines) <= 120
    assert lines[2].startswith("Ask a question about a long document")


def test_the_main_command_is_one_line_and_asks_the_repositorys_document() -> None:
    (command,) = _command("main")
    assert (ROOT / command.split("ask -y ")[1].split(" ")[0]).is_file()


def test_the_test_command_runs_pytest() -> None:
    (command,) = _command("test")
    assert "-m pytest" in (ROOT / command).read_text("utf-8")
    assert os.access(ROOT / command, os.X_OK)


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in PAGES)])
def test_the_files_and_headings_that_a_page_links_to_exist(page: str) -> None:
    path = ROOT / page
    for target in (part.split(")")[0] for part in path.read_text("utf-8").split("](")[1:]):
        if target.startswith(("http://", "https://")):
            continue
        name, _, heading = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.is_file(), target
        assert not heading or heading in _anchors(linked.read_text("utf-8")), target


def _anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line.startswith("#")
    }
