"""The model servers that already run on this machine: Ollama, LM Studio, llama.cpp's own.

They are found by the ports of loopback on which they listen by default. Each is asked for its models by GET. No text of the user
is sent, no key, and nothing to another machine: there is no proxy, no redirect and no name to look up.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import quote, unquote

import httpx2

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import LOCAL
from fbrag_cli.generation.server.listing import Listed, of_lm_studio, of_ollama, of_openai
from fbrag_cli.generation.server.loop import Loop
from fbrag_cli.generation.server.meter import Meter
from fbrag_cli.generation.server.replies import MOST_BYTES, Json, whole
from fbrag_cli.text.near import closest
from fbrag_cli.text.printable import counted

_LOOPBACK = ("127.0.0.1", "::1")
_SECONDS = 1.0  # for all servers, which are asked at once
_MOST_NAMED = 6
_START = "start Ollama, LM Studio or llama-server, name its address (http://host:port/v1#name), or: fbrag models pull"

_Get = Callable[[str], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens by default. program: its name. hosts: addresses of loopback, the preferred one first."""

    program: str
    port: int
    hosts: tuple[str, ...] = _LOOPBACK


#: Where servers are looked for.
PLACES = (Place("Ollama", 11434), Place("LM Studio", 1234), Place("llama-server", 8080))


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server of this machine. models: those that chat, and run here. problem: why they are not known, "" where they are."""

    program: str
    host: str
    port: int
    models: tuple[Listed, ...] = ()
    problem: str = ""

    @property
    def where(self) -> str:
        """The server for people, as "Ollama at 127.0.0.1:11434"."""
        return f"{self.program} at {self._netloc}"

    @property
    def base(self) -> str:
        """The URL of its API, as "http://127.0.0.1:11434/v1"."""
        return f"http://{self._netloc}/v1"

    @property
    def described(self) -> str:
        """The server and its models, those that are loaded if any are: "Ollama at 127.0.0.1:11434 with qwen3:4b (loaded)"."""
        if self.problem:
            return f"{self.where}: {self.problem}"
        loaded = [f"{model.name} (loaded)" for model in self.models if model.loaded]
        names = loaded or [f"{model.name} (not loaded)" for model in self.models]
        return f"{self.where} with {', '.join(_some(names)) or 'no model that chats'}"

    @property
    def _netloc(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model of a server of this machine."""

    server: LocalServer
    model: Listed

    @property
    def address(self) -> str:
        """The name of the model for `--large`, as "http://127.0.0.1:11434/v1#qwen3:4b"."""
        return f"{self.server.base}#{quote(self.model.name, safe='/:@+')}"

    @property
    def described(self) -> str:
        return f"{self.server.where}, {self.model.name}, {'loaded' if self.model.loaded else 'not loaded yet'}"


# -- who is there ------------------------------------------------------------------------------------------------------------


def places(environ: Mapping[str, str]) -> tuple[Place, ...]:
    """Return where servers are looked for. OLLAMA_HOST moves Ollama's place, if it names one on loopback."""
    host, port = _ollama_host(environ.get("OLLAMA_HOST", ""))
    moved = replace(PLACES[0], port=port or PLACES[0].port, hosts=(host,) if host else _LOOPBACK)
    return (moved, *PLACES[1:])


def _ollama_host(text: str) -> tuple[str, int | None]:
    """Return the loopback address ("" for any) and the port that OLLAMA_HOST names, as `127.0.0.1:11435`, `:11435`, `0.0.0.0`."""
    found = re.fullmatch(r"(?:http://)?(\[[^\]]*\]|[^:/]*|[0-9A-Fa-f:]{2,})(?::(\d{1,5}))?/?", text.strip().strip("\"'"))
    host = found[1].strip("[]").lower() if found else "elsewhere"
    port = int(found[2]) if found and found[2] and 0 < int(found[2]) < 2**16 else None
    if host in ("", "localhost", "0.0.0.0", "::"):
        return "", port
    try:
        return (host, port) if ip_address(host).is_loopback else ("", None)
    except ValueError:
        return "", None


def find(
    where: Sequence[Place], *, seconds: float = _SECONDS, cancellation: Cancellation | None = None
) -> tuple[LocalServer, ...]:
    """Return what listens at these places of loopback, in their order, after `seconds` at most."""
    loop = Loop()
    try:
        return loop.run(_find(where, seconds), cancellation)
    finally:
        loop.close()


async def _find(where: Sequence[Place], seconds: float) -> tuple[LocalServer, ...]:
    timeout = httpx2.Timeout(None, connect=0.8 * seconds)
    headers = {"Accept-Encoding": "identity", "User-Agent": "fbrag"}
    transport = httpx2.AsyncHTTPTransport(verify=False)  # without TLS: certificates would take a third of a second
    async with httpx2.AsyncClient(transport=transport, timeout=timeout, headers=headers) as client:
        asked = [(place, host) for place in where for host in place.hosts]
        found = await asyncio.gather(*(_look(client, place.program, host, place.port, seconds) for place, host in asked))
    servers: dict[int, LocalServer] = {}
    for (place, _), server in zip(asked, found, strict=True):
        if server and (place.port not in servers or servers[place.port].problem):  # one may listen on both addresses
            servers[place.port] = server
    return tuple(servers.values())


async def _look(client: httpx2.AsyncClient, program: str, host: str, port: int, seconds: float) -> LocalServer | None:
    """Return the server at an address, None where nothing listens."""
    server = LocalServer(program, host, port)

    async def get(path: str) -> Json:
        return await _get(client, server.base.removesuffix("/v1") + path)

    try:
        return await asyncio.wait_for(_asked(server, get), seconds)
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        return None
    except _LockedError:
        return replace(server, problem="it demands a key")
    except (TimeoutError, asyncio.TimeoutError):
        return replace(server, problem=f"no reply within {seconds:g} s")
    except Exception:  # whatever another program says there
        return replace(server, program="something", problem="it is no server of models")


async def _asked(server: LocalServer, get: _Get) -> LocalServer:
    """Return the server with its models. Raises ValueError where it is another program, and what `get` raises."""
    ask = {"Ollama": _ask_ollama, "LM Studio": _ask_lm_studio}.get(server.program)
    if ask and (models := await ask(get)) is not None:
        return replace(server, models=tuple(model for model in models if not model.sent_on))
    models = of_openai(await get("/v1/models"))
    if models is None:
        raise ValueError("no list of models")
    owner = "llama-server" if "build_info" in await _or_nothing(get("/props")) else "a server"
    return replace(server, program=owner, models=tuple(models))


async def _ask_ollama(get: _Get) -> list[Listed] | None:
    return of_ollama(await _or_nothing(get("/api/tags")), await _or_nothing(get("/api/ps")))


async def _ask_lm_studio(get: _Get) -> list[Listed] | None:
    newer = of_lm_studio(await _or_nothing(get("/api/v1/models")))
    return newer if newer is not None else of_lm_studio(await _or_nothing(get("/api/v0/models")))


class _LockedError(Exception):
    """The server demands a key."""


async def _or_nothing(asked: Awaitable[Json]) -> Json:
    """Return a reply, {} where it is none that can be read."""
    try:
        return await asked
    except (ValueError, httpx2.RemoteProtocolError):
        return {}


async def _get(client: httpx2.AsyncClient, url: str) -> Json:
    """Return the JSON object that `url` gives. Raises ValueError where it gives something else, and `_LockedError`."""
    meter = Meter(2 * MOST_BYTES, lambda: ValueError("its reply does not end"))
    async with client.stream("GET", url, extensions={"trace": meter.watch}) as response:
        if response.status_code in (401, 403):
            raise _LockedError
        if response.status_code != 200:
            raise ValueError(f"HTTP {response.status_code}")
        if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
            raise ValueError("a compressed reply, which was not asked for")
        return await whole(response)


# -- which model is taken ----------------------------------------------------------------------------------------------------


def look(name: str, where: Sequence[Place], cancellation: Cancellation | None = None) -> Chosen:
    """Return the model that `local` or `local#name` means now. Raises FbragError as `choose`."""
    return choose(find(where, cancellation=cancellation), where, unquote(name.partition("#")[2]))


def offer(servers: Sequence[LocalServer]) -> str:
    """Return the options that use a model of these servers, as "--large local --small local"; "" where they have none."""
    models = [Chosen(server, model) for server in servers for model in server.models]
    if not models:
        return ""
    try:
        choose(servers, ())
        name = LOCAL
    except FbragError:
        name = _named([next((each for each in models if each.model.loaded), models[0])], models)[0]
    return f"--large {name} --small {name}"


def choose(servers: Sequence[LocalServer], where: Sequence[Place], name: str = "") -> Chosen:
    """Return the model of this name, "" for the one that is loaded, or for the only one where none is.

    where: the places that were asked. Raises FbragError `model_missing` where none is, or several are.
    """
    every = [Chosen(server, model) for server in servers for model in server.models]
    if not every:
        raise _nobody(servers, where)
    named = [each for each in every if each.model.is_called(name)] if name else every
    if not named:
        names = [each.model.name for each in every]
        near = closest(name, names) or names[0]
        what = f"{LOCAL}: no server of this machine has a model {name}, but {_shown(every)}"
        raise FbragError("model_missing", what, f"name one of them: {shlex.quote(f'{LOCAL}#{near}')}")
    loaded = [each for each in named if each.model.loaded]
    found = loaded or named
    if len(found) == 1:
        return found[0]
    state = "are loaded" if loaded else "are there, and none is loaded"
    what = f"{LOCAL}: {counted(len(found), 'model')} {state}: {_shown(found)}"
    raise FbragError("model_missing", what, f"name one of them: {', '.join(_some(_named(found, every)))}")


def _nobody(servers: Sequence[LocalServer], where: Sequence[Place]) -> FbragError:
    """Return the error where no server has a model that chats."""
    if locked := [server for server in servers if server.problem == "it demands a key"]:
        what = f"{LOCAL}: {locked[0].where} demands a key, which goes only to a server that you name"
        return FbragError("model_missing", what, f"name it, with --key-file FILE: {locked[0].base}")
    if empty := [server for server in servers if not server.problem]:
        what = f"{LOCAL}: {empty[0].where} has no model that chats on this machine"
        fix = "ollama pull NAME" if empty[0].program == "Ollama" else "load one there"
        return FbragError("model_missing", what, f"{fix}, or: fbrag models pull")
    tried = ", ".join(f"{place.port} ({place.program})" for place in where)
    others = "".join(f"; {server.where}: {server.problem}" for server in servers)
    return FbragError("model_missing", f"{LOCAL}: no model server on this machine at the ports {tried}{others}", _START)


def _shown(found: Sequence[Chosen]) -> str:
    """Return the models by their servers, as "Ollama at 127.0.0.1:11434 (a, b); LM Studio at 127.0.0.1:1234 (c)"."""
    servers: dict[str, list[str]] = {}
    for each in found:
        servers.setdefault(each.server.where, []).append(each.model.name)
    return "; ".join(f"{where} ({', '.join(_some(names))})" for where, names in servers.items())


def _named(found: Sequence[Chosen], every: Sequence[Chosen]) -> list[str]:
    """Return what names each model in a shell: short where one server alone has a model of its name."""
    names = [each.model.name.casefold() for each in every]
    alone = [names.count(each.model.name.casefold()) == 1 for each in found]
    return [
        shlex.quote(f"{LOCAL}#{each.model.name}" if short else each.address) for each, short in zip(found, alone, strict=True)
    ]


def _some(texts: list[str]) -> list[str]:
    return [*texts[:_MOST_NAMED], "…"] if len(texts) > _MOST_NAMED else texts
