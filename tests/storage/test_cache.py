"""The cache on a real disk, with real processes: whole entries or none, the least recently used first, nothing foreign harmed."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from fbrag_cli.storage.cache import NOWHERE, Cache, NotACacheFolderError

A, B, C, D = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
HOUR, DAY = 3600, 86400
IMPORTS = "import sys\nfrom pathlib import Path\nfrom fbrag_cli.storage.cache import Cache\n"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit=1000)


def keep(cache: Cache, kind: str, key: str, data: bytes = b"x" * 100, *, used: float = 0) -> Path:
    """A file as an entry, last used so many seconds ago."""
    with cache.new(kind, key) as path:
        path.write_bytes(data)
    place = cache.path(kind, key)
    assert place is not None
    os.utime(place, (time.time() - used,) * 2)
    return place


def unfinished(cache: Cache) -> list[str]:
    return os.listdir(cache.root / ".unfinished")


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Another process, in which `cache` is the one of the first argument."""
    start = f"{IMPORTS}cache = Cache(Path(sys.argv[1]), 1000)\n"
    return subprocess.run(
        [sys.executable, "-c", start + code, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )


# -- one entry -------------------------------------------------------------------------------------------------------------


def test_an_entry_is_there_when_it_is_whole(cache: Cache) -> None:
    assert cache.path("documents", A) is None
    with cache.new("documents", A) as path:
        path.write_bytes(b"text")
        assert cache.path("documents", A) is None
    place = cache.path("documents", A)
    assert place is not None
    assert place.read_bytes() == b"text"
    keep(cache, "corpora", A, b"22")
    assert cache.size() == {"corpora": (1, 2), "documents": (1, 4)}
    assert unfinished(cache) == []


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, OSError])
def test_a_block_that_fails_leaves_nothing(cache: Cache, failure: type[BaseException]) -> None:
    def fail() -> None:
        with cache.new("corpora", A) as path:
            path.write_bytes(b"1")
            raise failure

    with pytest.raises(failure):
        fail()
    assert cache.path("corpora", A) is None
    assert unfinished(cache) == []


def test_a_block_that_makes_nothing_is_an_error(cache: Cache) -> None:
    with pytest.raises(FileNotFoundError), cache.new("documents", A):
        pass
    assert cache.path("documents", A) is None


def test_the_faster_of_two_processes_counts_and_the_other_is_content(cache: Cache) -> None:
    with cache.new("documents", A) as path:
        path.write_bytes(b"slow")
        code = "with cache.new('documents', sys.argv[2]) as path: path.write_bytes(b'fast')\n"
        assert python(code, cache.root, A).returncode == 0
    assert (cache.root / "documents" / A).read_bytes() == b"fast"
    assert unfinished(cache) == []


def test_a_killed_process_leaves_no_entry_and_its_rest_goes_after_a_day(cache: Cache) -> None:
    code = "import os, signal\nwith cache.new('corpora', sys.argv[2]) as path:\n"
    code += " path.write_bytes(b'1'); os.kill(os.getpid(), signal.SIGKILL)"
    assert python(code, cache.root, A).returncode == -signal.SIGKILL
    assert cache.path("corpora", A) is None
    (rest,) = unfinished(cache)
    cache.trim()
    assert unfinished(cache) == [rest]
    os.utime(cache.root / ".unfinished" / rest, (time.time() - 2 * DAY,) * 2)
    cache.trim()
    assert unfinished(cache) == []


def test_what_a_living_process_writes_is_left_alone(cache: Cache) -> None:
    with cache.new("documents", A) as path:
        path.write_bytes(b"text")
        assert python("cache.trim(); print(cache.clear())", cache.root).stdout == "0\n"
    assert cache.path("documents", A) is not None


def test_a_full_disk_leaves_no_half_entry(cache: Cache) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    with cache.new("documents", sys.argv[2]) as path:
        path.write_bytes(b"1" * 9000)
except OSError as error:
    print(cache.path("documents", sys.argv[2]))
"""
    assert python(code, cache.root, A).stdout == "None\n"
    assert cache.size() == {}
    assert unfinished(cache) == []


def test_an_entry_that_cannot_be_read_can_be_made_again(cache: Cache) -> None:
    keep(cache, "corpora", A, b"?")
    cache.discard("corpora", A)
    assert cache.path("corpora", A) is None
    cache.discard("corpora", A)
    keep(cache, "corpora", A, b"!")
    assert (cache.root / "corpora" / A).read_bytes() == b"!"


@pytest.mark.parametrize(("kind", "key"), [("documents", "../../x"), ("documents", "ABCDEF01"), ("..", A), (".unfinished", A)])
def test_no_name_leads_out_of_the_cache(cache: Cache, kind: str, key: str) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        cache.path(kind, key)
    with pytest.raises(ValueError, match="not an entry"), cache.new(kind, key):
        pass


def read_list(path: Path) -> list[str]:
    return list(json.loads(path.read_bytes())["values"])


@pytest.mark.parametrize("damaged", ["", "{", "no JSON", "\udcff"])
def test_a_damaged_entry_goes_and_can_be_made_again(cache: Cache, damaged: str) -> None:
    assert cache.load("listings", A, read_list) is None
    assert cache.store("listings", A, lambda path: path.write_text(damaged, errors="surrogateescape"))
    assert cache.load("listings", A, read_list) is None
    assert cache.path("listings", A) is None
    assert cache.store("listings", A, lambda path: path.write_text('{"values": ["a"]}'))
    assert cache.store("listings", A, lambda path: path.write_text('{"values": ["later"]}'))
    assert cache.load("listings", A, read_list) == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of open files")
def test_a_lack_of_open_files_is_no_damage(cache: Cache) -> None:
    place = keep(cache, "documents", A, b"text")
    code = """
import resource
from fbrag_cli.errors import FbragError
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    cache.load("documents", sys.argv[2], Path.read_bytes)
except FbragError as error:
    print(error.code, error.message)
"""
    assert python(code, cache.root, A).stdout == "out_of_memory too many open files\n"
    assert place.read_bytes() == b"text"


def test_loading_is_a_use(cache: Cache) -> None:
    place = keep(cache, "documents", A, b"text", used=2 * HOUR)
    assert cache.load("documents", A, Path.read_bytes) == b"text"
    assert time.time() - place.stat().st_mtime < HOUR


def test_an_entry_that_cannot_be_stored_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = Cache(tmp_path / "file" / "cache")
    assert not cache.store("listings", A, Path.touch)
    assert cache.load("listings", A, read_list) is None


# -- bounded -----------------------------------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first_and_make_some_room(cache: Cache) -> None:
    for number in range(10):
        keep(cache, "documents", f"{number:08x}", used=(20 - number) * HOUR)
    cache.trim()
    assert cache.size() == {"documents": (10, 1000)}  # as much as is allowed
    cache.touch("documents", ["00000000", "ffffffff"])
    keep(cache, "corpora", A, b"1" * 100)
    cache.trim()
    assert cache.size() == {"corpora": (1, 100), "documents": (8, 800)}
    gone = [number for number in range(10) if cache.path("documents", f"{number:08x}") is None]
    assert gone == [1, 2]


def test_entries_of_other_processes_count(cache: Cache) -> None:
    keep(cache, "documents", A, used=HOUR)
    cache.trim()
    code = "with cache.new('documents', sys.argv[2]) as path: path.write_bytes(b'1' * 950)"
    assert python(code, cache.root, B).returncode == 0
    cache.trim()
    assert cache.path("documents", A) is None


def test_a_time_of_use_in_the_future_does_not_last(cache: Cache) -> None:
    future = keep(cache, "documents", A, used=-900 * DAY)
    cache.touch("documents", [A])
    assert future.stat().st_mtime <= time.time() + 1


def test_touching_again_and_again_writes_once_an_hour(cache: Cache) -> None:
    recent, old = keep(cache, "documents", A, used=600), keep(cache, "documents", B, used=2 * HOUR)
    before = recent.stat().st_mtime
    assert cache.touch("documents", [A, B, C])
    assert not cache.touch("documents", [A, B, C])
    assert recent.stat().st_mtime == before
    assert time.time() - old.stat().st_mtime < HOUR


def test_a_new_entry_is_used_now_whatever_the_time_of_its_file(cache: Cache) -> None:
    with cache.new("documents", A) as path:
        path.write_bytes(b"text")
        os.utime(path, (1, 1))
    assert cache.clear(older_than=HOUR) == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps what is open")
def test_what_is_mapped_stays_readable(cache: Cache) -> None:
    place = keep(cache, "corpora", A, b"counts" * 500)
    with place.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        cache.trim()  # 3000 bytes are more than the limit
        assert cache.path("corpora", A) is None
        assert mapped[:] == b"counts" * 500


# -- cleared -----------------------------------------------------------------------------------------------------------------


def test_only_what_has_the_shape_of_an_entry_is_deleted(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / A).write_bytes(b"precious")
    keep(cache, "documents", A)
    (cache.root / "documents" / "notes.txt").write_bytes(b"precious")
    (cache.root / "documents" / B).symlink_to(tmp_path / "mine" / A)
    (cache.root / "corpora").symlink_to(tmp_path / "mine")
    (cache.root / A).write_bytes(b"precious")
    keep(cache, "stats", C, b"1")
    cache.clear()
    assert cache.size() == {}
    assert (tmp_path / "mine" / A).read_bytes() == b"precious"
    assert (cache.root / A).read_bytes() == b"precious"
    assert sorted(path.name for path in (cache.root / "documents").iterdir()) == [B, "notes.txt"]


@pytest.mark.parametrize("tag", [None, b"Signature: 8a477f597d28d172789f06886806bc55\n# made by a compiler\n"])
def test_a_folder_that_is_something_else_is_left_as_it_is(tmp_path: Path, tag: bytes | None) -> None:
    folder = tmp_path / "work"
    (folder / "objects").mkdir(parents=True)
    (folder / "objects" / A).write_bytes(b"precious")
    if tag:
        (folder / "CACHEDIR.TAG").write_bytes(tag)
    before = sorted(folder.rglob("*"))
    cache = Cache(folder, limit=1)
    with pytest.raises(NotACacheFolderError), cache.new("documents", A):
        pytest.fail("there is nowhere to write")
    with pytest.raises(NotACacheFolderError):
        cache.clear()
    cache.trim()
    assert not cache.usable
    assert sorted(folder.rglob("*")) == before
    assert (folder / "objects" / A).read_bytes() == b"precious"


# -- the folder --------------------------------------------------------------------------------------------------------------


def test_the_folder_is_for_its_owner_only_and_backups_pass_it_by(cache: Cache) -> None:
    before = os.umask(0)
    try:
        keep(cache, "documents", A)
    finally:
        os.umask(before)
    folders = [cache.root, *(path for path in cache.root.iterdir() if path.is_dir())]
    assert {path.name: path.stat().st_mode & 0o777 for path in folders} == dict.fromkeys(
        ("cache", "documents", ".unfinished"), 0o700
    )
    tag = (cache.root / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_an_open_folder_of_the_user_has_closed_ones_inside(cache: Cache) -> None:
    cache.root.mkdir(mode=0o755)
    assert (keep(cache, "documents", A).parent.stat().st_mode & 0o777) == 0o700


def test_a_link_to_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    cache = Cache(tmp_path / "cache")
    keep(cache, "documents", A, b"text")
    assert (tmp_path / "elsewhere" / "documents" / A).read_bytes() == b"text"
    assert cache.clear() == 4


def test_a_folder_that_cannot_be_made_stands_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = Cache(tmp_path / "file" / "cache")
    assert not cache.usable
    assert cache.path("documents", A) is None
    cache.touch("documents", [A])
    cache.discard("documents", A)
    cache.trim()
    assert cache.size() == {}
    with pytest.raises(OSError, match="Not a directory"), cache.new("documents", A):
        pytest.fail("there is nowhere to write")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_a_folder_that_cannot_be_written_can_be_read(cache: Cache) -> None:
    keep(cache, "documents", A, b"text", used=2 * HOUR)
    for folder in (cache.root / "documents", cache.root / ".unfinished", cache.root):
        folder.chmod(0o500)
    place = cache.path("documents", A)
    assert place is not None
    assert place.read_bytes() == b"text"
    assert not cache.usable
    cache.trim()
    with pytest.raises(PermissionError):
        cache.clear()
    assert cache.path("documents", A) is not None


# -- several processes at once -------------------------------------------------------------------------------------------------

# Each reads, or writes what is not there, touches, trims and clears the same few entries. One that is in its place and not whole
# is told on stdout.
BUSY = """
import json, os, random
chance, done, damaged = random.Random(int(sys.argv[2])), {"read": 0, "written": 0, "gone": 0, "cleared": 0}, []
cache = Cache(cache.root, 40_000)

def write(kind, key):
    with cache.new(kind, key) as path:
        with path.open("wb") as file:
            for _ in range(12):
                file.write(key.encode() * 100)
                file.flush()
        if chance.random() < 0.05:
            raise ValueError
    done["written"] += 1

def read(key, path):
    try:
        if path.read_bytes() != key.encode() * 1200:
            damaged.append(key)
        done["read"] += 1
    except FileNotFoundError:
        done["gone"] += 1

for turn in range(500):
    number = chance.randrange(20)
    kind, key = "corpora" if number % 2 else "documents", f"{number:08x}"
    action = chance.random()
    if action < 0.9:
        path = cache.path(kind, key)
        try:
            read(key, path) if path else write(kind, key)
        except ValueError:
            pass
    elif action < 0.94:
        cache.touch(kind, [key])
    elif action < 0.98:
        cache.trim()
    else:
        done["cleared"] += cache.clear(chance.choice([None, "corpora", "documents"])) > 0
        cache.size()
print(json.dumps([done, damaged]))
"""


def test_four_processes_at_once_believe_no_half_entry(cache: Cache) -> None:
    code = f"{IMPORTS}cache = Cache(Path(sys.argv[1]))\n{BUSY}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(cache.root), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for seed in range(4)
    ]
    told = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        done, damaged = json.loads(out)
        assert damaged == []
        told.append(done)
    total = {name: sum(done[name] for done in told) for name in told[0]}
    assert total["read"] > 100
    assert total["written"] > 100
    assert total["cleared"] > 4
    last = Cache(cache.root, 40_000)
    for entry in last.entries():
        assert entry.path.read_bytes() == entry.path.name.encode() * 1200
    last.trim()
    assert sum(entry.bytes for entry in last.entries()) <= 40_000
    assert unfinished(cache) == []


# -- other users, links, pipes -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
def test_a_folder_that_others_can_write_is_not_used(cache: Cache, mode: int) -> None:
    keep(cache, "documents", A)
    cache.root.chmod(mode)
    assert not cache.usable
    with pytest.raises(NotACacheFolderError, match="other users can write it"):
        cache.check_ours()
    with pytest.raises(NotACacheFolderError), cache.new("documents", B):
        pytest.fail("there is nowhere to write")
    cache.root.chmod(0o755)
    assert cache.usable


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only the superuser gives folders away")
def test_a_folder_of_another_user_is_not_used(cache: Cache) -> None:
    keep(cache, "documents", A)
    os.chown(cache.root, 65534, 65534)
    assert not cache.usable
    with pytest.raises(NotACacheFolderError, match="another user"):
        cache.clear()
    assert cache.path("documents", A) is not None


def test_a_kind_that_is_a_link_is_neither_read_nor_written(cache: Cache, tmp_path: Path) -> None:
    assert cache.usable
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / A).write_bytes(b"precious")
    os.utime(tmp_path / "mine" / A, (1, 1))
    (cache.root / "documents").symlink_to(tmp_path / "mine")
    assert cache.path("documents", A) is None
    assert cache.load("documents", A, Path.read_bytes) is None
    assert cache.keys("documents") == set()
    assert not cache.store("documents", B, lambda path: path.write_bytes(b"text"))
    cache.touch("documents", [A])
    cache.discard("documents", A)
    assert os.listdir(tmp_path / "mine") == [A]
    assert (tmp_path / "mine" / A).stat().st_mtime == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_a_pipe_in_the_place_of_the_mark_is_not_waited_for(cache: Cache) -> None:
    keep(cache, "documents", A)
    (cache.root / "CACHEDIR.TAG").unlink()
    os.mkfifo(cache.root / "CACHEDIR.TAG")
    code = "print(cache.usable); cache.trim(); cache.store('documents', 'b' * 64, lambda path: path.write_bytes(b'1'))"
    assert python(code, cache.root).stdout == "False\n"


def test_a_cache_that_holds_nothing_touches_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **named: object) -> None:
        pytest.fail("a folder is made")

    monkeypatch.setattr(os, "mkdir", fail)
    assert not NOWHERE.store("documents", "aaaaaaaa", fail)
    assert NOWHERE.load("documents", "aaaaaaaa", fail) is None
    assert NOWHERE.path("documents", "aaaaaaaa") is None
    assert NOWHERE.keys("documents") == set()
    NOWHERE.discard("documents", "aaaaaaaa")
    NOWHERE.trim()


def test_a_json_entry_is_replaced_and_one_of_a_wrong_form_is_removed(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path / "cache"), "0" * 64
    assert cache.read_json("pace", key, dict) is None
    assert cache.write_json("pace", key, {"load": [1.5, 1]})
    assert cache.write_json("pace", key, {"load": [2.5, 1]})
    assert cache.read_json("pace", key, lambda entry: entry["load"][0]) == 2.5
    assert cache.read_json("pace", key, lambda entry: float(entry["load"] and "x")) is None
    assert cache.keys("pace") == set()


def test_a_bug_of_what_reads_an_entry_is_no_damage(cache: Cache) -> None:
    assert cache.write_json("pace", A, {"load": 1})
    for bug in (TypeError, KeyError, AttributeError):
        with pytest.raises(bug):
            cache.read_json("pace", A, partial(_raise, bug))
    assert cache.keys("pace") == {A}


def _raise(error: type[Exception], entry: object) -> None:
    raise error


def test_a_file_that_is_no_file_of_arrays_is_damaged(cache: Cache) -> None:
    for data in (b"", b"x" * 300, b"fbrag\x00\x00\x02" + b"\xff" * 60):
        assert cache.store("pace", A, lambda path, data=data: path.write_bytes(data))  # type: ignore[misc]
        assert cache.read_json("pace", A, dict) is None
        assert cache.keys("pace") == set()
