"""A checkpoint of a training: one file of safetensors with JSON in its metadata, written whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import whole_file

Tensor = Any  # of torch, whose types are not known here
Tensors = Mapping[str, Tensor]

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of each parameter


def write(path: Path, told: Mapping[str, Any], tensors: Tensors) -> None:
    """Write the file. told: with `format`, and `key`: of what the training depends on. Raises OSError."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(save(dict(tensors), {"fbrag": json.dumps(told)}))


def read(path: Path, format: str, key: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Return what was told and the tensors; None where there is no file.

    Raises FbragError `usage` for a file of another training, and what `of_a_file` handles for a damaged one.
    """
    if not path.exists():
        return None
    with safe_open(path, "pt") as file:
        told: dict[str, Any] = json.loads((file.metadata() or {})["fbrag"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    if told["format"] != format:
        raise ValueError(told["format"])
    if told["key"] != key:
        raise FbragError("usage", f"{path} is of other data or settings", "delete it, or choose another folder (-o)")
    return told, tensors


@contextmanager
def of_a_file(path: Path) -> Iterator[None]:
    """Make FbragError `usage` of what a damaged file leads to, while it is read and its content is used."""
    try:
        yield
    except (SafetensorError, ValueError, LookupError, TypeError, RuntimeError) as error:
        raise FbragError("usage", f"{path} is no checkpoint ({error})", "delete it; training begins anew") from None


def state(parameters: Tensors) -> dict[str, Tensor]:
    """Return a copy of the parameters."""
    return {name: each.detach().cpu().clone() for name, each in parameters.items()}


def restore(tensors: Tensors, parameters: Tensors) -> None:
    """Let the parameters be what `state` returned."""
    with torch.no_grad():
        for name, each in parameters.items():
            each.copy_(tensors[name])


def moments(parameters: Tensors, optimizer: Any) -> dict[str, Tensor]:
    """Return copies of what AdamW keeps of each parameter, as "exp_avg.NAME"."""
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment].detach().cpu().clone()
        for name, parameter in parameters.items()
        for moment in _MOMENTS
    }


def restore_moments(tensors: Tensors, parameters: Tensors, optimizer: Any) -> None:
    """Let AdamW keep what `moments` returned."""
    for name, parameter in parameters.items():
        found = {moment: tensors[f"{moment}.{name}"] for moment in _MOMENTS}
        on_device = {moment: each if moment == "step" else each.to(parameter.device) for moment, each in found.items()}
        optimizer.state[parameter] = on_device


def prefixed(prefix: str, state: Tensors) -> dict[str, Tensor]:
    """Return the tensors as "PREFIX.NAME"."""
    return {f"{prefix}.{name}": each for name, each in state.items()}


def named(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """Return the tensors whose names begin with "PREFIX.", without it."""
    return {name.removeprefix(f"{prefix}."): each for name, each in tensors.items() if name.startswith(f"{prefix}.")}
