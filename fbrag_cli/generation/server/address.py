"""The URL of a model on a server, `http://host:port/v1#model`, or `local` for a server on this machine; and the API key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import read_small

#: The name of a model server on this machine: `local`, or `local#model`.
LOCAL = "local"

_OFFLINE = "drop --offline, or use a model on this machine"
_EXAMPLE = "expected http://host:port/v1#model"


def is_server(name: str) -> bool:
    """Return whether a model's name means a server: `local` or a URL, except that of a GGUF file, which was downloaded."""
    if is_local(name):
        return True
    name = name.lower()
    return name.startswith(("http://", "https://")) and not name.partition("#")[0].partition("?")[0].endswith(".gguf")


def is_local(name: str) -> bool:
    """Return whether a model's name is `local` or `local#model`, a server on this machine, which must be found first."""
    return name.partition("#")[0] == LOCAL


def is_elsewhere(name: str) -> bool:
    """Return whether a model's name is the URL of another machine. Raises FbragError `usage` for an invalid URL."""
    return is_server(name) and not is_local(name) and not Address.parse(name).is_loopback


def is_in_cloud(model: str) -> bool:
    """Return whether a model is in Ollama's cloud by its name, such as "gpt-oss:120b-cloud" or "kimi-k3:cloud"."""
    return model.lower().endswith((":cloud", "-cloud"))


@dataclass(frozen=True, slots=True)
class Address:
    """The URL of a model on a server.

    base: URL of the API without a final slash, such as "http://host:8080/v1". model: name of the model, "" if none is given.
    """

    base: str
    model: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse a URL as users type it. The default path is `/v1`. Raises FbragError `usage`."""
        wrong = "invalid server URL" if "@" in text else f"invalid server URL: {text}"  # a password is not repeated
        if "@" in re.split("[/?#]", text.partition("://")[2])[0]:
            what = "the server URL contains a user name or password"
            raise FbragError("usage", what, "remove it, and put the API key in a file (--key-file) or in FBRAG_KEY")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = "", None
        if not host or re.search(r"[\x00-\x20\x7f-\x9f\\]", text.partition("#")[0]):
            raise FbragError("usage", wrong, _EXAMPLE)
        if parts.query:
            raise FbragError("usage", f"{wrong}: it contains '?'", _EXAMPLE)
        where = f"[{host}]" if ":" in host else host
        path = parts.path.rstrip("/") or "/v1"
        return cls(f"{parts.scheme.lower()}://{where}{'' if port is None else f':{port}'}{path}", unquote(parts.fragment))

    @property
    def origin(self) -> str:
        """The URL without the path, such as "http://host:8080"."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def root(self) -> str:
        """The base URL of llama.cpp's own routes: `base` without `/v1`."""
        return self.base.removesuffix("/v1")

    @property
    def encrypted(self) -> bool:
        return self.base.startswith("https:")

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, according to its address."""
        from ipaddress import ip_address

        host = urlsplit(self.base).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False


def check_offline(names: Iterable[str]) -> None:
    """Raise FbragError `offline` for a model on another machine or in Ollama's cloud, `usage` for an invalid URL."""
    for name in filter(is_server, names):
        if is_elsewhere(name):
            raise FbragError("offline", f"--offline prevents a connection to {Address.parse(name).origin}", _OFFLINE)
        if is_in_cloud(model := unquote(name.partition("#")[2])):
            raise sent_on(model)


def sent_on(model: str) -> FbragError:
    """Return the error for a model in Ollama's cloud with `--offline`."""
    return FbragError("offline", f"--offline prevents the use of {model}, which runs in Ollama's cloud", _OFFLINE)


def server_key(file: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the API key from a file, else from FBRAG_KEY; None if there is none.

    It is sent only to the server, and is never printed or part of a record, an error or a cache key. Raises FbragError `usage`.
    """
    where, key = "FBRAG_KEY", environ.get("FBRAG_KEY", "")
    if file is not None:
        where = f"--key-file {file}"
        try:
            key = read_small(Path(os.path.expanduser(file)), 64_000).decode("utf-8", "replace")
        except OSError as error:
            raise FbragError("usage", f"could not read {where}: {error.strerror}", "check its path") from None
    key = key.strip()
    if file is not None and not key:
        raise FbragError("usage", f"{where} is empty", "put the server's API key in it")
    if re.search(r"[^!-~]", key):
        raise FbragError("usage", f"{where}: expected one word of ASCII characters", "put only the API key there")
    return key or None
