"""The folders of the cache, the configuration, the models and the servers: of the user's choice, else the platform's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fbrag_cli.storage.files import on_disk

if TYPE_CHECKING:
    from platformdirs.api import PlatformDirsABC


def cache_dir() -> Path:
    """Return FBRAG_CACHE_DIR, else fbrag in the user's folder of caches. It may not exist yet."""
    return _chosen("FBRAG_CACHE_DIR") or _of_user("user_cache_dir")


def config_path() -> Path:
    """Return the user's own configuration file. It may not exist."""
    return _of_user("user_config_dir") / "config.toml"


def models_dir() -> Path:
    """Return FBRAG_MODELS_DIR, else models/ of the source checkout, else fbrag/models in the user's folder of data."""
    if chosen := _chosen("FBRAG_MODELS_DIR"):
        return chosen
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "models" / "README.md").is_file():
        return checkout / "models"
    return _of_user("user_data_dir") / "models"


def token_path() -> Path:
    """Return the file of the token that programs send to this user's servers. It may not exist yet."""
    return _of_user("user_data_dir") / "token"


def runtime_dir() -> Path:
    """Return fbrag's folder of the user for what lives as long as a process. It may not exist yet."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(folder) / "fbrag" if os.path.isabs(folder) else _of_user("user_data_dir") / "run"


def is_nowhere(folder: Path) -> bool:
    """Return whether a folder of the user is none, as the user has no home."""
    return folder.is_relative_to(os.devnull)


def _chosen(variable: str) -> Path | None:
    if not (value := os.environ.get(variable)):
        return None
    path = Path(on_disk(os.path.expanduser(value)))
    try:
        return path.absolute()
    except OSError:  # a relative path, and the working folder was deleted: it cannot exist
        return path


def _of_user(folder: Literal["user_cache_dir", "user_config_dir", "user_data_dir"]) -> Path:
    """Return fbrag's part of a folder of the user. A user without a home, as in containers, gets a path that cannot exist."""
    folders: PlatformDirsABC
    if sys.platform == "win32":
        from platformdirs.windows import Windows

        folders = Windows("fbrag", appauthor=False, roaming=folder == "user_config_dir")
    else:  # macOS too: there command line tools use ~/.config
        from platformdirs.unix import Unix

        folders = Unix("fbrag")
    try:
        return Path(getattr(folders, folder))
    except RuntimeError:
        return Path(os.devnull) / "fbrag"
