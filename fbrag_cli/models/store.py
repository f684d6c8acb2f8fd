"""The model store: a folder of GGUF files. Finds the file for a name, and returns only files that pass their check."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import LOCAL
from fbrag_cli.models.catalog import Catalog, ModelEntry
from fbrag_cli.models.part import MAGIC
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.storage.files import on_disk, read_small, sha256_of, whole_file
from fbrag_cli.text.printable import byte_size
from fbrag_cli.text.suggest import closest

#: The folder in the store for the locks and unfinished wheels of pulls.
PULL_FOLDER = ".pull"

#: The prefixes of names of models outside the catalog.
ELSEWHERE = ("hf:", "https:", "http:")

_A_SERVER = re.compile("ollama|lm[-_ ]?studio|llama[-_.]?(server|cpp)", re.IGNORECASE)

State = Literal["installed", "unverified", "wrong size", "missing"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file to load. sha256: hex, None if it was never computed. entry: None for a model outside the catalog."""

    name: str
    path: Path
    sha256: str | None
    entry: ModelEntry | None

    @property
    def identity(self) -> str:
        """An identifier of the file's content: its SHA-256, or if that is unknown its path, size and modification time."""
        if self.sha256:
            return self.sha256
        found = self.path.stat()
        return f"{self.path.absolute()} {found.st_size} {found.st_mtime_ns}"

    @property
    def state(self) -> list[int]:
        """Numbers that change with each change of the file on this machine, even one that preserves its size and time."""
        found = self.path.stat()
        return [found.st_ctime_ns, found.st_ino]


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of the store, described without reading its file.

    bytes: its size on the disk, or in the catalog if the file is missing. state: "installed" (verified and unchanged since),
    "unverified" (changed since its last check), "wrong size" (size differs from the catalog's) or "missing".
    """

    name: str
    path: Path
    bytes: int
    sha256: str | None
    entry: ModelEntry | None
    state: State


# -- names -----------------------------------------------------------------------------------------------------------------


def resolve(name_or_path: str, store: Path, catalog: Catalog) -> ModelFile:
    """Return the model for a name in the catalog, a file name in `store` (with or without .gguf), or a path to a GGUF file.

    A file of the store is checked; it is hashed only if it has changed since its last check. Raises FbragError `model_missing` or
    `model_corrupt`, with the command to repair it as a hint.
    """
    path = locate(name_or_path, store, catalog)
    if path is None:
        raise _missing(name_or_path, store, catalog)
    if path.parent != store:
        check_magic(path, path.name, "name a GGUF file")
        return ModelFile(path.stem, path, None, None)
    entry = catalog.find(path.name)
    return ModelFile(entry.id if entry else path.stem, path, check(path, entry), entry)


def locate(name_or_path: str, store: Path, catalog: Catalog) -> Path | None:
    """Return the file for a name or path, None if there is none. The parent of a file in the store is `store`."""
    entry = catalog.find(name_or_path)
    file = entry.file if entry else file_name(name_or_path)
    for path in (store / file, store / f"{file}.gguf") if file else ():
        if os.path.isfile(path):
            return path
    path = Path(on_disk(os.path.expanduser(name_or_path)))
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


def _missing(name: str, store: Path, catalog: Catalog) -> FbragError:
    if entry := catalog.find(name):
        what = f"model {entry.id} is not installed ({byte_size(entry.bytes)} download)"
        return FbragError("model_missing", what, f"fbrag models pull {entry.id}")
    if name.startswith(ELSEWHERE):
        return FbragError("model_missing", f"model {name} is not installed", f"fbrag models pull {shlex.quote(name)}")
    if _A_SERVER.match(name):
        hint = f"for a model server on this machine: --large {LOCAL}, or --large {LOCAL}#NAME"
        return FbragError("model_missing", f"unknown model {name}", hint)
    if Path(name).name != name or os.path.isdir(name):
        return FbragError("model_missing", f"file not found: {name}", "use a GGUF file, or a name from: fbrag models list --all")
    here = [model.name for model in installed(store, catalog)]
    return FbragError("model_missing", f"unknown model {name}", closest_hint(name, catalog, here))


def closest_hint(name: str, catalog: Catalog, here: Sequence[str] = ()) -> str:
    """Return a hint with the closest name to a misspelled one. here: names of models in the store."""
    if not (near := closest(name, [*here, *catalog.models])):
        return "fbrag models list --all"
    return f"did you mean {near}?" + ("" if near in here else f" fbrag models pull {near}")


def installed(store: Path, catalog: Catalog) -> tuple[StoredModel, ...]:
    """Return the models in `store`: those of the catalog in its order, then others by name. Reads no model file."""
    if not os.path.isdir(store):
        return ()
    order = {entry.file: place for place, entry in enumerate(catalog.models.values())}
    paths = sorted(store.glob("*.gguf"), key=lambda path: (order.get(path.name, len(order)), path.name))
    return tuple(describe(path, catalog.find(path.name)) for path in paths)


def describe(path: Path, entry: ModelEntry | None) -> StoredModel:
    """Return the name, size and state of the model in a file, which may be missing."""
    name = entry.id if entry else path.stem
    try:
        size = path.stat().st_size
    except OSError:
        return StoredModel(name, path, entry.bytes if entry else 0, None, entry, "missing")
    if entry and size != entry.bytes:
        return StoredModel(name, path, size, None, entry, "wrong size")
    digest = known_sha256(path)
    right = digest is not None and (entry is None or digest == entry.sha256)
    return StoredModel(name, path, size, digest, entry, "installed" if right else "unverified")


def stored_path(name: str, store: Path, catalog: Catalog) -> Path:
    """Return the file of a model of `store`. Raises FbragError `model_missing`."""
    path = locate(name, store, catalog)
    if path is None or path.parent != store:
        raise _missing(name, store, catalog)
    return path


def remove(name: str, store: Path, catalog: Catalog) -> int:
    """Delete a model from `store`, with its partial download. Return the bytes freed.

    Raises FbragError `model_missing` if the store has no such model (files outside the store are never deleted), `output` if a
    file cannot be deleted.
    """
    paths = files_of(name, store, catalog)
    freed = sum(path.lstat().st_size for path in paths)
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        what = f"could not delete {error.filename}: {error.strerror}"
        raise FbragError("output", what, "check the permissions, and stop other fbrag processes") from None
    return freed


def files_of(name: str, store: Path, catalog: Catalog) -> tuple[Path, ...]:
    """Return the files that `remove` deletes. Raises FbragError `model_missing` if there are none."""
    entry = catalog.find(name)
    if not (file := entry.file if entry else file_name(name)):
        raise _missing(name, store, catalog)
    file = file.removesuffix(".gguf") + ".gguf"
    places = [store / (file + suffix) for suffix in ("", ".json", ".part")]
    if os.path.isdir(unfinished := store / PULL_FOLDER / file):  # also False for a name that is too long for a file
        places += unfinished.glob("*.whl")
    paths = tuple(path for path in places if os.path.isfile(path) or os.path.islink(path))
    if not paths:
        raise _missing(name, store, catalog)
    return paths


@dataclass(frozen=True, slots=True)
class Note:
    """The note next to a verified file: size in bytes, times and SHA-256 (hex) at the last check.

    origin: the argument of the `fbrag models pull` that downloaded the file, None for a file from elsewhere. The SHA-256 of a
    file with an origin must not change. ctime_ns, inode: of the file, because a copy of another file may preserve its mtime.
    """

    bytes: int
    mtime_ns: int
    sha256: str
    origin: str | None = None
    ctime_ns: int = -1
    inode: int = -1

    @classmethod
    def of(cls, state: os.stat_result, sha256: str, origin: str | None) -> Note:
        """Return the note for a file in the state in which it was hashed."""
        return cls(state.st_size, state.st_mtime_ns, sha256, origin, state.st_ctime_ns, state.st_ino)


# -- checks ----------------------------------------------------------------------------------------------------------------


def check(path: Path, entry: ModelEntry | None, *, again: bool = False, progress: Progress = silent) -> str | None:
    """Check the first bytes, size and SHA-256 of a file in the store. Return the SHA-256 (hex).

    A file whose size and times are the same as at its last check is not hashed, unless `again`. A file that is neither in the
    catalog nor from a pull has no SHA-256 to compare with: the result is that of an earlier check, or None. progress: stage
    "verify", in bytes. Raises FbragError `model_corrupt`, or `model_missing` if it cannot be read.
    """
    name = entry.id if entry else path.stem
    known = read_note(path)
    origin = entry.id if entry else known.origin if known else None
    pin = f" --sha256 {known.sha256}" if known and origin and origin.startswith("http") else ""
    repair = f"fbrag models pull {shlex.quote(origin)}{pin}" if origin else f"replace it, or delete it: fbrag models rm {name}"
    check_magic(path, name, repair)
    if entry and (size := path.stat().st_size) != entry.bytes:
        raise FbragError("model_corrupt", f"{name} has {size:,} bytes, expected {entry.bytes:,}: {path}", repair)

    expected = entry.sha256 if entry else known.sha256 if known and known.origin else None
    digest = None if again else known_sha256(path)
    if digest is None and (expected or again):
        digest = _hash_and_note(path, name, known.origin if known else None, expected, progress)
    if expected and digest != expected:
        forget(path)
        raise FbragError("model_corrupt", f"SHA-256 of {name} is {digest}, expected {expected}: {path}", repair)
    return digest


def check_magic(path: Path, name: str, repair: str) -> None:
    """Raise FbragError `model_corrupt` for a file that does not start like a GGUF file, `model_missing` for an unreadable one."""
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise _not_readable(path, error) from None
    if start != MAGIC:
        raise FbragError("model_corrupt", f"{name} is not a GGUF file: {path}", repair)


def _not_readable(path: Path, error: OSError) -> FbragError:
    return FbragError("model_missing", f"{path} cannot be read: {error.strerror or error}", "check its permissions")


def _hash_and_note(path: Path, name: str, origin: str | None, expected: str | None, progress: Progress) -> str:
    """Return the SHA-256 (hex) of a file, and save it in the file's note unless a different one was expected."""
    before = path.stat()
    size = before.st_size
    progress(Event("verify", "start", 0, size, name))
    try:
        digest = sha256_of(path, lambda done: progress(Event("verify", "progress", done, size, name)))
    except OSError as error:
        raise _not_readable(path, error) from None
    progress(Event("verify", "done", size, size, name))
    if expected in (None, digest):
        write_note(path, Note.of(before, digest, origin))
    return digest


# -- the note of a file -----------------------------------------------------------------------------------------------------


def known_sha256(path: Path) -> str | None:
    """Return the SHA-256 (hex) in the note of a file; None if the file has changed since."""
    noted = read_note(path)
    return noted.sha256 if noted and noted == Note.of(path.stat(), noted.sha256, noted.origin) else None


def read_note(path: Path) -> Note | None:
    """Return the note of a file; None if it is missing or unreadable."""
    try:
        noted = Note(**json.loads(read_small(_note_path(path))))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    texts = noted.sha256, noted.origin or ""
    return noted if all(isinstance(text, str) for text in texts) else None


def write_note(path: Path, note: Note) -> None:
    """Write the note of a file. In a read-only store this does nothing, and the file is hashed each time."""
    with suppress(OSError), whole_file(_note_path(path)) as temporary:
        temporary.write_text(json.dumps(asdict(note)), encoding="utf-8")


def forget(path: Path) -> None:
    """Mark a file as not verified. Keep the origin in its note."""
    if known := read_note(path):
        write_note(path, Note(-1, -1, known.sha256, known.origin))


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")
