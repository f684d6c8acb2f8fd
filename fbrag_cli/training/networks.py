"""Common parts of network training: device, number format, silent libraries, and the checkpoint.

A checkpoint is one safetensors file with JSON in its metadata, from which a stopped training resumes.
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

Tensor = Any  # of torch, whose types are unknown here
Tensors = Mapping[str, Tensor]
Standing = TypeVar("Standing")

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # AdamW's state per parameter


def device() -> str:
    """Return the device for training: "cuda" if torch finds a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def has_bfloat16(device: str) -> bool:
    """Return whether the device is at least as fast with bfloat16 as with float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.4
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@contextmanager
def quiet() -> Iterator[None]:
    """Context manager: silence the warnings of transformers and peft, for example about missing or unused tensors."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft uses deprecated functions of transformers
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


# -- the checkpoint --------------------------------------------------------------------------------------------------------------


class Checkpoint:
    """Writes and reads the state of a training: its parameters, those of its best epoch, and AdamW's moments.

    format: name and version of the file format. key: SHA-256 (hex) of everything that the training depends on. parameters: the
    trained parameters, by name. best: a copy of the parameters after the best epoch, empty before the first.
    """

    def __init__(self, path: Path, format: str, key: str, parameters: Tensors, optimizer: Any) -> None:
        self._path, self._format, self._key = path, format, key
        self._parameters, self._optimizer = parameters, optimizer
        self.best: Tensors = {}

    def read(self, parse: Callable[[Mapping[str, Any]], Standing]) -> Standing | None:
        """Restore the parameters and the moments. Return `parse(record)`, None if there is no file.

        Raises FbragError `usage` if the file is damaged or belongs to another training.
        """
        if not self._path.exists():
            return None
        try:
            with safe_open(self._path, "pt") as file:
                record = json.loads((file.metadata() or {})["fbrag"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            if record["format"] != self._format:
                raise ValueError(record["format"])
            if record["key"] != self._key:
                raise FbragError(
                    "usage", f"{self._path} was made with other data or settings", "delete it, or use another folder (-o)"
                )
            self._restore(tensors)
            return parse(record)
        except (SafetensorError, OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
            raise FbragError("usage", f"{self._path} is not a valid checkpoint ({error})", "delete it to start over") from None

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the file atomically. record: JSON values, which `read` passes to `parse`. Raises OSError."""
        tensors = {f"last.{name}": each for name, each in _copied(self._parameters).items()}
        tensors |= {f"best.{name}": each for name, each in self.best.items()}
        for name, parameter in self._parameters.items():
            kept = self._optimizer.state[parameter]
            tensors |= {f"{moment}.{name}": kept[moment].detach().cpu().clone() for moment in _MOMENTS}
        text = json.dumps({"format": self._format, "key": self._key, **record})
        with whole_file(self._path) as unfinished:
            unfinished.write_bytes(save(tensors, {"fbrag": text}))

    def keep_best(self) -> None:
        """Save the current parameters as those of the best epoch."""
        self.best = _copied(self._parameters)

    def restore_best(self) -> None:
        """Set the parameters to those of the best epoch."""
        _set(self._parameters, self.best)

    def _restore(self, tensors: Tensors) -> None:
        _set(self._parameters, {name: tensors[f"last.{name}"] for name in self._parameters})
        self.best = {name.removeprefix("best."): each for name, each in tensors.items() if name.startswith("best.")}
        for name, parameter in self._parameters.items():
            moments = {moment: tensors[f"{moment}.{name}"] for moment in _MOMENTS}
            self._optimizer.state[parameter] = {
                moment: tensor if moment == "step" else tensor.to(parameter.device) for moment, tensor in moments.items()
            }


def _copied(parameters: Tensors) -> dict[str, Tensor]:
    return {name: each.detach().cpu().clone() for name, each in parameters.items()}


def _set(parameters: Tensors, values: Tensors) -> None:
    with torch.no_grad():
        for name, each in parameters.items():
            each.copy_(values[name])
