"""The folders of the cache, the configuration and the models, by the environment and the platform."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.storage.paths import cache_dir, config_path, models_dir

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="places of POSIX systems")
OURS = ("FBRAG_CACHE_DIR", "FBRAG_MODELS_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without variables of ours, for an installed package: no checkout has a folder of models."""
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(
        "fbrag_cli.storage.paths.__file__", str(tmp_path / "site-packages" / "fbrag_cli" / "storage" / "places.py")
    )
    return tmp_path


@POSIX
@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("ignored", [None, "", "relative"])
def test_the_users_own_places(home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, ignored: str | None) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    if ignored is not None:
        for name in OURS[2:]:
            monkeypatch.setenv(name, ignored)
    assert cache_dir() == home / ".cache" / "fbrag"
    assert config_path() == home / ".config" / "fbrag" / "config.toml"
    assert models_dir() == home / ".local" / "share" / "fbrag" / "models"


@POSIX
def test_xdg_variables_move_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OURS[2:]:
        monkeypatch.setenv(name, f"/x/{name}")
    assert cache_dir() == Path("/x/XDG_CACHE_HOME/fbrag")
    assert config_path() == Path("/x/XDG_CONFIG_HOME/fbrag/config.toml")
    assert models_dir() == Path("/x/XDG_DATA_HOME/fbrag/models")


def test_variables_of_ours_come_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("FBRAG_CACHE_DIR", "~/cache")
    monkeypatch.setenv("FBRAG_MODELS_DIR", "models")
    assert cache_dir() == home / "cache"
    assert models_dir() == Path.cwd() / "models"


@pytest.mark.skipif(not (ROOT / "fbrag_cli").is_dir(), reason="fbrag is installed, not a checkout")
def test_a_checkout_has_its_own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.delenv("FBRAG_MODELS_DIR", raising=False)
    assert models_dir() == ROOT / "models"


def test_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("WIN_PD_OVERRIDE_APPDATA", "C:\\roaming")  # what platformdirs asks Windows for otherwise
    monkeypatch.setenv("WIN_PD_OVERRIDE_LOCAL_APPDATA", "C:\\local")
    assert config_path() == Path("C:\\roaming") / "fbrag" / "config.toml"
    assert cache_dir() == Path("C:\\local") / "fbrag" / "Cache"
    assert models_dir() == Path("C:\\local") / "fbrag" / "models"


@pytest.fixture
def as_nobody() -> list[str]:
    """The start of a command that runs this Python as a user without an entry in the list of users."""
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    command = ["setpriv", "--reuid=54321", "--clear-groups", sys.executable]
    tried = subprocess.run([*command, "-c", ""], capture_output=True, text=True, check=False, env={})
    if tried.returncode:
        pytest.skip(f"another user cannot run this Python: {tried.stderr.strip()}")
    return command


def test_a_user_without_a_home_has_places_where_nothing_can_be_kept(as_nobody: list[str]) -> None:
    code = """
import sys
from fbrag_cli.storage import config_file, files, paths
paths.__file__ = "/nowhere/fbrag_cli/storage/paths.py"
print(paths.cache_dir(), paths.config_path(), paths.models_dir())
print(config_file.load(config_file.locate(None, {}), {}).values, config_file.locate("~/a.toml", {}).path)
"""
    done = subprocess.run(
        [*as_nobody, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "/dev/null/fbrag /dev/null/fbrag/config.toml /dev/null/fbrag/models",
        "{} ~/a.toml",
    ]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can read. Those of pytest are private."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_user_without_a_home_is_told_so(open_folder: Path, as_nobody: list[str]) -> None:
    document = open_folder / "fine.txt"
    document.write_text("The brig sailed at noon.")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*as_nobody, "-m", "fbrag_cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    asked = run("ask", "--dry-run", str(document), "Who?")
    assert asked.returncode == 0, asked.stderr
    assert asked.stderr.startswith("warning: caching is off: this user has no home directory")
    told = run("cache", "dir")
    assert (told.returncode, told.stdout) == (2, "")
    assert "/dev/null" not in asked.stderr + told.stderr
    assert "FBRAG_CACHE_DIR" in told.stderr
