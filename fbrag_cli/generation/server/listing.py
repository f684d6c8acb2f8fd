"""Reads the lists of models of Ollama, LM Studio and other servers. They are untrusted: of any shape, with names of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fbrag_cli.generation.server.address import is_in_cloud
from fbrag_cli.generation.server.replies import Json
from fbrag_cli.text.printable import one_line

_LONGEST_NAME = 200
_MOST_MODELS = 2000  # of one server


@dataclass(frozen=True, slots=True)
class Listed:
    """A model, as its server lists it.

    name: as it is asked for. context_tokens: most tokens of a prompt with its reply, None where the list does not give them.
    digest: identifies its file, "" where the list does not give it. sent_on: the address to which Ollama sends the text for a
    model in its cloud, "" for a model of the server's own machine.
    """

    name: str
    context_tokens: int | None = None
    digest: str = ""
    sent_on: str = ""


def is_called(asked: str, name: str) -> bool:
    """Return whether a user's name means the model of a name. Ollama's tag `latest` need not be written."""
    return name.casefold() in (asked.casefold(), f"{asked}:latest".casefold())


def of_ollama(tags: Json, running: Json) -> list[Listed] | None:
    """Return the models of Ollama, and those in its cloud; None where the first reply is not Ollama's.

    tags, running: what `/api/tags` and `/api/ps` give. The context of a model is known once it is loaded.
    """
    if not isinstance(tags.get("models"), list):
        return None
    loaded = dict(entries(running, "models", "model", "name"))
    found = []
    for name, entry in entries(tags, "models", "model", "name"):
        digest, host = entry.get("digest"), entry.get("remote_host")
        in_cloud = bool(host or entry.get("remote_model")) or is_in_cloud(name)
        sent_on = (one_line(host, 80) if isinstance(host, str) and host else "https://ollama.com") if in_cloud else ""
        window = count(loaded.get(name, {}).get("context_length"))
        found.append(Listed(name, window, digest if isinstance(digest, str) else "", sent_on))
    return found


def of_lm_studio(reply: Json) -> list[Listed] | None:
    """Return the models of LM Studio; None where the reply is not LM Studio's.

    reply: what `/api/v1/models` gives, or `/api/v0/models` of versions before 0.4.
    """
    if isinstance(reply.get("models"), list):
        return [each for name, entry in entries(reply, "models", "key") for each in _instances(name, entry)]
    if not isinstance(reply.get("data"), list):
        return None
    return [Listed(name, count(entry.get("loaded_context_length"))) for name, entry in entries(reply, "data", "id")]


def _instances(key: str, entry: Json) -> list[Listed]:
    """Return the loaded instances of a model, each of which has a name and a context of its own; the model where none is."""
    loaded = []
    for name, instance in entries(entry, "loaded_instances", "id"):
        config = instance.get("config")
        loaded.append(Listed(name, count(config.get("context_length")) if isinstance(config, dict) else None))
    return loaded or [Listed(key)]


def count(value: Any) -> int | None:
    """Return a number of tokens that a server gives, None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40 else None


def entries(reply: Json, field: str, *keys: str) -> Iterator[tuple[str, Json]]:
    """Yield name and entry of each model of a list. A name that cannot be typed or shown is left out."""
    listed = reply.get(field)
    for entry in listed[:_MOST_MODELS] if isinstance(listed, list) else ():
        name = next((entry[key] for key in keys if key in entry), None) if isinstance(entry, dict) else None
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and one_line(name) == name:
            yield name, entry
