"""The installed build: versions, the command that builds llama.cpp again, NVIDIA's driver. Does not load llama.cpp."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from fbrag_cli import __version__
from fbrag_cli.installation import pip_install


def versions() -> dict[str, str]:
    """Return the versions on which an answer depends."""
    return {"fbrag": __version__, "llama_cpp_python": metadata.version("llama-cpp-python")}


def rebuild(**variables: str) -> str:
    """Return the command that builds llama.cpp again. Without --no-cache-dir pip would install the last build's wheel."""
    try:
        package = f"--no-deps llama-cpp-python=={metadata.version('llama-cpp-python')}"
    except metadata.PackageNotFoundError:
        package = "llama-cpp-python"
    install = pip_install("--force-reinstall --no-cache-dir --no-binary llama-cpp-python", package)
    if os.name == "nt":
        return "; ".join([*(f"$env:{name}='{value}'" for name, value in variables.items()), install])
    return " ".join([*(f'{name}="{value}"' for name, value in variables.items()), install])


def has_nvidia(environ: Mapping[str, str]) -> bool:
    """Return whether this machine has the driver of an NVIDIA GPU."""
    return bool(shutil.which("nvidia-smi", path=environ.get("PATH"))) or Path("/proc/driver/nvidia").exists()


def nvidia_driver() -> str | None:
    """Return the version of NVIDIA's kernel driver, None where Linux does not show it."""
    try:
        found = re.search(r"Kernel Module\D*?\s([\d.]+)", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found[1] if found else None
