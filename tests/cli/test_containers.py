"""A read-only container: nothing can be written anywhere, no temporary folder, and a user without passwd entry or HOME."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Folders as such a container has them; the rest of the file system is not written by an ordinary user anyway.
_READ_ONLY = (
    "for d in /tmp /var/tmp /dev/shm {folder}; do mount --bind $d $d && mount -o remount,ro,bind $d || exit 99; done; "
    "cd {folder}; "
)
_AS_NOBODY = "exec unshare --user --map-user=12345 "

Contained = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def contained(tmp_path: Path, clean_environment: dict[str, str]) -> Contained:
    """Run the command in such a container; a skip where the system allows nobody to make one."""
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    (tmp_path / "notes").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "notes" / name).write_text("The brig sailed at noon.")
    theirs = ("HOME", "TMPDIR", "TEMP", "TMP")
    environment = {name: value for name, value in clean_environment.items() if name not in theirs and not name.startswith("XDG_")}
    environment["PYTHONPATH"] = str(ROOT)

    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = shlex.join([sys.executable, "-m", "fbrag_cli", *map(str, arguments)])
        script = _READ_ONLY.format(folder=shlex.quote(str(tmp_path))) + _AS_NOBODY + command
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment | more,
            timeout=120,
            check=False,
        )
        if done.returncode == 99 or "unshare: " in done.stderr:
            pytest.skip(f"needs user and mount namespaces: {done.stderr.strip()}")
        assert "Traceback" not in done.stderr
        return done

    try:
        subprocess.run(["unshare", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare of util-linux")
    return run


def _kinds(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.partition(":")[0] for line in done.stderr.splitlines()]


def test_it_answers_from_memory_with_one_warning(contained: Contained, tmp_path: Path, smollm2: Path) -> None:
    models = ("--small", smollm2, "--large", smollm2)
    done = contained("ask", tmp_path / "fine.txt", "When did the brig sail?", *models, "--allow-unsupported", "--max-tokens", 4)
    assert done.returncode == 0, done.stderr
    assert "noon" in done.stdout
    assert _kinds(done).count("warning") <= 2, done.stderr  # the second: the answer was cut
    assert "FBRAG_CACHE_DIR" in done.stderr


def test_without_a_model_it_is_one_line(contained: Contained, tmp_path: Path) -> None:
    for more in ((), ("-y",)):
        done = contained(
            "ask", tmp_path / "fine.txt", "Who?", "--small", "smollm2-135m", *more, FBRAG_MODELS_DIR=str(tmp_path / "models")
        )
        assert (done.returncode, done.stdout) == (4, "")
        assert _kinds(done) == ["warning", "hint", "error", "hint"]


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (["ask", "--dry-run", "fine.txt", "brig?"], (0,)),
        (["ask", "--dry-run", "--no-cache", "fine.txt", "brig?"], (0,)),
        (["ask", "--dry-run", "fine.txt", "Who?", "-o", "out.txt"], (2,)),
        (["explain", "--method", "vanilla", "fine.txt", "brig?"], (0,)),
        (["explain", "--method", "vanilla", "fine.txt", "brig?", "--html", "page.html"], (2,)),
        (["explain", "--method", "vanilla", "notes", "brig?"], (0, 5)),
        (["text", "fine.txt"], (0,)),
        (["models", "list"], (0,)),
        (["models", "pull", "smollm2-135m"], (4,)),
        (["models", "rm", "smollm2-135m", "-y"], (2, 4)),
        (["config", "show"], (0,)),
        (["config", "path"], (0,)),
        (["config", "set", "gpu", "off"], (2,)),
        (["cache", "size"], (0,)),
        (["cache", "clear", "-y"], (0,)),
        (["doctor", "--offline", "--skip-gpu"], (0, 1)),
        (["--version"], (0,)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_command_does_what_it_can(
    contained: Contained, tmp_path: Path, arguments: list[str], codes: tuple[int, ...]
) -> None:
    paths = {"fine.txt", "notes", "out.txt", "page.html"}
    done = contained(
        *(tmp_path / each if each in paths else each for each in arguments), FBRAG_MODELS_DIR=str(tmp_path / "models")
    )
    assert done.returncode in codes, done.stderr
    assert "internal" not in done.stderr
    assert _kinds(done).count("warning") <= 1
