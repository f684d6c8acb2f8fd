"""The version that fbrag shows: the release, and the commit if it runs from git."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli import __version__
from fbrag_cli import version as module
from fbrag_cli.version import differ, release, version


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    version.cache_clear()
    yield
    version.cache_clear()


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True).stdout.strip()


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the version of a fbrag that lies in `folder`."""
    monkeypatch.setattr(module, "__file__", str(folder / "fbrag_cli" / "version.py"))
    version.cache_clear()
    return version()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "fbrag"\n')
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_a_clone_shows_its_commit(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = f"{__version__}+g{git(clone, 'rev-parse', 'HEAD')[:8]}"
    assert in_folder(clone, monkeypatch) == shown
    git(clone, "pack-refs", "--all")
    assert in_folder(clone, monkeypatch) == shown
    git(clone, "checkout", "-q", "--detach")
    assert in_folder(clone, monkeypatch) == shown
    (clone / "more").write_text("")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "two")
    assert in_folder(clone, monkeypatch) == f"{__version__}+g{git(clone, 'rev-parse', 'HEAD')[:8]}" != shown


@pytest.mark.parametrize("pack", [False, True])
def test_a_worktree_shows_its_own_commit(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: bool) -> None:
    git(clone, "worktree", "add", "-q", "-b", "topic/a", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "two")
    if pack:
        git(clone, "pack-refs", "--all")
    assert in_folder(tmp_path / "tree", monkeypatch) == f"{__version__}+g{git(tmp_path / 'tree', 'rev-parse', 'HEAD')[:8]}"


def test_the_repository_of_another_project_is_not_fbrags(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install --target .` puts fbrag into any folder."""
    (clone / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    assert in_folder(clone, monkeypatch) == __version__
    (clone / "pyproject.toml").unlink()
    assert in_folder(clone, monkeypatch) == __version__


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none\n", "ref: ../../x", "0\n", "\0", "\xff" * 40, "g" * 40])
def test_an_unreadable_repository_shows_the_release_alone(clone: Path, monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    (clone / ".git" / "HEAD").write_text(head, "latin-1")
    assert in_folder(clone, monkeypatch) == __version__


@pytest.mark.parametrize("link", ["", "gitdir: /nowhere", "gitdir: \0"])
def test_a_worktree_without_its_repository_shows_the_release_alone(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    (tmp_path / "pyproject.toml").write_bytes((clone / "pyproject.toml").read_bytes())
    (tmp_path / ".git").write_text(link)
    assert in_folder(tmp_path, monkeypatch) == __version__


def test_an_installation_from_git_shows_the_commit_that_pip_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = tmp_path / f"fbrag-{__version__}.dist-info" / "direct_url.json"
    origin.parent.mkdir()
    assert in_folder(tmp_path, monkeypatch) == __version__
    origin.write_text(json.dumps({"url": "https://host/fbrag.git", "vcs_info": {"vcs": "git", "commit_id": "0123456789" * 4}}))
    assert in_folder(tmp_path, monkeypatch) == f"{__version__}+g01234567"
    for other in ('{"url": "file:///fbrag.whl", "archive_info": {}}', "[]", '{"vcs_info": 5}', "{", "null"):
        origin.write_text(other)
        assert in_folder(tmp_path, monkeypatch) == __version__


def test_versions_differ_by_release_and_by_commits_that_are_known() -> None:
    assert release("0.3.0+gfc3edc6a") == release("0.3.0") == "0.3.0"
    assert not differ("0.3.0", "0.3.0")
    assert not differ("0.3.0", "0.3.0+gfc3edc6a")
    assert not differ("0.3.0+gfc3edc6a", "0.3.0")
    assert differ("0.3.0+gfc3edc6a", "0.3.0+g7fc54b29")
    assert differ("0.3.0", "0.3.1.dev0")
    assert differ("0.3.0+gfc3edc6a", "0.3.1+gfc3edc6a")
