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
from urllib.parse import urlsplit

_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def pip_install(*arguments: str) -> str:
    """Return the command that installs packages beside this fbrag, whose environment need not be the active one."""
    python = "python" if os.name == "nt" else shlex.quote(sys.executable)
    if find_spec("pip"):
        pip = f"{python} -m pip install"
    elif _is_of_pipx(Path(sys.prefix)):
        pip = f"pipx runpip {_quoted(Path(sys.prefix).name)} install"  # by the uv inside pipx
    else:
        pip = f"uv pip install --python {python}"  # uv's environments have no pip
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

    From a clone it installs the clone with its extra; from a repository or a file, that; else the packages themselves. In an
    environment of `uv tool` or of pipx it is a command of theirs, because these forget at an upgrade what others installed.
    """
    return _extra(name, Path(__file__).parents[1], _direct_url(), Path(sys.prefix))


def _extra(name: str, folder: Path, origin: Mapping[str, Any], environment: Path) -> str:
    """Return the command. folder: that holds this package. origin: where fbrag was installed from, as PEP 610 has it."""
    if _is_of_pipx(environment):
        return " ".join(["pipx inject", _quoted(environment.name), *map(_quoted, _requirements(name))])
    receipt = environment / "uv-receipt.toml"
    is_tool = receipt.is_file()
    if is_tool and (found := re.search(r'name = "fbrag", extras = \[([^]]*)', receipt.read_text("utf-8"))):
        name = ",".join(sorted({name, *re.findall(r"[\w-]+", found[1])}))  # those that are there are removed if not named again
    if not (source := _source(name, folder, origin, pinned=not is_tool)):
        return pip_install(*map(_quoted, _requirements(name)))
    return " ".join(["uv tool install", *source]) if is_tool else pip_install(*source)


def _source(extras: str, folder: Path, origin: Mapping[str, Any], *, pinned: bool) -> list[str]:
    """Return the arguments that name fbrag with extras where it came from; none where that is unknown or gone.

    pinned: of a repository, the commit that is installed, not the newest one.
    """
    from urllib.request import url2pathname

    if _is_clone(folder):
        return ["-e", _quoted(f"{folder}[{extras}]")]
    address = str(origin.get("url", ""))
    version_control = origin.get("vcs_info", {})
    if system := version_control.get("vcs"):
        revision = version_control.get("commit_id" if pinned else "requested_revision")
        return [_quoted(f"fbrag[{extras}] @ {system}+{address}{f'@{revision}' if revision else ''}")]
    path = Path(url2pathname(urlsplit(address).path)) if address.startswith("file:") else None
    return [_quoted(f"{path}[{extras}]")] if path and (path.is_file() or _is_clone(path)) else []


def _is_of_pipx(environment: Path) -> bool:
    return (environment / "pipx_metadata.json").is_file()


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
