"""Asks a server for its models, their context windows and its software. No text of the user is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.exchange import ask
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.listing import Listed, count, is_called, of_lm_studio, of_ollama
from fbrag_cli.generation.server.replies import Json, RefusedError
from fbrag_cli.text.near import closest
from fbrag_cli.text.printable import one_line

_MOST_NAMED = 10
_MOST_COMPARED = 1000  # with a misspelled name
# Fields that identify a model at a server. Others change with each reply, as the time.
_OF_A_MODEL = ("id", "root", "owned_by", "max_model_len", "meta")
_OF_LLAMA_CPP = ("model_path", "model_ftype", "build_info", "chat_template", "bos_token", "eos_token")


@dataclass(frozen=True, slots=True)
class About:
    """A server's account of its model.

    model: the name to ask for. context_tokens: most tokens of a prompt with its reply, None where the server does not give it.
    is_llama_cpp: whether it has the routes of llama.cpp's own server. identity: fields that identify the model in the cache.
    program: "Ollama" or "LM Studio", which load a model when it is first asked for; "" for another server. sent_on: the address
    to which the server sends the text, "" where it is not known to.
    """

    model: str
    context_tokens: int | None
    is_llama_cpp: bool
    identity: Json = field(compare=False)
    program: str = ""
    sent_on: str = ""


def about(host: Host, cancellation: Cancellation | None = None) -> About:
    """Ask a server for its models and its properties.

    Raises FbragError `model_missing` where it has not the model of the address, or several where none is named; `server_failed`.
    """
    entry = _entry(host, _models(host, cancellation))
    properties = _given(host, "/props", cancellation)
    is_llama_cpp = "build_info" in properties and "chat_template" in properties
    settings, meta = properties.get("default_generation_settings"), entry.get("meta")
    window = count(entry.get("max_model_len")) or count(meta.get("n_ctx") if isinstance(meta, dict) else None)
    if is_llama_cpp:
        window = count(settings.get("n_ctx") if isinstance(settings, dict) else None)
    identity = {name: entry[name] for name in _OF_A_MODEL if name in entry}
    identity |= {name: properties[name] for name in _OF_LLAMA_CPP if is_llama_cpp and name in properties}
    program, listed = ("", None) if is_llama_cpp or window else listing(host, entry["id"], cancellation)
    if listed:
        window = listed.context_tokens
        identity |= {"digest": listed.digest} if listed.digest else {}
    return About(entry["id"], window, is_llama_cpp, identity, program, listed.sent_on if listed else "")


def listing(host: Host, model: str, cancellation: Cancellation | None = None) -> tuple[str, Listed | None]:
    """Return "Ollama" or "LM Studio" and its entry of a model, None where it has none; ("", None) for another server."""
    tags = _given(host, "/api/tags", cancellation)
    if models := of_ollama(tags, _given(host, "/api/ps", cancellation) if tags else {}):
        return "Ollama", _called(model, models)
    for path in ("/api/v1/models", "/api/v0/models"):  # of version 0.4, and of earlier ones
        if models := of_lm_studio(_given(host, path, cancellation)):
            return "LM Studio", _called(model, models)
    return "", None


def _called(name: str, models: list[Listed]) -> Listed | None:
    return next((each for each in models if is_called(name, each.name)), None)


def _models(host: Host, cancellation: Cancellation | None) -> Json:
    """Return the list of models, {} where the server has none and the address names the model."""
    try:
        return ask(host, f"{host.address.base}/models", cancellation=cancellation)
    except RefusedError:
        if host.address.model:
            return {}
        raise


def _given(host: Host, path: str, cancellation: Cancellation | None) -> Json:
    """Return what a route beyond OpenAI's gives, {} where the server has not got it."""
    try:
        return ask(host, f"{host.address.root}{path}", cancellation=cancellation)
    except FbragError:
        return {}


def _entry(host: Host, listed: Json) -> Json:
    """Return the entry of the model of the address."""
    data = listed.get("data")
    entries = (
        [each for each in data if isinstance(each, dict) and isinstance(each.get("id"), str)] if isinstance(data, list) else []
    )
    asked = host.address.model
    if not asked and len(entries) == 1:
        return dict(entries[0])
    for entry in entries:
        if asked and (asked in _names(entry) or f"{asked}:latest" == entry["id"]):
            return {**entry, "id": asked}
    if asked and not entries:  # a server that lists nothing may have it
        return {"id": asked}
    names = [one_line(entry["id"], 80) for entry in entries]
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    if not names:
        what = "it lists no models"
        raise host.error(what, f"name the model: {host.address.base}#name", "model_missing")
    near = closest(asked, names[:_MOST_COMPARED]) or names[0]
    what = f"it has no model {one_line(asked, 80)}, but {shown}" if asked else f"it has {len(names)} models: {shown}"
    raise host.error(what, f"name one of them: {host.address.base}#{near}", "model_missing")


def _names(entry: Json) -> list[Any]:
    aliases = entry.get("aliases")
    return [entry["id"], *(aliases if isinstance(aliases, list) else [])]
