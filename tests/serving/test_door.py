"""Which files a client may name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.serving.door import Door


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, a repository with a hidden file, a hidden folder and what git ignores."""
    folder = tmp_path / "papers"
    subprocess.run(["git", "init", "-q", folder], check=True)
    for name in ("lamp.txt", ".env", ".notes/a.txt", "build/out.txt", "logs/a.log", "logs/keep.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("The lamp was made in Brackness.\n")
    (folder / ".gitignore").write_text("build/\n")
    (folder / "logs" / ".gitignore").write_text("*.log\n!keep.log\n")
    monkeypatch.chdir(folder)
    return folder.resolve()


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        (".env", "hidden"),
        (".notes/a.txt", "hidden"),
        (".git/config", "hidden"),
        ("build", "git-ignored"),
        ("build/out.txt", "git-ignored"),
        ("logs/a.log", "git-ignored"),
    ],
)
def test_what_a_walk_leaves_out_is_refused_by_name(papers: Path, named: str, reason: str) -> None:
    for path in (named, str(papers / named), f"logs/../{named}"):
        with pytest.raises(FbragError) as refused:
            Door.to(["."]).path(path)
        assert (refused.value.code, f" is {reason}: " in refused.value.message) == ("usage", True)


def test_a_link_to_a_hidden_file_is_that_file(papers: Path) -> None:
    (papers / "link.txt").symlink_to(papers / ".env")
    with pytest.raises(FbragError, match="hidden"):
        Door.to(["."]).path("link.txt")


def test_the_rest_is_let_through(papers: Path) -> None:
    door = Door.to(["."])
    assert door.paths(["lamp.txt", "logs/keep.log", "logs", "."]) == ["lamp.txt", "logs/keep.log", "logs", str(papers)]


def test_a_hidden_folder_that_the_user_names_is_read(papers: Path) -> None:
    assert Door.to([".", ".notes"]).path(".notes/a.txt") == ".notes/a.txt"
    assert Door.to(["build"]).path("build/out.txt") == "build/out.txt"


def test_an_absolute_path_stays_absolute(papers: Path) -> None:
    door = Door.to(["."])
    assert door.path(str(papers / "lamp.txt")) == str(papers / "lamp.txt")
    with pytest.raises(FbragError) as missing:
        door.path(str(papers / "lmap.txt"))
    assert (missing.value.hint or "").startswith(f"there are {papers / 'lamp.txt'}")


def test_a_hint_names_no_hidden_file(papers: Path) -> None:
    with pytest.raises(FbragError) as missing:
        Door.to(["."]).path(".envv")
    assert missing.value.hint
    assert not any(each.startswith(".") for each in missing.value.hint.removeprefix("there are ").split(", "))


def test_a_named_folder_is_read_only_if_it_is_allowed(papers: Path, tmp_path: Path) -> None:
    names = {"logs": [str(papers / "logs")], "all": [str(tmp_path)], "both": [str(papers / "lamp.txt"), str(papers / "logs")]}
    door = Door.to(["."], names)
    assert door.paths(["@logs", "lamp.txt"]) == [str(papers / "logs"), "lamp.txt"]
    assert door.paths(["@both"]) == names["both"]
    for name, fault in (("@all", "not in a folder that may be read"), ("@none", "unknown folder name @none")):
        with pytest.raises(FbragError, match=fault):
            door.paths([name])
