"""The README is true of the repository: its file tree, its commands, its length."""

from __future__ import annotations

import subprocess
from pathlib import PurePosixPath

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def _tree() -> list[str]:
    """Return the paths that the README's tree names, folders with a slash at the end."""
    block = README.split("```text\nfbrag_cli/\n")[1].split("\n```")[0]
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


def test_the_first_forty_lines_say_what_it_is_and_how_it_is_installed() -> None:
    first = README.splitlines()[:40]
    assert first[2].startswith("Ask a long document a question")
    assert "## Install" in first
    assert _command("main")[0] in first


def test_the_main_command_is_one_line_and_asks_the_repositorys_document() -> None:
    (command,) = _command("main")
    assert (ROOT / command.split("ask -y ")[1].split(" ")[0]).is_file()


def test_the_test_command_runs_pytest() -> None:
    (command,) = _command("test")
    assert "-m pytest" in command


def test_the_files_that_it_links_to_exist() -> None:
    for target in (part.split(")")[0] for part in README.split("](")[1:]):
        assert target.startswith("http") or (ROOT / target).is_file(), target
