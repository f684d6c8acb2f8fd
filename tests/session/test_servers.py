"""Servers of a session that lives long: nothing is left of them."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.session.servers import Servers
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.session.shelf import Lease
from tests.servers import Loopback


def test_all_servers_share_one_thread() -> None:
    with Loopback() as server:
        for _ in range(2):
            with closing(Servers(ModelSettings(), Listener())) as servers:
                servers.open(server.address, Lease(Listener()), answers=True)
                with pytest.raises(FbragError, match="no model blue"):
                    servers.open(f"{server.address}#blue", Lease(Listener()), answers=True)
    assert [each.name for each in threading.enumerate()].count("servers") == 1
