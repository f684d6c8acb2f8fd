"""`fbrag --version`: print the version; with -v also the commit, llama.cpp's build and its devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from fbrag_cli import __version__
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import byte_size


def print_version(context: typer.Context, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    print(f"fbrag {__version__}")
    if any(argument.startswith("-v") or argument == "--verbose" for argument in sys.argv[1:]):
        print(f"commit {_commit() or 'unknown'}")
        try:
            from fbrag_cli.generation.llama import machine
        except FbragError as error:
            print(error.message)
            raise typer.Exit from None
        print(f"llama-cpp-python {machine.version()}: {machine.system_info()}")
        for device in machine.devices():
            print(f"device {device.name}: {device.description}, {byte_size(device.free_bytes)} free")
    raise typer.Exit


def _commit() -> str | None:
    """Return the commit of a source checkout, None without one: a project's repository does not track what is in its .venv."""
    file = Path(__file__)

    def git(*arguments: str) -> str:
        asked = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        return git("rev-parse", "--short=12", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return None
