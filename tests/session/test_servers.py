"""Servers of a session that lives long: nothing is left of them."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.session.models import Models
from fbrag_cli.session.settings import ModelSettings
from tests.servers import Loopback


def test_all_servers_share_one_thread() -> None:
    with Loopback() as server:
        for _ in range(2):
            with closing(Models(ModelSettings(), Listener())) as servers:
                servers.load(server.address)
                with pytest.raises(FbragError, match="unknown model blue"):
                    servers.load(f"{server.address}#blue")
    assert [each.name for each in threading.enumerate()].count("servers") == 1
