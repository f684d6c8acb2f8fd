"""Asks a server for its models, their context lengths and its software, without sending any of the user's text.

Replies are untrusted: they may have any shape, and names of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import is_in_cloud
from fbrag_cli.generation.server.client import Endpoint, Json, RefusedError, ask, count
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.suggest import closest

_MOST_NAMED = 10
_MOST_COMPARED = 1000  # names to compare with a misspelled one
_LONGEST_NAME = 200
_MOST_MODELS = 2000  # per server
# Fields that identify a server's model. Others change with each reply, such as the time.
_OF_A_MODEL = ("id", "root", "owned_by", "max_model_len", "meta")
_OF_LLAMA_CPP = ("model_path", "model_ftype", "build_info", "chat_template", "bos_token", "eos_token")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's description of its model.

    model: the name to request. context_tokens: maximum tokens of prompt and reply, None if the server does not report it.
    is_llama_cpp: whether it has the routes of llama.cpp's own server. identity: fields that identify the model in the cache.
    program: "Ollama" or "LM Studio", which load a model at its first request; "" for another server. sent_on: URL to which Ollama
    forwards the text for a model in its cloud, "" for a model on the server's own machine.
    """

    model: str
    context_tokens: int | None
    is_llama_cpp: bool
    identity: Json = field(compare=False)
    program: str = ""
    sent_on: str = ""


def about(host: Endpoint, cancellation: Cancellation | None = None) -> ServerInfo:
    """Ask a server for its models and its properties.

    Raises FbragError `model_missing` if the server does not have the model in the URL, or has several and none is named;
    `server_failed`.
    """
    entry = _entry(host, cancellation)
    properties = _given(host, "/props", cancellation)
    identity = {name: entry[name] for name in _OF_A_MODEL if name in entry}
    if "build_info" in properties and "chat_template" in properties:
        identity |= {name: properties[name] for name in _OF_LLAMA_CPP if name in properties}
        return ServerInfo(entry["id"], _tokens(properties.get("default_generation_settings"), "n_ctx"), True, identity)
    window = _tokens(entry, "max_model_len") or _tokens(entry.get("meta"), "n_ctx")
    found = ServerInfo(entry["id"], window, False, identity)
    return found if window else with_program(found, host, cancellation)


def with_program(found: ServerInfo, host: Endpoint, cancellation: Cancellation | None = None) -> ServerInfo:
    """Return the description, completed from Ollama's or LM Studio's own routes. These know the context once the model is
    loaded."""
    if models := dict(entries(_given(host, "/api/tags", cancellation), "models", "model", "name")):
        loaded = dict(entries(_given(host, "/api/ps", cancellation), "models", "model", "name"))
        window, entry = _tokens(_called(found.model, loaded), "context_length"), _called(found.model, models)
        identity = found.identity | ({"digest": entry["digest"]} if isinstance(entry.get("digest"), str) else {})
        cloud = entry.get("remote_host") or entry.get("remote_model") or is_in_cloud(found.model)
        address = entry.get("remote_host") or "https://ollama.com"
        sent_on = one_line(str(address), 80) if cloud else ""
        return replace(found, context_tokens=window, identity=identity, program="Ollama", sent_on=sent_on)
    if models := dict(entries(_given(host, "/api/v1/models", cancellation), "models", "key")):
        loaded = {name: each for model in models.values() for name, each in entries(model, "loaded_instances", "id")}
        window = _tokens(_called(found.model, loaded).get("config"), "context_length")
        return replace(found, context_tokens=window, program="LM Studio")
    return found


def is_called(asked: str, name: str) -> bool:
    """Return whether a name from the user means this model. Ollama's tag `latest` may be omitted."""
    return name.casefold() in (asked.casefold(), f"{asked}:latest".casefold())


def entries(reply: Json, field: str, *keys: str) -> Iterator[tuple[str, Json]]:
    """Yield the name and entry of each model in a list. Names that cannot be typed or shown are skipped."""
    listed = reply.get(field)
    for entry in listed[:_MOST_MODELS] if isinstance(listed, list) else ():
        name = next((entry[key] for key in keys if key in entry), None) if isinstance(entry, dict) else None
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and one_line(name) == name:
            yield name, entry


def some(names: Sequence[str], most: int) -> str:
    """Return the first names, such as "a, b, …"."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def _called(asked: str, models: Mapping[str, Json]) -> Json:
    """Return the entry of the model with this name, {} if there is none."""
    return next((entry for name, entry in models.items() if is_called(asked, name)), {})


def _tokens(entry: Any, name: str) -> int | None:
    """Return a number of tokens in an entry, None if it is missing."""
    return count(entry.get(name), least=1) if isinstance(entry, dict) else None


def _given(host: Endpoint, path: str, cancellation: Cancellation | None) -> Json:
    """Return the reply of a route beyond OpenAI's, {} if the server does not have the route."""
    try:
        return ask(host, f"{host.address.root}{path}", cancellation=cancellation)
    except FbragError:
        return {}


def _entry(host: Endpoint, cancellation: Cancellation | None) -> Json:
    """Return the entry of the model in the URL, which a server without a list of models may have."""
    asked = host.address.model
    try:
        data = ask(host, f"{host.address.base}/models", cancellation=cancellation).get("data")
    except RefusedError:
        if not asked:
            raise
        data = ()
    every = {e["id"]: e for e in data if isinstance(e, dict) and isinstance(e.get("id"), str)} if isinstance(data, list) else {}
    for name, entry in every.items():
        aliases = entry.get("aliases")
        if asked in (name, *(aliases if isinstance(aliases, list) else ())) or f"{asked}:latest" == name:
            return {**entry, "id": asked}
    if asked and not every:
        return {"id": asked}
    if not every:
        raise host.error("the server lists no models", f"name the model: {host.address.base}#model", code="model_missing")
    if not asked and len(every) == 1:
        return next(iter(every.values()))
    names = [one_line(name, 80) for name in every]
    shown = some(names, _MOST_NAMED)
    near = closest(asked, names[:_MOST_COMPARED]) or names[0]
    several = f"the server has {len(names)} models: {shown}"
    what = f"unknown model {one_line(asked, 80)} (available: {shown})" if asked else several
    raise host.error(what, f"use one of them: {host.address.base}#{near}", code="model_missing")
