"""What trained networks share: the device and the numbers they compute with, silence, and the checkpoint.

A checkpoint is one file of safetensors with JSON in its metadata, from which a stopped training goes on.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from transformers.utils import logging

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import whole_file

Tensor = Any  # of torch, whose types are not known here
Tensors = Mapping[str, Tensor]
Standing = TypeVar("Standing")

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of each parameter


def device() -> str:
    """Return where networks train: "cuda" where torch finds a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def has_bfloat16(device: str) -> bool:
    """Return whether the device computes with bfloat16 as fast as with float32, or faster."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.4
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers and peft from writing to the terminal: a model may lack a part, or have others that nothing uses."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft calls what transformers is about to remove
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


# -- the checkpoint --------------------------------------------------------------------------------------------------------------


class Checkpoint:
    """Writes and reads the state of a training: its parameters, those of its best epoch, and AdamW's moments of each.

    format: name and version of the file's content. key: SHA-256 (hex) of all that the training depends on. parameters: what
    trains, by name. best: a copy of the parameters after the best epoch, empty before there was one.
    """

    def __init__(self, path: Path, format: str, key: str, parameters: Tensors, optimizer: Any) -> None:
        self._path, self._format, self._key = path, format, key
        self._parameters, self._optimizer = parameters, optimizer
        self.best: Tensors = {}

    def read(self, parse: Callable[[Mapping[str, Any]], Standing]) -> Standing | None:
        """Restore the parameters and the moments. Return `parse(record)`, None where there is no file.

        Raises FbragError `usage` for a damaged file, and for that of another training.
        """
        if not self._path.exists():
            return None
        try:
            with safe_open(self._path, "pt") as file:
                record = json.loads((file.metadata() or {})["fbrag"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            if record["format"] != self._format:
                raise ValueError(record["format"])
            if record["key"] != self._key:
                raise FbragError(
                    "usage", f"{self._path} is of other data or settings", "delete it, or choose another folder (-o)"
                )
            self._restore(tensors)
            return parse(record)
        except (SafetensorError, OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
            raise FbragError("usage", f"{self._path} is no checkpoint ({error})", "delete it; training begins anew") from None

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the file, whole or not at all. record: JSON's values, which `read` hands to `parse`. Raises OSError."""
        tensors = {f"last.{name}": each for name, each in _copied(self._parameters).items()}
        tensors |= {f"best.{name}": each for name, each in self.best.items()}
        for name, parameter in self._parameters.items():
            kept = self._optimizer.state[parameter]
            tensors |= {f"{moment}.{name}": kept[moment].detach().cpu().clone() for moment in _MOMENTS}
        text = json.dumps({"format": self._format, "key": self._key, **record})
        with whole_file(self._path) as unfinished:
            unfinished.write_bytes(save(tensors, {"fbrag": text}))

    def keep_best(self) -> None:
        """Let the parameters as they are now be those of the best epoch."""
        self.best = _copied(self._parameters)

    def restore_best(self) -> None:
        """Set the parameters to those of the best epoch."""
        _set(self._parameters, self.best)

    def _restore(self, tensors: Tensors) -> None:
        _set(self._parameters, {name: tensors[f"last.{name}"] for name in self._parameters})
        self.best = {name.removeprefix("best."): each for name, each in tensors.items() if name.startswith("best.")}
        for name, parameter in self._parameters.items():
            found = {moment: tensors[f"{moment}.{name}"] for moment in _MOMENTS}
            self._optimizer.state[parameter] = {
                moment: each if moment == "step" else each.to(parameter.device) for moment, each in found.items()
            }


def _copied(parameters: Tensors) -> dict[str, Tensor]:
    return {name: each.detach().cpu().clone() for name, each in parameters.items()}


def _set(parameters: Tensors, values: Tensors) -> None:
    with torch.no_grad():
        for name, each in parameters.items():
            each.copy_(values[name])
