"""Servers of a session that lives long: what is opened for them is let go."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.session.models import ModelPool, Models
from fbrag_cli.session.settings import ModelSettings
from tests.servers import Loopback


def threads_of_servers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "server"]


def test_no_thread_is_left_of_a_server_that_fails_or_is_closed() -> None:
    before = threads_of_servers()
    with Loopback() as server:
        with closing(ModelPool(Models(ModelSettings(), Listener()))) as servers:
            servers.load(server.address)
            assert len(threads_of_servers()) == len(before) + 1
            with pytest.raises(FbragError, match="no model blue"):
                servers.load(f"{server.address}#blue")
        for thread in set(threads_of_servers()) - set(before):
            thread.join(5)
    assert threads_of_servers() == before
