"""The version that fbrag shows and writes: the release and, if fbrag runs from git, the commit."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from fbrag_cli import __version__

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@cache
def version() -> str:
    """Return the release with 8 digits of the commit, such as "0.3.0+gfc3edc6a"; only the release if no commit is known.

    The commit is that of the clone in which fbrag lies, changed files or not, or the one that pip or uv installed from git.
    Files of .git are read here: starting git would take longer than many commands.
    """
    folder = Path(__file__).parents[1]
    try:
        commit = _of_clone(folder) or _of_installation(folder)
    except (OSError, ValueError, AttributeError):  # not to be read, or not what git and pip write
        commit = ""
    return f"{__version__}+g{commit[:8]}" if _COMMIT.fullmatch(commit) else __version__


def release(version: str) -> str:
    """Return a version without its commit."""
    return version.partition("+g")[0]


def differ(one: str, other: str) -> bool:
    """Return whether two versions are of other releases, or of other commits. An unknown commit may be any."""
    return one != other and (release(one) != release(other) or (release(one) != one and release(other) != other))


def _of_clone(folder: Path) -> str:
    """Return the commit that HEAD of fbrag's own clone or worktree names; "" outside one. Raises OSError, ValueError."""
    git = folder / ".git"
    if not (git.exists() and 'name = "fbrag"' in (folder / "pyproject.toml").read_text("utf-8")):
        return ""
    if git.is_file():  # a worktree or a submodule: "gitdir: FOLDER"
        git = folder / git.read_text("utf-8").removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text("utf-8").strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    common = git / "commondir"  # branches of a worktree are kept with its repository
    shared = git / common.read_text("utf-8").strip() if common.is_file() else git
    if (shared / name).is_file():
        return (shared / name).read_text("utf-8").strip()
    packed = (shared / "packed-refs").read_text("utf-8").splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")


def _of_installation(folder: Path) -> str:
    """Return the commit that direct_url.json names (PEP 610); "" if fbrag was not installed from git. Raises as above."""
    origin = folder / f"fbrag-{__version__}.dist-info" / "direct_url.json"
    if not origin.is_file():
        return ""
    import json

    return str(json.loads(origin.read_text("utf-8")).get("vcs_info", {}).get("commit_id", ""))
