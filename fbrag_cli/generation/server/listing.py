"""Reads the lists of models of Ollama, LM Studio and other servers. They are untrusted: of any shape, with names of any kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fbrag_cli.generation.server.address import is_in_cloud
from fbrag_cli.generation.server.replies import Json
from fbrag_cli.text.printable import one_line

_LONGEST_NAME = 200
_MOST_MODELS = 2000  # of one server
# Models that turn text into vectors or rank it. They cannot chat, and some servers do not say which they are.
_NO_CHAT = re.compile(r"embed|rerank|minilm|(^|[/_-])(bge|gte|e5)([._:-]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that chats, as its server lists it.

    name: as it is asked for. loaded: whether it is in memory. context_tokens: most tokens of a prompt with its reply, None where
    the list does not give them. digest: identifies its file, "" where the list does not give it. sent_on: the address to which
    Ollama sends the text for a model in its cloud, "" for a model of the server's own machine.
    """

    name: str
    loaded: bool
    context_tokens: int | None = None
    digest: str = ""
    sent_on: str = ""

    def is_called(self, name: str) -> bool:
        """Return whether a user's name means this model. Ollama's tag `latest` need not be written."""
        return self.name.casefold() in (name.casefold(), f"{name}:latest".casefold())


def of_ollama(tags: Json, running: Json) -> list[Listed] | None:
    """Return the models of Ollama, and those in its cloud; None where the first reply is not Ollama's.

    tags, running: what `/api/tags` and `/api/ps` give.
    """
    if not isinstance(tags.get("models"), list):
        return None
    loaded = dict(_entries(running, "models", "model", "name"))
    found = []
    for name, entry in _entries(tags, "models", "model", "name"):
        details, abilities = entry.get("details"), entry.get("capabilities")
        family = details.get("family") if isinstance(details, dict) else None
        chats = "completion" in abilities if isinstance(abilities, list) and abilities else "bert" not in str(family)
        if chats and not _NO_CHAT.search(name):
            digest, host = entry.get("digest"), entry.get("remote_host")
            window = count(loaded.get(name, {}).get("context_length"))
            digest = digest if isinstance(digest, str) else ""
            in_cloud = bool(host or entry.get("remote_model")) or is_in_cloud(name)
            sent_on = (one_line(host, 80) if isinstance(host, str) and host else "https://ollama.com") if in_cloud else ""
            found.append(Listed(name, name in loaded, window, digest, sent_on))
    return found


def of_lm_studio(reply: Json) -> list[Listed] | None:
    """Return the models of LM Studio; None where the reply is not LM Studio's.

    reply: what `/api/v1/models` gives, or `/api/v0/models` of versions before 0.4.
    """
    if isinstance(reply.get("models"), list):
        found = []
        for name, entry in _entries(reply, "models", "key"):
            if entry.get("type") == "llm":
                found += _instances(name, entry.get("loaded_instances"))
        return found
    if not isinstance(reply.get("data"), list):
        return None
    return [
        Listed(name, entry.get("state") == "loaded", count(entry.get("loaded_context_length")))
        for name, entry in _entries(reply, "data", "id")
        if entry.get("type") in ("llm", "vlm")
    ]


def _instances(key: str, instances: Any) -> list[Listed]:
    """Return the loaded instances of a model, each of which has a name and a context of its own; the model where none is."""
    loaded = []
    for name, entry in _entries({"instances": instances}, "instances", "id"):
        config = entry.get("config")
        loaded.append(Listed(name, True, count(config.get("context_length")) if isinstance(config, dict) else None))
    return loaded or [Listed(key, False)]


def of_openai(reply: Json) -> list[Listed] | None:
    """Return the models of another server, as llama.cpp's; None where the reply is no list of models.

    reply: what `/v1/models` gives. A model without a state is taken to be loaded: such a server has been started with it.
    """
    if not isinstance(reply.get("data"), list):
        return None
    found = []
    for name, entry in _entries(reply, "data", "id"):
        status, meta = entry.get("status"), entry.get("meta")
        state = status.get("value") if isinstance(status, dict) else "loaded"
        window = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
        if not (_NO_CHAT.search(name) or is_in_cloud(name)):  # an Ollama that listens elsewhere names both
            found.append(Listed(name, state in ("loaded", "sleeping"), count(window)))
    return found


def count(value: Any) -> int | None:
    """Return a number of tokens that a server gives, None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40 else None


def _entries(reply: Json, field: str, *keys: str) -> Iterator[tuple[str, Json]]:
    """Yield name and entry of each model of a list. A name that cannot be typed or shown is left out."""
    listed = reply.get(field)
    for entry in listed[:_MOST_MODELS] if isinstance(listed, list) else ():
        name = next((entry[key] for key in keys if key in entry), None) if isinstance(entry, dict) else None
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and one_line(name) == name:
            yield name, entry
