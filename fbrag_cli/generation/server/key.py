"""The key of the servers, which is sent to them alone: never printed, never part of a record, an error or a cache key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import read_small

_VARIABLE = "FBRAG_KEY"


def server_key(file: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the key in a file, else in FBRAG_KEY; None where there is none. Raises FbragError `usage`, without the key."""
    where, key = _VARIABLE, environ.get(_VARIABLE, "")
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
