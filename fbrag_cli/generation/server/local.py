"""The models of the servers that already run on this machine: Ollama, LM Studio, llama.cpp's own.

Each is asked for its models by one GET at the port on which it listens by default. No text of the user is sent, and no key.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.about import entries, is_called, some
from fbrag_cli.generation.server.address import LOCAL, Address, is_in_cloud
from fbrag_cli.generation.server.client import Endpoint, asked, run

_SECONDS = 1.0  # for all servers, which are asked at once
_MOST_NAMED = 6
_START = "start Ollama, LM Studio or llama-server, name a server's address (http://host:port/v1#name), or: fbrag models pull"
# Models that turn text into vectors or rank it. They cannot chat, and the list does not say which they are.
_NO_CHAT = re.compile(r"embed|rerank|minilm|(^|[/_-])(bge|gte|e5)([._:-]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that chats, at a server of this machine. program: the one that listens at this port by default."""

    program: str
    port: int
    name: str

    @property
    def address(self) -> str:
        """The model for `--large`, as "http://127.0.0.1:11434/v1#qwen3:4b"."""
        return f"http://127.0.0.1:{self.port}/v1#{quote(self.name, safe='/:@+')}"

    @property
    def described(self) -> str:
        """The model for people, as "Ollama at 127.0.0.1:11434 (qwen3:4b)"."""
        return f"{self.program} at 127.0.0.1:{self.port} ({self.name})"


def ports(environ: Mapping[str, str]) -> dict[str, int]:
    """Return the port of each program. OLLAMA_HOST (`127.0.0.1:11435`, `:11435`) moves Ollama's."""
    moved = re.search(r":(\d{1,5})/?$", environ.get("OLLAMA_HOST", ""))
    return {"Ollama": int(moved[1]) if moved else 11434, "LM Studio": 1234, "llama-server": 8080}


def find(environ: Mapping[str, str], cancellation: Cancellation | None = None) -> list[LocalModel]:
    """Return the models that chat on this machine, as its servers list them, after a second at most."""
    return run(_find(ports(environ)), cancellation)


async def _find(where: Mapping[str, int]) -> list[LocalModel]:
    hosts = [Endpoint(Address(f"http://127.0.0.1:{port}/v1", "")) for port in where.values()]
    replies = (asyncio.wait_for(asked(host, f"{host.address.base}/models"), _SECONDS) for host in hosts)
    listed = zip(where.items(), await asyncio.gather(*replies, return_exceptions=True), strict=True)
    return [
        LocalModel(program, port, name)
        for (program, port), reply in listed
        if not isinstance(reply, BaseException)  # whatever is there, or is not
        for name, _ in entries(reply, "data", "id")
        if not (_NO_CHAT.search(name) or is_in_cloud(name))
    ]


def look(name: str, environ: Mapping[str, str], cancellation: Cancellation | None = None) -> LocalModel:
    """Return the model that `local#name` means, or `local` where one alone is there.

    Raises FbragError `model_missing` where there is none, or several.
    """
    every, asked = find(environ, cancellation), unquote(name.partition("#")[2])
    found = [each for each in every if not asked or is_called(asked, each.name)]
    if len(found) == 1:
        return found[0]
    if not every:
        tried = ", ".join(f"{port} ({program})" for program, port in ports(environ).items())
        raise FbragError("model_missing", f"{LOCAL}: found no server with a chat model on the ports {tried}", _START)
    what = f"there are {len(found)} models:" if found else f"there is no model {asked}, but"
    others = found or every
    hint = f"name one of them: {' '.join(each.address for each in others[:_MOST_NAMED])}"
    raise FbragError("model_missing", f"{LOCAL}: {what} {listed(others)}", hint)


def listed(models: Sequence[LocalModel]) -> str:
    """Return the models by their servers, as "Ollama at 127.0.0.1:11434 (a, b); LM Studio at 127.0.0.1:1234 (c)"."""
    servers: dict[str, list[str]] = {}
    for each in models:
        servers.setdefault(f"{each.program} at 127.0.0.1:{each.port}", []).append(each.name)
    return "; ".join(f"{where} ({some(names, _MOST_NAMED)})" for where, names in servers.items())


def options(models: Sequence[LocalModel]) -> str:
    """Return the options that use the first of these models, as "--large local --small local"."""
    name = LOCAL if len(models) == 1 else models[0].address
    return f"--large {name} --small {name}"
