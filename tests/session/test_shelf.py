"""`Shelf`: what is made is held before anybody can let it go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from fbrag_cli.progress import Listener
from fbrag_cli.session.shelf import Lease, Shelf


@pytest.fixture
def eager_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_value_is_not_let_go_between_its_making_and_its_first_use(eager_threads: None) -> None:
    freed: list[int] = []
    shelf: Shelf[int, int] = Shelf(freed.append)
    done = Event()

    def unload() -> None:
        while not done.is_set():
            shelf.unload(idle=0)

    thread = Thread(target=unload)
    thread.start()
    try:
        for key in range(2000):
            with Lease(Listener()) as lease:
                assert shelf.get(key, lambda key=key: key, lease) == key
                assert key not in freed[-2:], "it is held, and was let go"
    finally:
        done.set()
        thread.join()
    shelf.close()
    assert sorted(freed) == list(range(2000))
