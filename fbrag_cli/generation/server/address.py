"""The address of a server as a model: `http://host:port/v1#name`, or `local` for one that runs on this machine; and its key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import read_small

#: The name that stands for a server of this machine: `local`, or `local#name` with the name of its model.
LOCAL = "local"

_OFFLINE = "leave out --offline, or use a model on this machine"
_EXAMPLE = "expected http://host:port/v1#name"


def is_server(name: str) -> bool:
    """Return whether a model's name means a server: a URL, but not that of a GGUF file, which a pull fetched; or `local`."""
    if is_local(name):
        return True
    name = name.lower()
    return name.startswith(("http://", "https://")) and not name.partition("#")[0].partition("?")[0].endswith(".gguf")


def is_local(name: str) -> bool:
    """Return whether a model's name is `local` or `local#name`: a server of this machine, which is looked for."""
    return name.partition("#")[0] == LOCAL


def is_elsewhere(name: str) -> bool:
    """Return whether a model's name is the address of another machine. Raises FbragError `usage` for an address that is none."""
    return is_server(name) and not is_local(name) and not Address.parse(name).is_loopback


def is_in_cloud(model: str) -> bool:
    """Return whether a model has the name of one in Ollama's cloud, as "gpt-oss:120b-cloud" or "kimi-k3:cloud"."""
    return model.lower().endswith((":cloud", "-cloud"))


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a model at a server.

    base: URL of the API without a slash at its end, as "http://host:8080/v1". model: name of the model, "" where none is given.
    """

    base: str
    model: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address as users write it. One without a path is that of `/v1`. Raises FbragError `usage`."""
        wrong = "invalid server URL" if "@" in text else f"invalid server URL: {text}"  # a password is not repeated
        if "@" in re.split("[/?#]", text.partition("://")[2])[0]:
            what = "the server URL holds a user name or password"
            raise FbragError("usage", what, "leave it out; put the API key into a file (--key-file), or into FBRAG_KEY")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = "", None
        if not host or re.search(r"[\x00-\x20\x7f-\x9f\\]", text.partition("#")[0]):
            raise FbragError("usage", wrong, _EXAMPLE)
        if parts.query:
            raise FbragError("usage", f"{wrong}: it has a '?'", _EXAMPLE)
        where = f"[{host}]" if ":" in host else host
        path = parts.path.rstrip("/") or "/v1"
        return cls(f"{parts.scheme.lower()}://{where}{'' if port is None else f':{port}'}{path}", unquote(parts.fragment))

    @property
    def origin(self) -> str:
        """The server without the path, as "http://host:8080"."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def root(self) -> str:
        """The URL with which llama.cpp's own routes begin: `base` without `/v1`."""
        return self.base.removesuffix("/v1")

    @property
    def encrypted(self) -> bool:
        return self.base.startswith("https:")

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine, by its address alone."""
        from ipaddress import ip_address

        host = urlsplit(self.base).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False


def check_offline(names: Iterable[str]) -> None:
    """Raise FbragError `offline` for a model on another machine or in Ollama's cloud, `usage` for an address that is none."""
    for name in filter(is_server, names):
        if is_elsewhere(name):
            raise FbragError("offline", f"--offline forbids a connection to {Address.parse(name).origin}", _OFFLINE)
        if is_in_cloud(model := unquote(name.partition("#")[2])):
            raise sent_on(model)


def sent_on(model: str) -> FbragError:
    """Return the error for a model of Ollama's cloud with `--offline`."""
    return FbragError("offline", f"--offline forbids {model}, for which Ollama sends the text to its cloud", _OFFLINE)


def server_key(file: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the key in a file, else in FBRAG_KEY; None where there is none.

    It is sent to the server alone: never printed, never part of a record, an error or a cache key. Raises FbragError `usage`.
    """
    where, key = "FBRAG_KEY", environ.get("FBRAG_KEY", "")
    if file is not None:
        where = f"--key-file {file}"
        try:
            key = read_small(Path(os.path.expanduser(file)), 64_000).decode("utf-8", "replace")
        except OSError as error:
            raise FbragError("usage", f"{where}: it cannot be read: {error.strerror}", "check its path") from None
    key = key.strip()
    if file is not None and not key:
        raise FbragError("usage", f"{where}: it is empty", "put the key of the server into it")
    if re.search(r"[^!-~]", key):
        raise FbragError("usage", f"{where}: a key is one word of ASCII characters", "put the key alone there")
    return key or None
