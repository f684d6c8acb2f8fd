"""A request to stop ends the call that carries it, in whatever thread, and nothing else."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions, Message, Sampling
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.machine import native_log
from fbrag_cli.generation.llama.weights import Loading

STORY = "The lighthouse keeper Anna wrote in her log that the brig Meridian had passed at noon with a torn sail. "
LONG = (Message("user", STORY * 240),)  # many seconds
SHORT = (Message("user", STORY),)
SAMPLING = Sampling(12, seed=5)
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")


PATIENCE = 60  # seconds, beyond which something hangs


class Stopped(Exception):
    pass


class Reading:
    """Notes how much of a prompt is read. begun: set once some of it is."""

    def __init__(self) -> None:
        self.begun, self.done, self.total = threading.Event(), 0, 0

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if done:
            self.begun.set()


@pytest.fixture(scope="module")
def single(smollm2: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(smollm2, Loading(threads=1)) as loaded:
        yield loaded


@pytest.fixture
def alarm() -> Iterator[Cancellation]:
    """A cancellation that SIGALRM interrupts."""
    cancellation = Cancellation()
    before = signal.signal(signal.SIGALRM, lambda number, frame: cancellation.interrupt(Stopped()))
    yield cancellation
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_call_in_another_thread_is_stopped_and_the_next_one_is_as_ever(single: LlamaGenerator) -> None:
    expected = single.generate(SHORT, 2, SAMPLING).samples
    cancellation, reading = Cancellation(), Reading()
    options = CallOptions(cancellation=cancellation, on_prompt=reading)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(single.generate, LONG, 2, SAMPLING, options)
        assert reading.begun.wait(PATIENCE)
        cancellation.request(Stopped("one"))
        cancellation.request(Stopped("two"))
        with pytest.raises(Stopped, match="one"):
            running.result()
        assert reading.done < reading.total / 2
        again = pool.submit(single.generate, SHORT, 2, SAMPLING, CallOptions(cancellation=Cancellation()))
        assert again.result().samples == expected


def test_a_call_whose_cancellation_was_requested_before_reads_nothing(single: LlamaGenerator) -> None:
    cancellation = Cancellation()
    cancellation.request(Stopped())
    read: list[int] = []
    with pytest.raises(Stopped):
        single.generate(
            SHORT, 1, SAMPLING, CallOptions(cancellation=cancellation, on_prompt=lambda done, total: read.append(done))
        )
    with pytest.raises(Stopped):
        single.choice_probabilities(SHORT, ("yes", "no"), CallOptions(cancellation=cancellation))
    assert read == []


@POSIX
@pytest.mark.parametrize("carried", [True, False], ids=["the call carries it", "the call carries none"])
def test_a_signal_stops_native_code_in_the_main_thread(single: LlamaGenerator, alarm: Cancellation, carried: bool) -> None:
    reading = Reading()

    def ring() -> None:
        if reading.begun.wait(PATIENCE):
            os.kill(os.getpid(), signal.SIGALRM)

    threading.Thread(target=ring).start()
    with pytest.raises(Stopped):
        single.generate(LONG, 1, SAMPLING, CallOptions(cancellation=alarm if carried else None, on_prompt=reading))
    assert reading.done < reading.total / 2
    assert single.generate(SHORT, 1, SAMPLING).samples


@POSIX
def test_a_signal_outside_native_code_raises_at_once(alarm: Cancellation) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(Stopped):
        sleep(PATIENCE)
    assert alarm.requested


def test_loading_is_stopped_too(smollm2: Path) -> None:
    cancellation = Cancellation()
    cancellation.request(FbragError("timeout", "no answer within 1 s", None))
    with pytest.raises(FbragError, match="no answer"):
        LlamaGenerator(smollm2, Loading(cancellation=cancellation))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_while_a_context_is_made_is_raised_and_not_lost_in_the_log(
    smollm2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancellation = Cancellation()

    class Lines(deque[str]):
        def append(self, line: str) -> None:
            if not cancellation.requested:  # as a signal handler that runs in the callback
                cancellation.interrupt(FbragError("timeout", "no answer", ""))

    generator = LlamaGenerator(smollm2, Loading(cancellation=cancellation))
    with monkeypatch.context() as patched:
        patched.setattr(native_log._lines, "last", Lines())
        with pytest.raises(FbragError, match="no answer"):
            generator.generate([Message("user", "Hello")], 1, Sampling(2), CallOptions(cancellation=cancellation))
    generator.close()


def test_a_time_limit_works_in_any_thread_and_can_be_taken_back() -> None:
    error = FbragError("timeout", "timed out after 0.05 s", None)

    def wait() -> Cancellation:
        limited, unlimited = Cancellation(), Cancellation()
        unlimited.after(0.05, error).cancel()
        limited.after(0.05, error)
        while not limited.requested:
            sleep(0.01)
        with pytest.raises(FbragError) as caught:
            limited.raise_if_requested()
        assert caught.value is error
        return unlimited

    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(wait).result().requested


def test_native_code_within_native_code_leaves_the_outer_one_running() -> None:
    outer, passed = Cancellation(), []

    def run() -> None:
        with outer.native():
            with Cancellation().native():
                pass
            Cancellation().interrupt(Stopped())  # as the handler of a signal: nothing is raised within native code
            passed.append("interrupt")

    with pytest.raises(Stopped):
        run()
    assert passed == ["interrupt"]
