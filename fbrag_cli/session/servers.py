"""Servers as models by the addresses that users give: each is asked what it has, and told where the text goes, once a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import Address
from fbrag_cli.generation.server.key import server_key
from fbrag_cli.progress import Event, Progress
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.generation.server.about import About
    from fbrag_cli.generation.server.generator import ServerGenerator
    from fbrag_cli.generation.server.host import Host


class Servers:
    """Generators for servers, by their addresses."""

    def __init__(self, settings: ModelSettings, progress: Progress, cancellation: Cancellation) -> None:
        self._settings, self._progress, self._cancellation = settings, progress, cancellation
        self._hosts: dict[str, tuple[Host, About]] = {}
        self._opened: dict[str, ServerGenerator] = {}

    def check(self, name: str) -> None:
        """Raise FbragError `usage` for an address that is none, `gpu_unavailable` with `--gpu require`. Nothing is sent."""
        address = Address.parse(name)
        if self._settings.gpu == "require":
            what = f"--gpu require: whether {address.origin} computes on a GPU is not known"
            raise FbragError("gpu_unavailable", what, "leave out --gpu require, or name models of this machine")

    def identity(self, name: str) -> list[object]:
        """Return what a server's replies depend on beside the prompt, for a key of the cache: no text is sent for it."""
        host, about = self._host(name)
        return [host.address.base, about.model, about.identity]

    def open(self, name: str, *, answers: bool) -> ServerGenerator:
        """Return the generator for an address. Its first call says where the text goes. answers: whether this model answers.

        Raises FbragError `usage` for an address or a key that is none, and what `about` and `ServerGenerator` raise.
        """
        from fbrag_cli.generation.server.generator import ServerGenerator

        if name not in self._opened:
            host, about = self._host(name)
            self._say_where(host.address, about.model)
            generator = ServerGenerator(host, about, max_context=self._settings.ctx, cancellation=self._cancellation)
            self._opened[name] = generator
            for problem in generator.problems if answers else ():
                self._progress(Event("load", "warning", text=problem))
        return self._opened[name]

    @property
    def origins(self) -> list[str]:
        """The servers in use, as "http://host:8080"."""
        return list(dict.fromkeys(Address.parse(name).origin for name in self._opened))

    def close(self) -> None:
        for host, _ in self._hosts.values():
            host.close()
        self._hosts.clear()
        self._opened.clear()

    def _host(self, name: str) -> tuple[Host, About]:
        from fbrag_cli.generation.server.about import about
        from fbrag_cli.generation.server.host import Host

        if name not in self._hosts:
            host = Host(Address.parse(name), server_key(self._settings.key_file, os.environ), warn=self._warn)
            self._hosts[name] = host, about(host, self._cancellation)
        return self._hosts[name]

    def _say_where(self, address: Address, model: str) -> None:
        where = f"the text goes to {address.origin} (model {one_line(model, 80)})"
        if address.is_loopback:
            self._progress(Event("load", "note", text=where))
        else:
            secret = "" if address.encrypted else ", and unencrypted"
            self._warn(f"{where}: it leaves this machine{secret}")

    def _warn(self, text: str) -> None:
        self._progress(Event("load", "warning", text=text))
