"""Checks of model files: first bytes, size and SHA-256. A note beside each file records its last check."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.models.catalogue import ModelEntry
from fbrag_cli.models.part import MAGIC
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.storage.files import read_small, sha256_of, whole_file


@dataclass(frozen=True, slots=True)
class Note:
    """The note beside a verified file: size in bytes, times of change and SHA-256 (hex) at the last check.

    origin: the argument of the `fbrag models pull` that fetched the file, None for a file from elsewhere. A file with an origin
    must keep its SHA-256. ctime_ns, inode: of the file, for a copy of another file may keep the time of its content.
    """

    bytes: int
    mtime_ns: int
    sha256: str
    origin: str | None = None
    ctime_ns: int = -1
    inode: int = -1

    @classmethod
    def of(cls, state: os.stat_result, sha256: str, origin: str | None) -> Note:
        """Return the note of a file in the state that was hashed."""
        return cls(state.st_size, state.st_mtime_ns, sha256, origin, state.st_ctime_ns, state.st_ino)


# -- checks ----------------------------------------------------------------------------------------------------------------


def check(path: Path, entry: ModelEntry | None, *, again: bool = False, progress: Progress = silent) -> str | None:
    """Check the first bytes, the size and the SHA-256 of a file of the store. Returns the SHA-256 (hex).

    A file whose size and times of change are those of its last check is not hashed, unless `again`. For a file that is neither
    in the catalogue nor from a pull there is no SHA-256 to compare with: the result is that of an earlier check, or None.
    progress: stage "verify", in bytes. Raises FbragError `model_corrupt`, or `model_missing` if it cannot be read.
    """
    name = entry.id if entry else path.stem
    known = read_note(path)
    origin = entry.id if entry else known.origin if known else None
    pin = f" --sha256 {known.sha256}" if known and origin and origin.startswith("http") else ""
    repair = f"fbrag models pull {shlex.quote(origin)}{pin}" if origin else f"replace it, or delete it: fbrag models rm {name}"
    check_magic(path, name, repair)
    if entry and (size := path.stat().st_size) != entry.bytes:
        raise FbragError("model_corrupt", f"{name} has {size:,} bytes, and should have {entry.bytes:,}: {path}", repair)

    expected = entry.sha256 if entry else known.sha256 if known and known.origin else None
    digest = None if again else known_sha256(path)
    if digest is None and (expected or again):
        digest = _hash_and_note(path, name, known.origin if known else None, expected, progress)
    if expected and digest != expected:
        forget(path)
        raise FbragError("model_corrupt", f"{name} has the SHA-256 {digest}, and should have {expected}: {path}", repair)
    return digest


def check_magic(path: Path, name: str, repair: str) -> None:
    """Raise FbragError `model_corrupt` for a file that does not begin as GGUF files do, `model_missing` for an unreadable one."""
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
    """Return the SHA-256 (hex) of a file, and note it beside the file unless another one was expected."""
    before = path.stat()
    size = before.st_size
    progress(Event("verify", "start", 0, size, name))
    try:
        found = sha256_of(path, lambda done: progress(Event("verify", "progress", done, size, name)))
    except OSError as error:
        raise _not_readable(path, error) from None
    progress(Event("verify", "done", size, size, name))
    if expected in (None, found):
        write_note(path, Note.of(before, found, origin))
    return found


# -- the note beside a file -------------------------------------------------------------------------------------------------


def known_sha256(path: Path) -> str | None:
    """Return the SHA-256 (hex) in the note of a file; None if the file has changed since."""
    noted = read_note(path)
    return noted.sha256 if noted and noted == Note.of(path.stat(), noted.sha256, noted.origin) else None


def read_note(path: Path) -> Note | None:
    """Return the note of a file; None if there is none that can be read."""
    try:
        noted = Note(**json.loads(read_small(_note_path(path))))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    texts = noted.sha256, noted.origin or ""
    return noted if all(isinstance(text, str) for text in texts) else None


def write_note(path: Path, note: Note) -> None:
    """Write the note of a file. In a store that cannot be written nothing is noted, and the file is hashed again each time."""
    with suppress(OSError), whole_file(_note_path(path)) as temporary:
        temporary.write_text(json.dumps(asdict(note)), encoding="utf-8")


def forget(path: Path) -> None:
    """Mark a file as not verified. The origin in its note stays."""
    if known := read_note(path):
        write_note(path, Note(-1, -1, known.sha256, known.origin))


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")
