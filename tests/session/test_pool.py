"""`Pool`: each value is made once, whoever asks for it and when, and is freed once nobody holds it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event, Thread

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event as Progress
from fbrag_cli.progress import Listener
from fbrag_cli.session.pool import Lease, Pool

SECONDS = 60  # within which a thread is done, on a busy machine


def lease() -> Lease:
    return Lease(Listener())


def never(owned: ExitStack) -> str:
    raise AssertionError("it is made again")


class Held:
    """A value that takes long to make."""

    def __init__(self, freed: list[str] | None = None) -> None:
        self.begun, self.let, self.freed = Event(), Event(), freed if freed is not None else []

    def make(self, owned: ExitStack) -> str:
        self.begun.set()
        assert self.let.wait(SECONDS)
        owned.callback(self.freed.append, "held")
        return "held"


def made(key: str, freed: list[str]) -> Callable[[ExitStack], str]:
    def make(owned: ExitStack) -> str:
        owned.callback(freed.append, key)
        return key

    return make


@pytest.fixture
def eager_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_only_callers_of_the_same_key_wait_and_one_of_them_makes_it() -> None:
    pool, held = Pool[str, str](), Held()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(pool.get, "a", held.make, lease())
        assert held.begun.wait(SECONDS)
        second = threads.submit(pool.get, "a", never, lease())
        assert pool.get("b", lambda _: "b", lease()) == "b"
        held.let.set()
        assert first.result(SECONDS) == second.result(SECONDS) == "held"


def test_what_failed_is_made_by_the_next_caller_and_is_freed_as_far_as_it_was_made() -> None:
    pool, freed = Pool[str, str](), list[str]()

    def fail(owned: ExitStack) -> str:
        owned.callback(freed.append, "half")
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            pool.get("a", fail, lease())
    assert freed == ["half", "half"]
    assert not pool._entries, "nothing is kept of a key without a value"
    assert pool.get("a", lambda _: "a", lease()) == "a"


def test_a_stop_ends_the_wait_for_what_another_makes() -> None:
    pool, held, stop = Pool[str, str](), Held(), Cancellation()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(pool.get, "a", held.make, lease())
        assert held.begun.wait(SECONDS)
        waiting = threads.submit(pool.get, "a", never, Lease(Listener(cancellation=stop)))
        stop.request(FbragError("timeout", "the client has gone", None))
        with pytest.raises(FbragError, match="has gone"):
            waiting.result(SECONDS)
        held.let.set()
        assert first.result(SECONDS) == "held"


def test_what_is_begun_is_waited_for_and_said_to_load() -> None:
    events: list[Progress] = []
    pool, held, used = Pool[str, str](stage="load"), Held(), Lease(Listener(progress=events.append))
    pool.begin("a", held.make, Cancellation())
    pool.begin("a", never, Cancellation())
    assert held.begun.wait(SECONDS)
    assert pool.values() == {}
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(pool.get, "a", never, used)
        held.let.set()
        assert found.result(SECONDS) == "held"
    assert used.seconds > 0
    assert [(each.stage, each.kind) for each in events] == [("load", "start"), ("load", "done")]
    assert pool.get("a", never, Lease(Listener(progress=events.append))) == "held"
    assert len(events) == 2


def test_what_fails_ahead_is_made_by_who_asks_for_it() -> None:
    pool, tried = Pool[str, str](), Event()

    def fail(owned: ExitStack) -> str:
        tried.set()
        raise ZeroDivisionError

    pool.begin("a", fail, Cancellation())
    assert tried.wait(SECONDS)
    assert pool.get("a", lambda _: "a", lease()) == "a"


def test_what_is_begun_and_nobody_asked_for_is_freed_at_the_end() -> None:
    freed: list[str] = []
    pool, held = Pool[str, str](), Held(freed)
    pool.begin("a", held.make, Cancellation())
    with ThreadPoolExecutor(1) as threads:
        closed = threads.submit(pool.close)
        assert held.begun.wait(SECONDS)
        held.let.set()
        closed.result(SECONDS)
    assert freed == ["held"]


def test_the_least_recently_used_that_nobody_holds_is_let_go() -> None:
    freed: list[str] = []
    pool = Pool[str, str](most=2)

    def use(key: str) -> None:
        with lease() as held:
            pool.get(key, made(key, freed), held)

    with lease() as kept:
        pool.get("a", made("a", freed), kept)
        for key in ("b", "c", "b", "d"):
            use(key)
        assert freed == ["b", "c", "b"]  # "a" is held
    use("e")
    assert freed == ["b", "c", "b", "a"]
    pool.close()
    assert sorted(freed[4:]) == ["d", "e"]


def test_a_caller_waits_for_nothing_that_is_there_and_holds_it_once() -> None:
    pool, used = Pool[str, str](), lease()
    pool.get("a", lambda _: "a", used)
    waited = used.seconds
    assert waited > 0
    assert pool.get("a", never, used) == "a"
    assert used.seconds == waited
    pool.evict_idle(0)
    assert pool.values()
    used.__exit__()
    pool.evict_idle(3600)
    assert pool.values()
    pool.evict_idle(0)
    assert not pool.values()


def test_a_value_is_not_let_go_between_its_making_and_its_first_use(eager_threads: None) -> None:
    freed: list[str] = []
    pool: Pool[str, str] = Pool()
    done = Event()

    def evict() -> None:
        while not done.is_set():
            pool.evict_idle(0)

    thread = Thread(target=evict)
    thread.start()
    try:
        for key in map(str, range(2000)):
            with lease() as held:
                assert pool.get(key, made(key, freed), held) == key
                assert key not in freed[-2:], "it is held, and was let go"
    finally:
        done.set()
        thread.join()
    pool.close()
    assert sorted(freed, key=int) == list(map(str, range(2000)))
