"""Where model files lie, and whether a file is what its name promises. A file that is not is never handed out."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256 as new_sha256
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from fbrag_cli.errors import FbragError
from fbrag_cli.models.catalogue import Catalogue, ModelEntry, load_catalogue
from fbrag_cli.progress import Event, Progress, silent

#: The first bytes of every GGUF file.
MAGIC = b"GGUF"

#: Where a pull keeps what it needs on the way.
PULL_FOLDER = ".pull"

#: How the name of a model outside the catalogue begins.
ELSEWHERE = ("hf:", "https:", "http:")

State = Literal["installed", "unverified", "corrupt size", "missing"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model to load. sha256: hex, None where it was never computed. entry: None for a model outside the catalogue."""

    name: str
    path: Path
    sha256: str | None
    entry: ModelEntry | None

    @property
    def identity(self) -> str:
        """What tells this model from all others: its hash; where there is none, the file as it is now."""
        if self.sha256:
            return self.sha256
        found = self.path.stat()
        return f"{self.path.absolute()} {found.st_size} {found.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as the store has it, without reading the file itself.

    bytes: on the disk; of the catalogue where the file is missing. state: "installed" (verified, and not changed since),
    "unverified" (not hashed since it changed), "corrupt size" (not the catalogue's number of bytes) or "missing".
    """

    name: str
    path: Path
    bytes: int
    sha256: str | None
    entry: ModelEntry | None
    state: State


@dataclass(frozen=True, slots=True)
class Verified:
    """What stands beside a verified file: it had these bytes, this time of change and this SHA-256 (hex).

    origin: what `fbrag models pull` was asked for, where the file came from there: its hash is then the one to expect.
    """

    bytes: int
    mtime_ns: int
    sha256: str
    origin: str | None = None


def models_dir(environ: Mapping[str, str]) -> Path:
    """The store: FBRAG_MODELS_DIR, else the checkout's models/, else fbrag/models of the user's data folder."""
    if chosen := environ.get("FBRAG_MODELS_DIR"):
        return Path(os.path.expanduser(chosen)).absolute()
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "models" / "README.md").is_file():
        return checkout / "models"
    if os.name == "nt":
        base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(environ.get("XDG_DATA_HOME") or "")
        if not base.is_absolute():  # as the XDG specification wants it
            base = Path.home() / ".local" / "share"
    return base / "fbrag" / "models"


# -- names -----------------------------------------------------------------------------------------------------------------


def resolve(name_or_path: str, store: Path, *, catalogue: Catalogue | None = None, progress: Progress = silent) -> ModelFile:
    """The model of that name: a name of the catalogue, a file of `store` (with or without .gguf), or a path to a GGUF file.

    A file that the catalogue or a pull vouches for is hashed if it changed since it was last; progress hears of stage
    "verify", in bytes. Raises FbragError `model_missing`, or `model_corrupt`; its hint is the command that helps.
    """
    catalogue = catalogue or load_catalogue()
    path = locate(name_or_path, store, catalogue)
    if path is None:
        raise _missing(name_or_path, store, catalogue)
    if path.parent != store:
        _check_magic(path, path.name, "name a GGUF file")
        return ModelFile(path.stem, path, None, None)
    entry = catalogue.find(path.name)
    digest = check(path, entry, progress=progress)
    return ModelFile(entry.id if entry else path.stem, path, digest, entry)


def locate(name_or_path: str, store: Path, catalogue: Catalogue) -> Path | None:
    """The file that a name or path means, if it is there; one of the store has `store` as its parent."""
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
    """The name of the file that a name, a `hf:ORG/REPO/FILE` or a URL gives in a store; empty if it can be none."""
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
        what = f"the model {entry.id} ({entry.bytes / 1e9:.1f} GB) is not in {store}"
        return FbragError("model_missing", what, f"fbrag models pull {entry.id}")
    if name.startswith(ELSEWHERE):
        return FbragError("model_missing", f"the model {name} is not in {store}", f"fbrag models pull {name}")
    if Path(name).name != name or os.path.isdir(name):
        return FbragError("model_missing", f"{name} is not a file", "name a GGUF file, or a name of: fbrag models list --all")
    here = [model.name for model in installed(store, catalogue)]
    return FbragError("model_missing", f"there is no model {name}", closest_hint(name, catalogue, here))


def closest_hint(name: str, catalogue: Catalogue, here: Sequence[str] = ()) -> str:
    """What a misspelled name may have meant. here: names that the store has."""
    names, asked = [*here, *catalogue.models], name.casefold()
    near = difflib.get_close_matches(asked, names, n=1) or [each for each in names if asked and asked in each.casefold()]
    if not near:
        return "fbrag models list --all tells all names"
    return f"did you mean {near[0]}?" + ("" if near[0] in here else f" fbrag models pull {near[0]}")


def installed(store: Path, catalogue: Catalogue | None = None) -> tuple[StoredModel, ...]:
    """The models of `store`: those of the catalogue in its order, then others by name. Reads no model file."""
    catalogue = catalogue or load_catalogue()
    order = {entry.file: place for place, entry in enumerate(catalogue.models.values())}
    paths = sorted(store.glob("*.gguf"), key=lambda path: (order.get(path.name, len(order)), path.name))
    return tuple(describe(path, catalogue.find(path.name)) for path in paths)


def describe(path: Path, entry: ModelEntry | None) -> StoredModel:
    """How the store has the model of this file: its size and state."""
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
    """The file of a model of `store`. Raises FbragError `model_missing`."""
    path = locate(name, store, catalogue)
    if path is None or path.parent != store:
        raise _missing(name, store, catalogue)
    return path


def remove(name: str, store: Path, *, catalogue: Catalogue | None = None) -> int:
    """Delete a model of `store`, and what a broken-off pull left of it. The number of bytes freed.

    Raises FbragError `model_missing` if the store has nothing of that name; a file outside the store is never deleted.
    """
    paths = files_of(name, store, catalogue or load_catalogue())
    freed = sum(path.lstat().st_size for path in paths)
    for path in paths:
        path.unlink(missing_ok=True)
    return freed


def files_of(name: str, store: Path, catalogue: Catalogue) -> tuple[Path, ...]:
    """The files that `remove` deletes. Raises FbragError `model_missing` if there are none."""
    entry = catalogue.find(name)
    if not (file := entry.file if entry else file_name(name)):
        raise _missing(name, store, catalogue)
    file = file.removesuffix(".gguf") + ".gguf"
    places = [store / (file + suffix) for suffix in ("", ".json", ".part", ".part.etag")]
    places += (store / PULL_FOLDER / file).glob("*.whl")
    paths = tuple(path for path in places if os.path.isfile(path) or os.path.islink(path))
    if not paths:
        raise _missing(name, store, catalogue)
    return paths


# -- checks ----------------------------------------------------------------------------------------------------------------


def check(path: Path, entry: ModelEntry | None, *, again: bool = False, progress: Progress = silent) -> str | None:
    """Make sure that a file of the store is what it should be: magic bytes, size, SHA-256. Returns the SHA-256 (hex).

    A file whose size and time of change are those of its last check is not hashed, unless `again`. A file that neither the
    catalogue nor a pull vouches for has no SHA-256 to be held against: None, or what an earlier check found.
    Raises FbragError `model_corrupt`.
    """
    name = entry.id if entry else path.stem
    known = read_verified(path)
    origin = entry.id if entry else known.origin if known else None
    repair = f"fbrag models pull {origin}" if origin else f"replace it, or delete it: fbrag models rm {name}"
    _check_magic(path, name, repair)
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


def _check_magic(path: Path, name: str, repair: str) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise FbragError("model_missing", f"{path} cannot be read: {error.strerror}", "check its permissions") from None
    if start != MAGIC:
        raise FbragError("model_corrupt", f"{name} is not a GGUF file: {path}", repair)


def _hash_and_note(path: Path, name: str, origin: str | None, expected: str | None, progress: Progress) -> str:
    """The SHA-256 (hex) of a file; noted beside it, unless another one was expected."""
    before = path.stat()
    progress(Event("verify", "start", 0, before.st_size, name))
    digest, done = new_sha256(), 0
    for block in blocks(path):
        digest.update(block)
        done += len(block)
        progress(Event("verify", "progress", done, before.st_size, name))
    progress(Event("verify", "done", done, before.st_size, name))
    found = digest.hexdigest()
    if expected in (None, found):
        note_verified(path, Verified(before.st_size, before.st_mtime_ns, found, origin))
    return found


def blocks(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """The file in blocks of 1 MiB, up to `limit` bytes."""
    left = path.stat().st_size if limit is None else limit
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            left -= len(block)
            yield block


# -- what is noted beside a file ---------------------------------------------------------------------------------------------


def known_sha256(path: Path) -> str | None:
    """The SHA-256 (hex) that was noted for the file, if it has not changed since."""
    noted = read_verified(path)
    now = path.stat()
    return noted.sha256 if noted and (noted.bytes, noted.mtime_ns) == (now.st_size, now.st_mtime_ns) else None


def read_verified(path: Path) -> Verified | None:
    try:
        return Verified(**json.loads(_note(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # not verified as far as anyone can tell


def note_verified(path: Path, verified: Verified) -> None:
    """Write the note, whole or not at all. In a store that cannot be written the file is hashed again each time."""
    with suppress(OSError):
        write_whole(_note(path), json.dumps(asdict(verified)).encode())


def forget(path: Path) -> None:
    """Take back that the file was verified, but not where it came from."""
    if known := read_verified(path):
        note_verified(path, Verified(-1, -1, known.sha256, known.origin))


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file by renaming. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")
