"""Finds the models of servers that run on this machine: Ollama, LM Studio, llama.cpp's own.

Each is asked for its models by one GET at its default port. Neither the user's text nor a key is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, unquote

from fbrag_cli.cancellation import Cancellation, abandonable
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.about import entries, is_called, some
from fbrag_cli.generation.server.address import LOCAL, Address, is_in_cloud
from fbrag_cli.generation.server.client import Endpoint, Json, Timeouts, ask

_SECONDS = 1.0  # for all servers, which are asked in parallel
_MOST_NAMED = 6
_START = "start Ollama, LM Studio or llama-server, use a server's URL (http://host:port/v1#model), or: fbrag models pull"
# Embedding and ranking models. They cannot chat, and lists do not mark them.
_NO_CHAT = re.compile(r"embed|rerank|minilm|(^|[/_-])(bge|gte|e5)([._:-]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A chat model on a server on this machine. program: the server whose default port this is."""

    program: str
    port: int
    name: str

    @property
    def address(self) -> str:
        """The model for `--large`, such as "http://127.0.0.1:11434/v1#qwen3:4b"."""
        return f"http://127.0.0.1:{self.port}/v1#{quote(self.name, safe='/:@+')}"

    @property
    def described(self) -> str:
        """The model in messages, such as "Ollama at 127.0.0.1:11434 (qwen3:4b)"."""
        return f"{self.program} at 127.0.0.1:{self.port} ({self.name})"


def ports(environ: Mapping[str, str]) -> dict[str, int]:
    """Return the port of each program. OLLAMA_HOST (`127.0.0.1:11435`, `:11435`) moves Ollama's."""
    moved = re.search(r":(\d{1,5})/?$", environ.get("OLLAMA_HOST", ""))
    return {"Ollama": int(moved[1]) if moved else 11434, "LM Studio": 1234, "llama-server": 8080}


def find(environ: Mapping[str, str], cancellation: Cancellation | None = None) -> list[LocalModel]:
    """Return the chat models on this machine, as listed by its servers, within a second."""
    cancellation = cancellation or Cancellation()

    def models(port: int) -> Json:
        host = Endpoint(Address(f"http://127.0.0.1:{port}/v1", ""), patience=Timeouts(known=_SECONDS))
        return ask(host, f"{host.address.base}/models", cancellation=cancellation)

    replies = {where: abandonable(partial(models, where[1])) for where in ports(environ).items()}
    with cancellation.native():
        wait(replies.values(), _SECONDS)
    return [
        LocalModel(program, port, name)
        for (program, port), reply in replies.items()
        if reply.done() and not reply.exception()  # nothing, or another program, may be listening
        for name, _ in entries(reply.result(), "data", "id")
        if not (_NO_CHAT.search(name) or is_in_cloud(name))
    ]


def look(name: str, environ: Mapping[str, str], cancellation: Cancellation | None = None) -> LocalModel:
    """Return the model for `local#model`, or for `local` if there is only one.

    Raises FbragError `model_missing` if there is none, or `local` is ambiguous.
    """
    every, asked = find(environ, cancellation), unquote(name.partition("#")[2])
    matching = [each for each in every if not asked or is_called(asked, each.name)]
    if len(matching) == 1:
        return matching[0]
    if not every:
        tried = ", ".join(f"{port} ({program})" for program, port in ports(environ).items())
        raise FbragError("model_missing", f"{LOCAL}: no server with a chat model found on ports {tried}", _START)
    problem = f"found {len(matching)} models:" if matching else f"unknown model {asked}; available:"
    others = matching or every
    hint = f"use one of them: {' '.join(each.address for each in others[:_MOST_NAMED])}"
    raise FbragError("model_missing", f"{LOCAL}: {problem} {listed(others)}", hint)


def listed(models: Sequence[LocalModel]) -> str:
    """Return the models by server, such as "Ollama at 127.0.0.1:11434 (a, b); LM Studio at 127.0.0.1:1234 (c)"."""
    servers: dict[str, list[str]] = {}
    for each in models:
        servers.setdefault(f"{each.program} at 127.0.0.1:{each.port}", []).append(each.name)
    return "; ".join(f"{where} ({some(names, _MOST_NAMED)})" for where, names in servers.items())


def options(models: Sequence[LocalModel]) -> str:
    """Return the options that use the first of these models, such as "--large local --small local"."""
    name = LOCAL if len(models) == 1 else models[0].address
    return f"--large {name} --small {name}"
