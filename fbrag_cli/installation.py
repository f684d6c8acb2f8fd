"""The command that installs more packages next to this fbrag: with pip, pipx, or uv, or from its clone."""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError

_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def pip_install(*arguments: str) -> str:
    """Return the command that installs packages in fbrag's environment, which need not be the active one."""
    python = "python" if os.name == "nt" else shlex.quote(sys.executable)
    if find_spec("pip"):
        install = f"{python} -m pip install"
    elif Path(sys.prefix, "pipx_metadata.json").is_file():  # uv made it for pipx, and need not be on the path
        install = f"pipx runpip {shlex.quote(Path(sys.prefix).name)} install"
    else:
        install = f"uv pip install --python {python}"
    return " ".join([install, *arguments])


def requirement(package: str) -> str:
    """Return a package with the versions that fbrag needs, such as "numpy>=1.23"; only its name if they are unknown."""
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        for each in metadata.requires("fbrag") or ():
            needed, _, marker = each.partition(";")
            if re.split(r"[^\w.-]", needed.strip())[0] == package and "extra" not in marker:
                return needed.strip()
    return package


def extra(name: str) -> str:
    """Return the command that installs an extra of fbrag, such as "plots": the clone with the extra, or without a clone the
    extra's packages: to name fbrag could replace this version by another one."""
    folder = Path(__file__).parents[1]
    if (folder / "pyproject.toml").is_file():
        return pip_install("-e", _quoted(f"{folder}[{name}]"))
    from importlib import metadata

    parts = [each.partition(";") for each in metadata.requires("fbrag") or ()]
    return pip_install(*(_quoted(needed.strip()) for needed, _, marker in parts if name in _EXTRA.findall(marker)))


def load(module: str, lacking: str, name: str) -> Any:
    """Return a module of fbrag that needs the packages of an extra. lacking: the error message if they are not installed.

    Raises FbragError `usage` if they are not.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fbrag_cli"):
            raise
        raise FbragError("usage", lacking, extra(name)) from None


def _quoted(argument: str) -> str:
    return f'"{argument}"' if os.name == "nt" else f"'{argument}'" if "'" not in argument else shlex.quote(argument)
