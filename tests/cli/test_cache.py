"""`fbrag cache` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fbrag_cli.storage.cache import Cache
from tests.conftest import Run

Environ = dict[str, str]
DAY = 86400


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Three entries: two documents, one of which was not used for 40 days, and a corpus."""
    cache = Cache(tmp_path / "cache")
    for kind, key, size, days in (
        ("documents", "aaaaaaaa", 1000, 40),
        ("documents", "bbbbbbbb", 200, 1),
        ("corpora", "cccccccc", 30, 1),
    ):
        with cache.new(kind, key) as path:
            path.write_bytes(b"x" * size)
        os.utime(cache.root / kind / key, (time.time() - days * DAY,) * 2)
    return cache


@pytest.fixture
def here(cache: Cache) -> Environ:
    return {"FBRAG_CACHE_DIR": str(cache.root)}


def test_dir_is_where_it_would_lie(fbrag: Run, tmp_path: Path) -> None:
    caches = tmp_path / "caches"
    done = fbrag("cache", "dir", env={"XDG_CACHE_HOME": str(caches)})
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{caches / 'fbrag'}\n", "")
    assert fbrag("cache", "dir", env={"FBRAG_CACHE_DIR": "mine"}).stdout == f"{tmp_path / 'mine'}\n"
    assert not caches.exists()


def test_size_is_told_by_kind_and_in_total(fbrag: Run, here: Environ) -> None:
    done = fbrag("cache", "size", env=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "KIND       ENTRIES  SIZE",
        "corpora    1        0 kB",
        "documents  2        1 kB",
        "total      3        1 kB of 5.0 GB",
    ]


def test_size_as_json(fbrag: Run, here: Environ, cache: Cache) -> None:
    told = json.loads(fbrag("cache", "size", "--json", env=here).stdout)
    assert told == {
        "schema": "fbrag.cache/1",
        "path": str(cache.root),
        "kinds": [{"kind": "corpora", "entries": 1, "bytes": 30}, {"kind": "documents", "entries": 2, "bytes": 1200}],
        "entries": 3,
        "bytes": 1230,
        "limit": 5_000_000_000,
    }


def test_a_cache_that_is_not_there_is_empty_and_stays_so(fbrag: Run, tmp_path: Path) -> None:
    here = {"FBRAG_CACHE_DIR": str(tmp_path / "none")}
    assert json.loads(fbrag("cache", "size", "--json", env=here).stdout)["bytes"] == 0
    done = fbrag("cache", "clear", env=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert not (tmp_path / "none").exists()


def test_clear_needs_a_yes(fbrag: Run, here: Environ, cache: Cache) -> None:
    done = fbrag("cache", "clear", env=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1] == "hint: pass -y to confirm"
    assert sum(count for count, _ in cache.size().values()) == 3
    done = fbrag("cache", "clear", "-y", env=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1230\n", "")
    assert cache.size() == {}


@pytest.mark.parametrize(
    ("options", "freed", "left"),
    [
        (["--older-than", "30d"], 1000, {"corpora": (1, 30), "documents": (1, 200)}),
        (["--older-than", "960h"], 1000, {"corpora": (1, 30), "documents": (1, 200)}),
        (["--older-than", "6w"], 0, {"corpora": (1, 30), "documents": (2, 1200)}),
        (["--older-than", "0m"], 1230, {}),
        (["--kind", "documents"], 1200, {"corpora": (1, 30)}),
        (["--kind", "corpora", "--older-than", "30d"], 0, {"corpora": (1, 30), "documents": (2, 1200)}),
        (["--kind", "listings"], 0, {"corpora": (1, 30), "documents": (2, 1200)}),
    ],
)
def test_clear_a_part(
    fbrag: Run, here: Environ, cache: Cache, options: list[str], freed: int, left: dict[str, tuple[int, int]]
) -> None:
    done = fbrag("cache", "clear", "-y", *options, env=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{freed}\n", "")
    assert cache.size() == left


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
def test_clear_asks_on_a_terminal(clean_environment: Environ, here: Environ, cache: Cache, answer: str, code: int) -> None:
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fbrag_cli", "cache", "clear", "--older-than", "30d"],
        env=clean_environment | here,
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
    )
    os.close(side)
    said = b""
    while not said.endswith(b"[y/N] "):
        said += os.read(terminal, 1024)
    assert said.startswith(b"delete 1 entry (1 kB) from ")
    os.write(terminal, answer.encode() + b"\n")
    out, _ = process.communicate(timeout=30)
    os.close(terminal)
    assert process.returncode == code
    assert out == (b"" if code else b"1000\n")
    assert sum(count for count, _ in cache.size().values()) == (3 if code else 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["clear", "-y", "--older-than", "3x"], '--older-than is "3x"'),
        (["clear", "-y", "--older-than", "30"], "30d"),
        (["clear", "-y", "--older-than", "-1d"], "-1d"),
        (["clear", "-y", "--older-than", "9" * 400 + "d"], "expected a duration"),
        (["clear", "-y", "--kind", "documnets"], "did you mean documents?"),
        (["clear", "-y", "--kind", "scores"], "corpora, documents"),
        (["clear", "-y", "--kind", "../.."], "unknown cache kind"),
        (["clear", "-y", "everything"], "everything"),
        (["clear", "-y", "--kid", "corpora"], "--kind"),
        (["cler"], "clear"),
    ],
)
def test_bad_input(fbrag: Run, here: Environ, cache: Cache, arguments: list[str], said: str) -> None:
    done = fbrag("cache", *arguments, env=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) <= 2
    assert said in done.stderr
    assert sum(count for count, _ in cache.size().values()) == 3


@pytest.mark.parametrize("arguments", [["size"], ["clear", "-y"]])
def test_a_folder_that_is_something_else_is_an_error_and_left_alone(fbrag: Run, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("precious")
    for folder, why in (("work", "not empty"), ("work/thesis.txt", "Not a directory")):
        done = fbrag("cache", *arguments, env={"FBRAG_CACHE_DIR": str(tmp_path / folder)})
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {tmp_path / folder} cannot be the cache: ")
        assert why in done.stderr
        assert "hint: set FBRAG_CACHE_DIR" in done.stderr
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_what_cannot_be_deleted_is_an_error(fbrag: Run, here: Environ, cache: Cache) -> None:
    (cache.root / "documents").chmod(0o500)
    done = fbrag("cache", "clear", "-y", env=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be deleted: Permission denied" in done.stderr
    assert cache.size() == {"documents": (2, 1200)}
    (cache.root / "documents").chmod(0o700)


def test_nothing_heavy_is_loaded(clean_environment: Environ, here: Environ) -> None:
    for arguments in (["cache", "--help"], ["cache", "size"], ["cache", "clear", "-y"]):
        code = f"import sys; sys.argv = ['fbrag', *{arguments!r}]\n"
        code += "from fbrag_cli.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
        code += "print([name for name in ('numpy', 'llama_cpp', 'psutil', 'rich.console', 'filelock') if name in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment | here, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]", (arguments, done.stdout)


def test_help_has_examples_on_top(fbrag: Run) -> None:
    for command in ("dir", "size", "clear"):
        told = fbrag("cache", command, "--help").stdout
        assert told.index("Examples:") < told.index("General options:")
        assert f"fbrag cache {command}" in told
