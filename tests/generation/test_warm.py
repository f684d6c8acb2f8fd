"""Models that the warm process lends: they reply as in this process, and their calls stop."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Call, EmbeddingRows, Generations, Sampling, Turn
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.warm.connection import is_trusted, lines
from fbrag_cli.generation.warm.generator import DeclinedError, WarmGenerator
from fbrag_cli.generation.warm.process import WarmProcess
from fbrag_cli.generation.warm.wire import Wanted
from fbrag_cli.models.store import ModelFile
from fbrag_cli.progress import Listener
from fbrag_cli.session.models import Models
from fbrag_cli.session.placement import conditions
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.session.shelf import Lease
from fbrag_cli.session.warm_models import WarmModels
from tests.generation.tiny_gguf import Tiny

uvicorn = pytest.importorskip("uvicorn")

SETTINGS = ModelSettings(gpu="off", threads=1)
QUESTION = [Turn("user", "Name three colours of the rainbow.")]
SAMPLING = Sampling(max_tokens=12, seed=7)


@contextmanager
def served(models: Models, path: Path) -> Iterator[uvicorn.Server]:
    """Serve the routes on a Unix socket, as the warm process does."""
    from starlette.applications import Starlette

    from fbrag_cli.serving.http.model_calls import routes

    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes(models)), log_config=None, lifespan="off"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield server
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    found = Models(SETTINGS)
    yield found
    found.close()


@pytest.fixture(scope="module")
def process(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that lends `models`."""
    path = tmp_path_factory.mktemp("warm") / "serve.sock"
    with served(models, path):
        yield path


@pytest.fixture(scope="module")
def here(smollm2: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(smollm2, Loading(threads=1, name="smollm2")) as generator:
        yield generator


def wanted(path: Path, owner: str = "a") -> Wanted:
    return Wanted(
        name="smollm2", path=path, sha256=None, state=ModelFile("smollm2", path, None, None).state, large=True, owner=owner
    )


@pytest.fixture
def there(process: Path, smollm2: Path) -> WarmGenerator:
    return WarmGenerator(process, wanted(smollm2), Cancellation())


def same(left: Generations, right: Generations) -> bool:
    return replace(left, prefill_seconds=0, decode_seconds=0) == replace(right, prefill_seconds=0, decode_seconds=0)


# -- replies -----------------------------------------------------------------------------------------------------------------


def test_it_replies_as_the_same_model_in_this_process(here: LlamaGenerator, there: WarmGenerator) -> None:
    assert there.info == here.info
    assert there.continues_turns == here.continues_turns
    drawn = [generator.generate(QUESTION, 3, SAMPLING) for generator in (here, there)]
    assert same(*drawn)
    assert len({sample.text for sample in drawn[0].samples}) == 3
    continued = [*QUESTION, Turn("assistant", "The first is")]
    assert same(here.generate(continued, 1, SAMPLING), there.generate(continued, 1, SAMPLING))
    assert here.choose(QUESTION, ("yes", "no"), Call()) == there.choose(QUESTION, ("yes", "no"), Call())
    assert here.written(continued) == there.written(continued)
    assert here.count_tokens("ein Maß für Ωμέγα") == there.count_tokens("ein Maß für Ωμέγα")


def test_embedding_rows_arrive_as_they_are(here: LlamaGenerator, there: WarmGenerator) -> None:
    rows = EmbeddingRows.of(np.random.default_rng(1).normal(0, 0.1, (2, 576)).astype(np.float32))
    turns = [Turn.about(["Some colours: ", rows, "."], " Which are they?")]
    assert same(here.generate(turns, 2, SAMPLING), there.generate(turns, 2, SAMPLING))
    assert here.written(turns) == there.written(turns)


def test_progress_arrives_while_the_call_runs(here: LlamaGenerator, process: Path, smollm2: Path) -> None:
    there = WarmGenerator(process, wanted(smollm2, "there"), Cancellation())
    heard: dict[str, list[object]] = {}
    for generator, name in ((here, "here"), (there, "there")):
        events = heard[name] = []
        call = Call(
            owner=name,
            on_prompt=lambda done, total, events=events: events.append(("prompt", done, total)),
            on_written=lambda done, total, events=events: events.append(("written", done, total)),
            on_text=events.append,
        )
        generator.generate([Turn("user", "Name a bird. " * 20)], 2, SAMPLING, call)
    assert heard["there"] == heard["here"]
    assert len(heard["here"]) > 8


def test_errors_arrive_as_they_are(here: LlamaGenerator, there: WarmGenerator) -> None:
    errors = []
    for generator in (here, there):
        with pytest.raises(FbragError) as raised:
            generator.generate([Turn("user", "word " * 9000)], 1, SAMPLING)
        errors.append((raised.value.code, raised.value.message, raised.value.hint))
    assert errors[0] == errors[1]
    assert errors[0][0] == "prompt_too_long"


def test_a_file_that_is_no_model_is_the_error_of_loading_it(process: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(FbragError) as raised:
        WarmGenerator(process, wanted(path), Cancellation())
    assert raised.value.code == "model_corrupt"


def test_another_command_s_prompts_change_nothing(process: Path, smollm2: Path) -> None:
    """A command that comes later reads its prompts as if it were the first, though they begin as those of others."""
    first, second = (WarmGenerator(process, wanted(smollm2, owner), Cancellation()) for owner in ("first", "second"))
    begun = [Turn.about(["The sky is blue. " * 20], "What is blue?")]
    other = [Turn.about(["The sky is blue. " * 20], "Which colour has the sky?")]
    first.generate(begun, 1, SAMPLING)
    assert second.generate(other, 1, SAMPLING).cached_tokens == 0
    assert second.generate(begun, 1, SAMPLING).cached_tokens > 80


def test_many_commands_at_once_get_their_own_replies(process: Path, smollm2: Path) -> None:
    asked = [[Turn("user", f"What is {i} and {i}?")] for i in range(6)]
    alone = [
        WarmGenerator(process, wanted(smollm2, f"alone {i}"), Cancellation()).generate(each, 1, SAMPLING)
        for i, each in enumerate(asked)
    ]
    found: dict[int, Generations] = {}

    def ask(i: int) -> None:
        found[i] = WarmGenerator(process, wanted(smollm2, f"owner {i}"), Cancellation()).generate(asked[i], 1, SAMPLING)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(same(found[i], each) for i, each in enumerate(alone))


# -- the end of a call -------------------------------------------------------------------------------------------------------


def ended_within(seconds: float, is_over: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not is_over() and time.monotonic() < end:
        time.sleep(0.02)
    return is_over()


def n_calls() -> int:
    return sum(thread.name == "lent model" for thread in threading.enumerate())


LONG = [Turn("user", "Tell a story about the sea. " * 250)]


@pytest.mark.parametrize("moment", ["prompt", "written"])
def test_a_call_is_stopped_within_a_second(there: WarmGenerator, moment: str) -> None:
    cancellation, stopped = Cancellation(), []

    def stop(done: int, total: int) -> None:
        if done and not stopped:
            stopped.append(time.monotonic())
            threading.Thread(target=cancellation.request, args=(RuntimeError("enough"),)).start()

    call = Call(cancellation=cancellation, **{f"on_{moment}": stop})
    with pytest.raises(RuntimeError, match="enough"):
        there.generate(LONG if moment == "prompt" else QUESTION, 1, Sampling(max_tokens=4000, temperature=1.5), call)
    assert time.monotonic() - stopped[0] < 1
    assert ended_within(1, lambda: n_calls() == 0)


@pytest.mark.parametrize("moment", ["prompt", "written"])
def test_a_client_that_goes_away_stops_its_call_within_a_second(process: Path, smollm2: Path, moment: str) -> None:
    from fbrag_cli.generation.warm.wire import turns_as_json

    asked = {
        "model": wanted(smollm2, moment).json,
        "turns": turns_as_json(LONG if moment == "prompt" else QUESTION),
        "n": 1,
        "sampling": {"max_tokens": 4000, "temperature": 1.5, "top_p": 0.9, "top_k": 50, "seed": 0},
    }
    replies = lines(process, "generate", asked, Cancellation())
    while moment not in next(replies):
        pass
    assert n_calls() == 1
    replies.close()
    assert ended_within(1, lambda: n_calls() == 0)


@contextmanager
def saying(path: Path, *replies: bytes) -> Iterator[None]:
    """Listen on a socket, and send each client one of the replies, without its end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def reply() -> None:
            for each in replies:
                client, _ = listener.accept()
                with client:
                    client.recv(100_000)
                    client.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + each)

        thread = threading.Thread(target=reply)
        thread.start()
        yield
        thread.join()


LOADED = (
    b'{"result": {"info": {"name": "x", "sha256": null, "gpu_layers": "0/1", "context_tokens": 9}, "threads": 1, "problems": []}}'
    b"\n"
)


@pytest.mark.parametrize(
    "reply", [b"{}\n", b'{"result": ', b"\xff\n", b"[]\n", b'{"result": {"samples": 3}}\n', b'{"error": 1}\n']
)
def test_a_reply_that_ends_or_is_none_is_one_error(tmp_path: Path, smollm2: Path, reply: bytes) -> None:
    with saying(tmp_path / "serve.sock", LOADED, reply):
        generator = WarmGenerator(tmp_path / "serve.sock", wanted(smollm2), Cancellation())
        with pytest.raises(FbragError) as raised:
            generator.generate(QUESTION, 1, SAMPLING)
    assert raised.value.code == "warm_failed"
    assert raised.value.exit_code == 5
    assert raised.value.hint


# -- finding it --------------------------------------------------------------------------------------------------------------


def found(path: Path, settings: ModelSettings = SETTINGS) -> tuple[WarmProcess, list[str]]:
    said: list[str] = []
    return WarmProcess(socket=path, conditions=conditions(settings, os.environ), say=said.append), said


def test_it_is_found_where_it_has_the_same_settings(process: Path) -> None:
    warm, said = found(process)
    assert warm.hello() is not None
    assert not said
    warm, said = found(process, replace(SETTINGS, ctx=2048, threads=2))
    assert warm.hello() is None
    assert warm.hello() is None
    assert said == ["the warm process has other settings (threads, ctx): the models are loaded in this process"]


def test_another_version_is_left_alone(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fbrag_cli.generation.warm.process.__version__", "0.0.1")
    warm, said = found(process)
    assert warm.hello() is None
    assert len(said) == 1
    assert "and this is 0.0.1" in said[0]


@pytest.mark.parametrize("reply", [b"{}\n", b'{"gpus": 3}', b"no JSON"])
def test_what_is_no_warm_process_is_left_alone(tmp_path: Path, reply: bytes) -> None:
    tmp_path.chmod(0o700)
    with saying(tmp_path / "serve.sock", reply):
        warm, _ = found(tmp_path / "serve.sock")
        assert warm.hello() is None


def test_a_process_that_does_not_answer_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fbrag_cli.generation.warm.connection._REPLY_SECONDS", 0.3)
    tmp_path.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "serve.sock"))
        listener.listen()
        warm, said = found(tmp_path / "serve.sock")
        begun = time.monotonic()
        assert [warm.hello() for _ in range(5)] == [None] * 5
        assert time.monotonic() - begun < 1
    assert said == ["the warm process does not answer (timed out): the models are loaded in this process"]


def test_a_socket_that_nobody_listens_on_is_none(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    warm, said = found(path)
    assert warm.hello() is None
    assert said == ["the warm process was killed, and only its socket is there: the models are loaded in this process"]


def test_a_socket_in_a_folder_of_others_is_not_trusted(process: Path, tmp_path: Path) -> None:
    assert is_trusted(process)
    process.parent.chmod(0o777)
    assert not is_trusted(process)
    process.parent.chmod(0o700)
    (tmp_path / "file").touch()
    assert not is_trusted(tmp_path / "file")
    (tmp_path / "link").symlink_to(process)
    assert not is_trusted(tmp_path / "link")


# -- the models of a session -------------------------------------------------------------------------------------------------


def test_a_model_that_no_call_runs_on_is_freed_and_the_next_call_loads_it(
    there: WarmGenerator, models: Models, smollm2: Path
) -> None:
    drawn = there.generate(QUESTION, 1, SAMPLING)
    models.unload(0)
    assert not models._loaded.now()
    assert same(there.generate(QUESTION, 1, SAMPLING), drawn)


def test_a_file_that_changed_since_it_was_loaded_is_not_lent(process: Path, tmp_path: Path) -> None:
    path = Tiny().write(tmp_path / "tiny.gguf")
    WarmGenerator(process, wanted(path), Cancellation())
    Tiny(weights=0.3).write(tmp_path / "other.gguf").replace(path)
    with pytest.raises(DeclinedError, match="an earlier file"):
        WarmGenerator(process, wanted(path), Cancellation())


def test_ctrl_c_while_a_model_is_loaded_beside_is_told_by_the_command_alone(
    process: Path, smollm2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces: list[object] = []
    monkeypatch.setattr(threading, "excepthook", traces.append)
    cancellation, warm = Cancellation(), WarmModels(found(process)[0])
    cancellation.request(KeyboardInterrupt())
    before = set(threading.enumerate())
    warm.begin(ModelFile("smollm2", smollm2, None, None), cancellation, large=True)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert not traces


def test_more_calls_at_once_than_it_runs_are_said(process: Path, tmp_path: Path) -> None:
    warm, said = found(process)
    assert not warm.awaited(Cancellation(), 4)
    assert said == ["the warm process runs 1 call at once, and 4 are asked for: the models are loaded in this process"]


def test_a_busy_process_lends_no_more(process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fbrag_cli.serving.http.model_calls._MOST_CALLS", 0)
    warm, said = found(process)
    assert warm.hello()
    assert warm.model(wanted(Tiny().write(tmp_path / "tiny.gguf")), Cancellation()) is None
    assert len(said) == 1
    assert "calls wait there" in said[0]


def test_models_are_borrowed_where_they_are_lent(process: Path, tmp_path: Path) -> None:
    from fbrag_cli.session.warm_models import WarmModels

    path = Tiny().write(tmp_path / "tiny.gguf")
    models = Models(SETTINGS)
    warm, said = found(process)
    models.warm = WarmModels(warm)
    with Lease(Listener()) as lease:
        assert isinstance(models.load(str(path), lease=lease), WarmGenerator)
    assert models.has(str(path))
    assert models.device == "CPU, 1 thread"
    with pytest.raises(FbragError, match="cannot add"):
        models.load(str(path), path)
    assert said == ["tiny gets an adapter: the models are loaded in this process"]
    models.close()


def test_a_process_that_went_away_between_two_questions_is_replaced_by_this_one(tmp_path: Path) -> None:
    from fbrag_cli.session.warm_models import WarmModels

    path, lent, models = Tiny().write(tmp_path / "tiny.gguf"), Models(SETTINGS), Models(SETTINGS)
    tmp_path.chmod(0o700)
    warm, said = found(tmp_path / "serve.sock")
    models.warm = WarmModels(warm)
    with served(lent, tmp_path / "serve.sock"):
        assert isinstance(models.load(str(path)), WarmGenerator)
    (tmp_path / "serve.sock").unlink()
    assert isinstance(models.load(str(path)), LlamaGenerator)
    assert said == ["the warm process went away: the models are loaded in this process"]
    models.close()
    lent.close()
