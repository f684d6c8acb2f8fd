"""Servers as models, by the addresses that users give, or `local`. Each is looked for and asked once a run for what it has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import Address, is_local, sent_on, server_key
from fbrag_cli.progress import Event, Listener, stage
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.session.shelf import Lease, Shelf
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.generation.server.about import About
    from fbrag_cli.generation.server.client import Host
    from fbrag_cli.generation.server.generator import ServerGenerator
    from fbrag_cli.generation.server.local import LocalModel


class Servers:
    """Generators for servers, by their addresses. listener: receives the warnings of connections."""

    def __init__(self, settings: ModelSettings, listener: Listener) -> None:
        self._settings, self._listener = settings, listener
        self._chosen: Shelf[str, LocalModel] = Shelf()
        self._hosts: Shelf[str, tuple[Host, About]] = Shelf()
        self._opened: Shelf[str, ServerGenerator] = Shelf()

    def check(self, name: str) -> None:
        """Raise FbragError `usage` for an address that is none, `gpu_unavailable` with `--gpu require`. Nothing is sent."""
        where = name if is_local(name) else Address.parse(name).origin
        if self._settings.gpu == "require":
            what = f"--gpu require: whether {where} computes on a GPU is not known"
            raise FbragError("gpu_unavailable", what, "leave out --gpu require, or name models of this machine")

    def find(self, name: str, listener: Listener) -> None:
        """Find out what `local` means, so that nothing runs before it is known. Raises as `check` and `local.look`."""
        self.check(name)
        if is_local(name):
            self._address(name, listener)

    def identity(self, name: str, listener: Listener) -> list[object]:
        """Return what a server's replies depend on beside the prompt, for a key of the cache: no text is sent for it."""
        host, about = self._host(name, listener)
        return [host.address.base, about.model, about.identity]

    def has(self, name: str) -> bool:
        """Return whether `open` was called for this address."""
        return name in self._opened

    def open(self, name: str, lease: Lease, *, answers: bool, offline: bool = False) -> ServerGenerator:
        """Return the generator for an address. Its first call says where the text goes. answers: whether this model answers.

        Raises FbragError `usage` for an address or a key that is none, `offline` where no text may leave this machine and the
        server sends it on, and what `about` and `ServerGenerator` raise.
        """
        return self._opened.get(name, lambda: self._open(name, lease, answers=answers, offline=offline), lease)

    def _open(self, name: str, lease: Lease, *, answers: bool, offline: bool) -> ServerGenerator:
        from fbrag_cli.generation.server.generator import ServerGenerator

        listener = lease.listener
        with stage("load", listener.progress):
            host, about = self._host(name, listener)
            if offline and about.sent_on:
                raise sent_on(one_line(about.model, 80))
            if not is_local(name) or about.sent_on:  # of others it was said when they were found
                _say_where(host.address, about, listener)
            generator = ServerGenerator(host, about, max_context=self._settings.ctx, cancellation=listener.cancellation)
            for problem in generator.problems if answers else ():
                listener.progress(Event("load", "warning", text=problem))
        return generator

    @property
    def origins(self) -> list[str]:
        """The servers in use, as "http://host:8080"; for `local`, as "Ollama at 127.0.0.1:11434 (qwen3.5:4b)"."""
        chosen = {name: model.described for name, model in self._chosen.now().items()}
        return list(dict.fromkeys(chosen.get(name) or Address.parse(name).origin for name in self._opened.now()))

    def close(self) -> None:
        self._opened.close()
        self._hosts.close()

    def _host(self, name: str, listener: Listener) -> tuple[Host, About]:
        from fbrag_cli.generation.server.about import about
        from fbrag_cli.generation.server.client import Host

        def warn(text: str) -> None:
            self._listener.progress(Event("load", "warning", text=text))

        def make() -> tuple[Host, About]:
            key = None if is_local(name) else server_key(self._settings.key_file, os.environ)
            host = Host(self._address(name, listener), key, warn=warn)
            return host, about(host, listener.cancellation)

        return self._hosts.get(name, make, Lease(listener))

    def _address(self, name: str, listener: Listener) -> Address:
        """Return the address of a server; for `local`, that of the model which this run has found."""
        if not is_local(name):
            return Address.parse(name)
        return Address.parse(self._chosen.get(name, lambda: self._look(name, listener), Lease(listener)).address)

    def _look(self, name: str, listener: Listener) -> LocalModel:
        """Look for the servers of this machine, and say which model is taken. Raises FbragError as `local.look`."""
        from fbrag_cli.generation.server.local import look

        model = look(name, os.environ, listener.cancellation)
        listener.progress(Event("load", "note", text=f"local: {model.described}"))
        return model


def _say_where(address: Address, about: About, listener: Listener) -> None:
    where = f"the text goes to {address.origin} (model {one_line(about.model, 80)})"
    if about.sent_on:
        listener.progress(Event("load", "warning", text=f"{where}, which sends it to {about.sent_on}: it leaves this machine"))
    elif address.is_loopback:
        listener.progress(Event("load", "note", text=where))
    else:
        secret = "" if address.encrypted else ", and unencrypted"
        listener.progress(Event("load", "warning", text=f"{where}: it leaves this machine{secret}"))
