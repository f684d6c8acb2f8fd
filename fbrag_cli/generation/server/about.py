"""Asks a server for its models, their context windows and its software. No text of the user is sent.

What it says is untrusted: of any shape, with names of any kind.
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
_MOST_COMPARED = 1000  # with a misspelled name
_LONGEST_NAME = 200
_MOST_MODELS = 2000  # of one server
# Fields that identify a model at a server. Others change with each reply, as the time.
_OF_A_MODEL = ("id", "root", "owned_by", "max_model_len", "meta")
_OF_LLAMA_CPP = ("model_path", "model_ftype", "build_info", "chat_template", "bos_token", "eos_token")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's account of its model.

    model: the name to ask for. context_tokens: most tokens of a prompt with its reply, None where the server does not give it.
    is_llama_cpp: whether it has the routes of llama.cpp's own server. identity: fields that identify the model in the cache.
    program: "Ollama" or "LM Studio", which load a model when it is first asked for; "" for another server. sent_on: the address
    to which Ollama sends the text for a model in its cloud, "" for a model of the server's own machine.
    """

    model: str
    context_tokens: int | None
    is_llama_cpp: bool
    identity: Json = field(compare=False)
    program: str = ""
    sent_on: str = ""


def about(host: Endpoint, cancellation: Cancellation | None = None) -> ServerInfo:
    """Ask a server for its models and its properties.

    Raises FbragError `model_missing` where it has not the model of the address, or several where none is named; `server_failed`.
    """
    entry = _entry(host, _models(host, cancellation))
    properties = _given(host, "/props", cancellation)
    identity = {name: entry[name] for name in _OF_A_MODEL if name in entry}
    if "build_info" in properties and "chat_template" in properties:
        identity |= {name: properties[name] for name in _OF_LLAMA_CPP if name in properties}
        return ServerInfo(entry["id"], _tokens(properties.get("default_generation_settings"), "n_ctx"), True, identity)
    window = _tokens(entry, "max_model_len") or _tokens(entry.get("meta"), "n_ctx")
    found = ServerInfo(entry["id"], window, False, identity)
    return found if window else with_program(found, host, cancellation)


def with_program(found: ServerInfo, host: Endpoint, cancellation: Cancellation | None = None) -> ServerInfo:
    """Return what is known of a model with what Ollama or LM Studio says of it. They know its context once it is loaded."""
    if models := dict(entries(_given(host, "/api/tags", cancellation), "models", "model", "name")):
        loaded = dict(entries(_given(host, "/api/ps", cancellation), "models", "model", "name"))
        window = _tokens(_called(found.model, loaded), "context_length")
        return _of_ollama(_called(found.model, models), replace(found, program="Ollama", context_tokens=window))
    if models := dict(entries(_given(host, "/api/v1/models", cancellation), "models", "key")):  # LM Studio from 0.4 on
        loaded = {name: each for model in models.values() for name, each in entries(model, "loaded_instances", "id")}
        window = _tokens(_called(found.model, loaded).get("config"), "context_length")
        return replace(found, program="LM Studio", context_tokens=window)
    if models := dict(entries(_given(host, "/api/v0/models", cancellation), "data", "id")):  # earlier ones
        window = _tokens(_called(found.model, models), "loaded_context_length")
        return replace(found, program="LM Studio", context_tokens=window)
    return found


def _of_ollama(entry: Json, found: ServerInfo) -> ServerInfo:
    digest, address = entry.get("digest"), entry.get("remote_host")
    if isinstance(digest, str) and digest:
        found = replace(found, identity=found.identity | {"digest": digest})
    if address or entry.get("remote_model") or is_in_cloud(found.model):
        sent_on = one_line(address, 80) if isinstance(address, str) and address else "https://ollama.com"
        found = replace(found, sent_on=sent_on)
    return found


def is_called(asked: str, name: str) -> bool:
    """Return whether a user's name means the model of a name. Ollama's tag `latest` need not be written."""
    return name.casefold() in (asked.casefold(), f"{asked}:latest".casefold())


def entries(reply: Json, field: str, *keys: str) -> Iterator[tuple[str, Json]]:
    """Yield name and entry of each model of a list. A name that cannot be typed or shown is left out."""
    listed = reply.get(field)
    for entry in listed[:_MOST_MODELS] if isinstance(listed, list) else ():
        name = next((entry[key] for key in keys if key in entry), None) if isinstance(entry, dict) else None
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and one_line(name) == name:
            yield name, entry


def some(names: Sequence[str], most: int) -> str:
    """Return the first names, as "a, b, …"."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def _called(asked: str, models: Mapping[str, Json]) -> Json:
    """Return the entry of the model of a name, {} where there is none."""
    return next((entry for name, entry in models.items() if is_called(asked, name)), {})


def _tokens(entry: Any, name: str) -> int | None:
    """Return a number of tokens of an entry, None where it gives none."""
    return count(entry.get(name), least=1) if isinstance(entry, dict) else None


def _models(host: Endpoint, cancellation: Cancellation | None) -> Json:
    """Return the list of models, {} where the server has none and the address names the model."""
    try:
        return ask(host, f"{host.address.base}/models", cancellation=cancellation)
    except RefusedError:
        if host.address.model:
            return {}
        raise


def _given(host: Endpoint, path: str, cancellation: Cancellation | None) -> Json:
    """Return what a route beyond OpenAI's gives, {} where the server has not got it."""
    try:
        return ask(host, f"{host.address.root}{path}", cancellation=cancellation)
    except FbragError:
        return {}


def _entry(host: Endpoint, listed: Json) -> Json:
    """Return the entry of the model of the address."""
    data, asked = listed.get("data"), host.address.model
    every = (
        [each for each in data if isinstance(each, dict) and isinstance(each.get("id"), str)] if isinstance(data, list) else []
    )
    if not asked and len(every) == 1:
        return dict(every[0])
    for entry in every if asked else ():
        aliases = entry.get("aliases")
        if asked in (entry["id"], *(aliases if isinstance(aliases, list) else ())) or f"{asked}:latest" == entry["id"]:
            return {**entry, "id": asked}
    if asked and not every:  # a server that lists nothing may have it
        return {"id": asked}
    if not every:
        raise host.error("it lists no models", f"name the model: {host.address.base}#name", "model_missing")
    names = [one_line(entry["id"], 80) for entry in every]
    shown = some(names, _MOST_NAMED)
    near = closest(asked, names[:_MOST_COMPARED]) or names[0]
    what = f"it has no model {one_line(asked, 80)}, but {shown}" if asked else f"it has {len(names)} models: {shown}"
    raise host.error(what, f"name one of them: {host.address.base}#{near}", "model_missing")
