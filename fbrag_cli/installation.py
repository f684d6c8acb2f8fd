"""How this fbrag was installed, and the command that installs more packages beside it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def pip_install(*arguments: str) -> str:
    """Return the command that installs packages beside this fbrag, whose environment need not be the active one."""
    python = "python" if os.name == "nt" else shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"  # uv's environments have no pip
    return " ".join([pip, *arguments])


def requirement(package: str) -> str:
    """Return a package with the versions that fbrag needs of it, as "numpy>=1.23"; its name where that is not known."""
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        for each in metadata.requires("fbrag") or ():
            needed, _, marker = each.partition(";")
            if re.split(r"[^\w.-]", needed.strip())[0] == package and "extra" not in marker:
                return needed.strip()
    return package


def extra(name: str) -> str:
    """Return the command that installs what an extra of fbrag brings, as "plots". It names no package on an index: there is none.

    From a clone it installs the clone with its extra; from a repository or a file, that; else the packages themselves.
    """
    return _extra(name, Path(__file__).parents[1], _direct_url())


def _extra(name: str, folder: Path, origin: Mapping[str, Any]) -> str:
    """Return the command. folder: that holds this package. origin: where pip installed it from, as PEP 610 has it."""
    if _is_clone(folder):
        return pip_install("-e", _quoted(f"{folder}[{name}]"))
    address = str(origin.get("url", ""))
    version_control = origin.get("vcs_info", {})
    if system := version_control.get("vcs"):
        return pip_install(_quoted(f"fbrag[{name}] @ {system}+{address}@{version_control.get('commit_id', 'HEAD')}"))
    path = Path(unquote(urlsplit(address).path)) if address.startswith("file:") else None
    if path and (path.is_file() or _is_clone(path)):
        return pip_install(_quoted(f"{path}[{name}]"))
    return pip_install(*map(_quoted, _requirements(name)))


def _is_clone(folder: Path) -> bool:
    """Return whether a folder is a project that pip can install, and that project is fbrag."""
    try:
        return bool(re.search(r'^name = "fbrag"$', (folder / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
    except (OSError, ValueError):
        return False


def _direct_url() -> Mapping[str, Any]:
    from importlib import metadata

    try:
        found = json.loads(metadata.distribution("fbrag").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _requirements(name: str) -> Iterator[str]:
    """Yield the packages of an extra, with their versions."""
    from importlib import metadata

    for each in metadata.requires("fbrag") or ():
        requirement, _, marker = each.partition(";")
        if name in _EXTRA.findall(marker):
            yield requirement.strip()


def _quoted(argument: str) -> str:
    return f'"{argument}"' if os.name == "nt" else f"'{argument}'" if "'" not in argument else shlex.quote(argument)
