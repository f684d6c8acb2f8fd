"""No server, batch or trained folder ends the command in a traceback, a signal, 70, or by accident in 1, or destroys a file."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
from safetensors.numpy import save_file

from fbrag_cli.generation.server.client import Endpoint, Timeouts
from fbrag_cli.methods.r2ag.method import list_words
from fbrag_cli.storage.files import sha256_of
from tests.hostile import MADE, NAMES, PRECIOUS, STRANGE, changed
from tests.methods.relevance.test_former import TENSORS, write
from tests.servers import Handler, Loopback, status, stream
from tests.test_hostile import Ended, Here, here

__all__ = ["here"]

_EVENT = {
    "id": "1",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Tamsin Vale. "}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
    "prompt_progress": {"processed": 5, "total": 9},
}
_TOP = [{"token": "Yes", "logprob": -0.1}, {"token": " no", "logprob": -3.0}]
_HELLO = {"choices": [{"message": {"content": "Hi"}, "logprobs": {"content": [{"top_logprobs": _TOP}]}}]}
_MODELS = {
    "data": [{"id": "tiny", "object": "model", "max_model_len": 4096, "owned_by": "x", "meta": {"n": 1}, "aliases": ["a"]}]
}
_PROPS = {"build_info": "b1", "chat_template": "{{ x }}", "default_generation_settings": {"n_ctx": 4096}, "model_path": "m.gguf"}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Endpoint.__init__, "__defaults__", (None, Timeouts(connect=2, first=2, idle=0.5, retry=0.01), None))


def _asked(here: Here, server: Loopback, *more: str) -> Ended:
    begun = monotonic()
    models = ("-m", f"{server.address}#tiny", "--small", f"{server.address}#tiny")
    done = here("ask", "fine.txt", "Who sailed?", *models, "--samples", "2", "--no-cache", *more).within(0, 1, 4)
    assert monotonic() - begun < 30
    return done


def _events(*events: object) -> Iterator[bytes]:
    for event in events:
        yield f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()


@pytest.mark.usefixtures("hasty")
def test_every_stream_of_a_server_is_an_answer_or_one_line(here: Here) -> None:
    shapes = [*changed(_EVENT, 24), *STRANGE, "{", "[DONE]", "NaN", {"error": {"message": "\x1b[31m", "code": "x"}}]
    for number, shape in enumerate(shapes):

        def reply(handler: Handler, body: object, shape: object = shape) -> None:
            handler.begin()
            handler.wfile.write(b"".join(_events(shape, _EVENT, "[DONE]")))

        with Loopback() as server:
            server.default = reply
            done = _asked(here, server, *(("--json",) if number % 2 else ("--html", "page.html")))
        if done.out and number % 2:
            json.loads(done.out)


@pytest.mark.usefixtures("hasty")
def test_every_whole_reply_of_a_server_is_an_answer_or_one_line(here: Here) -> None:
    whole = {**_HELLO, "usage": _EVENT["usage"]}
    for shape in changed(whole, 12):
        with Loopback() as server:
            server.default = status(200, shape)
            _asked(here, server)
    for code in (100, 201, 204, 302, 400, 404, 413, 429, 500, 501, 999):
        with Loopback() as server:
            server.default = status(code, "\x1b[31m" * 9, Location="http://127.0.0.1:9/?31m")
            _asked(here, server)


@pytest.mark.usefixtures("hasty")
def test_every_account_of_a_server_is_believed_or_one_line(here: Here) -> None:
    for models, props, hello in zip(changed(_MODELS, 16, 1), changed(_PROPS, 16, 2), changed(_HELLO, 16, 3), strict=True):
        with Loopback(hello=status(200, hello)) as server:
            server.pages = {"/v1/models": models, "/props": props}
            _asked(here, server)


@pytest.mark.usefixtures("hasty")
def test_a_batch_destroys_no_file_and_ends_in_one_line(here: Here) -> None:
    Path("q.txt").write_text("Who sailed?\n")
    with Loopback() as server:
        command = ("batch", "fine.txt", "-Q", "q.txt", "-m", server.address, "--small", server.address)
        for name, data in PRECIOUS.items():
            Path(name).write_bytes(data)
            here(*command, "-o", name).within(2)
            assert Path(name).read_bytes() == data, name
        for taken in ("fine.txt", "q.txt"):
            before = Path(taken).read_bytes()
            for option in ("-o", "--restart -o", "--html"):
                here(*command, *option.split(), taken).within(2)
                assert Path(taken).read_bytes() == before, (taken, option)
        here(*command, "-o", "rows.jsonl").within(0)
        honest = Path("rows.jsonl").read_bytes()
        lacking = json.loads(honest)
        del lacking["error"]
        lies = [{"status": [None]}, {"error": {"message": 5}}, {"error": {}}, {"unsupported_answer": [1]}, {"answer": {}}]
        for row in (lacking, *({**json.loads(honest), **lie} for lie in lies), *changed(json.loads(honest), 16)):
            Path("rows.jsonl").write_text(json.dumps(row) + "\n")
            before = Path("rows.jsonl").read_bytes()
            code = here(*command, "-o", "rows.jsonl", "--html", "made.html").within(0, 1, 2).code
            assert code != 2 or Path("rows.jsonl").read_bytes() == before


@pytest.mark.usefixtures("hasty")
def test_a_batch_over_everything_hostile_has_a_row_for_each_question(here: Here, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "all"
    folder.mkdir()
    for name in random.Random(2).sample(sorted(MADE), 12):
        (folder / name).write_bytes(MADE[name])
    for number, raw in enumerate(NAMES[:6]):
        (folder / raw.decode("utf-8", "surrogateescape").replace("/", "_")).write_text(f"The brig {number} sailed.")
    Path("q.jsonl").write_text(
        "".join(json.dumps({"id": text[:50], "question": text}) + "\n" for text in ("Who?", "=1+1", "\u202eWho?"))
    )
    with Loopback(hello=stream("x")) as server:
        server.default = stream("=HYPERLINK(1)", "\x1b[31m", "\ud800")
        for form in ("rows.jsonl", "rows.csv"):
            models = ("-m", server.address, "--small", server.address)
            here("batch", "all", "-Q", "q.jsonl", *models, "-o", form).within(0, 1)
            data = Path(form).read_bytes()
            assert b"\x1b" not in data
            assert b"\n=HYPERLINK" not in data
            assert b",=HYPERLINK" not in data
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text("utf-8").splitlines()]
    ids: dict[str, list[str | None]] = {}
    for row in rows:
        ids.setdefault(row["document"], []).append(row["id"])
    assert len(ids) == len(list(folder.iterdir()))
    assert all(of == [None] or len({*of}) == len(of) == 3 for of in ids.values())  # one row for a document that cannot be read


def test_every_trained_folder_is_used_or_refused(here: Here, tmp_path: Path) -> None:
    folder = write(tmp_path / "work" / "made", words=list_words())
    Path("two.txt").write_text("The brig sailed at noon. " * 90 + "Tamsin Vale kept the lamp. " * 90)
    command = ("explain", "--method", "r2ag", "--set", "r2ag=made", "two.txt", "Who kept the lamp?")
    honest = json.loads((folder / "r2ag.json").read_text())

    def used() -> None:
        begun = monotonic()
        done = here(*command).within(0, 2, 4)
        assert "Warning:" not in done.err
        assert monotonic() - begun < 20

    here(*command).within(0)
    for about in changed(honest, 30):
        (folder / "r2ag.json").write_text(json.dumps(about))
        used()
    dice, data = random.Random(4), (folder / TENSORS).read_bytes()
    for number in range(24):
        spoiled = bytearray(data)
        for _ in range(dice.choice((1, 9))):
            spoiled[dice.randrange(8 if number % 3 == 0 else 900 if number % 3 == 1 else len(data))] = dice.randrange(256)
        (folder / TENSORS).write_bytes(spoiled)
        (folder / "r2ag.json").write_text(json.dumps(honest | {"files": {TENSORS: sha256_of(folder / TENSORS)}}))
        used()
    save_file({"x": np.zeros(3, np.float32)}, folder / TENSORS)
    used()
    shutil.rmtree(folder)
    used()
