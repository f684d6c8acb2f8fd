"""`fbrag models pull`: downloads a model into the store, from the first source that has it complete and correct."""

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
from fbrag_cli.models.catalog import Catalog, ModelEntry, load_catalog
from fbrag_cli.models.hub import HubSource, UrlSource
from fbrag_cli.models.part import ModelSource, PartialDownload, SourceFailedError
from fbrag_cli.models.store import ELSEWHERE, PULL_FOLDER, ModelFile, Note, check, closest_hint, file_name, read_note, write_note
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.storage.files import not_writable

# Seconds within which a hub must reply: few if another source is left, more if it is the last one.
_PATIENCE = 4.0
_LAST_PATIENCE = 15.0


@dataclass(frozen=True, slots=True)
class Download:
    """A model to pull.

    file: its name in the store. sha256: hex, None if only the source knows it. origin: the user's argument, without passwords.
    entry: None for a model outside the catalog.
    """

    file: str
    sources: tuple[ModelSource, ...]
    origin: str
    sha256: str | None
    entry: ModelEntry | None

    @property
    def name(self) -> str:
        return self.entry.id if self.entry else self.file.removesuffix(".gguf")

    @property
    def command(self) -> str:
        """The command that pulls it again."""
        pin = f" --sha256 {self.sha256}" if self.origin.startswith("http") else ""
        return f"fbrag models pull {shlex.quote(self.origin)}{pin}"

    @property
    def bytes(self) -> int | None:
        """The size of the file; None if only the source knows it."""
        return self.entry.bytes if self.entry else None


def pull_all(names: Sequence[str], store: Path, progress: Progress = silent) -> None:
    """Download models of the catalog into `store`. Raises the same errors as `pull`."""
    for name in names:
        pull(read_spec(name, load_catalog()), store, progress=progress, offline=False, environ=os.environ)


def pull(download: Download, store: Path, *, progress: Progress, offline: bool, environ: Mapping[str, str]) -> ModelFile:
    """Return the model in `store`, complete and verified; download it if it is missing or damaged.

    environ: HF_ENDPOINT, HF_TOKEN and the variables of pip. progress: stage "download" (bytes), and "verify" if the file is
    already in the store. After an interruption the next pull resumes.

    Raises FbragError: usage, offline, disk_full, download_failed, model_corrupt.
    """
    path = store / download.file
    if (present := _present(download, path, progress)) is not None:
        return present
    if offline:
        what = f"model {download.name} is not installed, and --offline prevents the download"
        raise FbragError("offline", what, "leave out --offline, and unset FBRAG_OFFLINE and HF_HUB_OFFLINE")
    with _alone(download, store, progress) as folder:
        if (present := _present(download, path, progress)) is not None:  # another process has downloaded it
            return present
        progress(Event("download", "start", 0, download.bytes or 0, download.name))
        part = PartialDownload(path, download.name, download.bytes, progress, download.sha256)
        try:
            digest = _fetch_any(download, part, folder, environ)
            part.become(path)
        finally:
            part.close()
        now = path.stat()
        write_note(path, Note.of(now, digest, download.origin))
        progress(Event("download", "done", now.st_size, now.st_size, download.name))
    return ModelFile(download.name, path, digest, download.entry)


def read_spec(spec: str, catalog: Catalog, sha256: str | None = None) -> Download:
    """Return the model to pull for a name in the catalog, `hf:ORG/REPO[@REVISION]/FILE`, or a URL.

    sha256: the expected one (hex); a URL needs it. Raises FbragError `usage`, `model_missing` (no such name).
    """
    if sha256 is not None:
        sha256 = sha256.lower().removeprefix("sha256:")
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise FbragError("usage", f"--sha256 {sha256}: expected 64 hexadecimal digits", "sha256sum FILE prints it")
    elsewhere = spec.startswith(ELSEWHERE)
    if elsewhere and not file_name(spec):
        raise FbragError("usage", "this URL has no file name", "fbrag models pull hf:ORG/REPO/FILE.gguf")
    entry = catalog.find(file_name(spec) if elsewhere else spec)
    if entry and sha256 not in (None, entry.sha256):
        raise FbragError(
            "usage", f"--sha256 differs from the catalog's for {entry.id}", "drop --sha256: the catalog already pins it"
        )
    if elsewhere:
        source, origin = _own_source(spec, pinned=bool(entry or sha256))
        return Download(entry.file if entry else file_name(spec), (source,), origin, entry.sha256 if entry else sha256, entry)
    if entry is None:
        raise FbragError("model_missing", f"unknown model {spec}", closest_hint(spec, catalog))
    return Download(entry.file, entry.sources, entry.id, entry.sha256, entry)


def _own_source(spec: str, *, pinned: bool) -> tuple[ModelSource, str]:
    """Return the source for a spec outside the catalog, and the spec without passwords."""
    if spec.startswith("hf:"):
        match = re.fullmatch(r"hf:/{0,2}(\w[\w.-]*/\w[\w.-]*)(?:@([^/]+))?/([^?#]+)", spec)
        if not match:
            raise FbragError("usage", f"invalid Hugging Face name: {spec}", "fbrag models pull hf:ORG/REPO/FILE.gguf")
        repo, revision, file = match.groups()
        return HubSource(repo, revision or "main", file), spec
    address = urlsplit(spec)
    if not address.netloc:
        raise FbragError("usage", f"invalid URL: {spec}", "fbrag models pull https://HOST/…/FILE.gguf")
    if not pinned:
        raise FbragError("usage", "a download from a URL needs a SHA-256 to check", "pass --sha256 HEX")
    return UrlSource(spec), address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment="").geturl()


def plan(download: Download, store: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a dry run, for downloading the file on another machine."""
    size = "size unknown" if download.bytes is None else f"{download.bytes} bytes"
    yield f"{download.name}: {size} → {store / download.file} (sha256 {download.sha256 or 'unknown'})"
    for source in download.sources:
        yield from source.plan(environ)


# -- the store --------------------------------------------------------------------------------------------------------------


def _present(download: Download, path: Path, progress: Progress) -> ModelFile | None:
    """Return the model if the store has it; None if it is missing or damaged. Raises FbragError `usage` if another file has its
    name."""
    if not path.is_file():
        return None
    known = read_note(path)
    ours = download.entry is not None or (known is not None and known.origin == download.origin)
    if not ours and download.sha256 is None:
        raise FbragError("usage", f"{path.parent} already has a different {path.name}", f"fbrag models rm {download.name}")
    try:
        digest = check(path, download.entry, again=not ours, progress=progress)
    except FbragError as error:
        if error.code != "model_corrupt" or not ours:
            raise
        return None
    if download.sha256 and digest != download.sha256:
        raise FbragError("usage", f"{path.parent} already has a different {path.name}", f"fbrag models rm {download.name}")
    return ModelFile(download.name, path, digest, download.entry)


@contextmanager
def _alone(download: Download, store: Path, progress: Progress) -> Iterator[Path]:
    """Lock the model against other pulls for a block. Yield a folder for temporary downloads."""
    from filelock import FileLock, Timeout

    folder = store / PULL_FOLDER / download.file
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(folder.name + ".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(Event("download", "text", text=f"waiting: another process is downloading {download.name}"))
            lock.acquire()
    except OSError as error:
        raise not_writable(store, error, "download_failed", "choose another folder: FBRAG_MODELS_DIR") from None
    try:
        yield folder
    finally:
        lock.release()


# -- downloading -------------------------------------------------------------------------------------------------------------


def _fetch_any(download: Download, part: PartialDownload, folder: Path, environ: Mapping[str, str]) -> str:
    """Complete `part` from the first source that can, and return its SHA-256 (hex)."""
    failures: list[str] = []
    came_wrong = False
    for place, source in enumerate(download.sources, 1):
        patience = _LAST_PATIENCE if place == len(download.sources) else _PATIENCE
        while True:
            resumed = part.size > 0
            try:
                part.reserve()
                vouched = source.fetch(part, folder, environ, patience)
                part.check_whole()
            except SourceFailedError as error:
                failures.append(f"{source.where(environ)}: {error}")
                break
            digest, expected = part.sha256(), download.sha256 or vouched
            if digest == expected:
                return digest
            part.cut(0)
            if not resumed:  # otherwise bytes of an earlier attempt may be wrong, so this source gets another try
                came_wrong = True
                failures.append(f"{source.where(environ)}: SHA-256 is {digest}, expected {expected}; file deleted")
                break
    code = "model_corrupt" if came_wrong else "download_failed"
    hint = f"{download.command} --dry-run"  # prints the URLs, for a machine that can reach them
    raise FbragError(code, f"could not download {download.name}: {'; '.join(failures)}", hint)
