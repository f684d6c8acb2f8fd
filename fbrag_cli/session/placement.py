"""The GPU options: whether they can be met on this machine, and where each model goes by them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import ModelOptions
from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from fbrag_cli.generation.llama.machine import Placement


def check_gpu(options: ModelOptions, console: Console) -> bool:
    """Whether both models can run on a GPU; that a GPU lies idle because this build of llama.cpp cannot use it is a warning.

    Raises FbragError: `usage` for options that say nothing, `gpu_unavailable` where a GPU is asked for and not there.
    """
    from fbrag_cli.doctor.installation import has_nvidia, rebuild
    from fbrag_cli.generation.llama.machine import built_for_gpu, gpus

    _layers(options.gpu_layers)
    found = [gpu.name for gpu in gpus()] if options.gpu != "off" else []
    build = rebuild(CMAKE_ARGS="-DGGML_CUDA=on")
    if options.gpu == "require" and not found:
        raise FbragError("gpu_unavailable", "this build of llama.cpp finds no GPU", f"{build}; then fbrag doctor")
    if options.gpu == "auto" and not built_for_gpu() and has_nvidia(os.environ):
        console.warn("this machine has an NVIDIA GPU, and this build of llama.cpp cannot use it: the models run on the CPU")
        console.hint(f"{build}    or say --gpu off")
    for option, names in (("--device", options.device), ("--small-device", options.small_device)):
        for name in _names(names):
            if name not in found:
                hint = (
                    f"choose from {', '.join(found)}" if found else "fbrag doctor lists the devices and why there are no others"
                )
                raise FbragError("gpu_unavailable", f"{option} {name}: there is no such GPU", hint)
    shares, n_devices = _shares(options.tensor_split), len(_names(options.device)) or len(found)
    if shares and len(shares) != n_devices:
        what = f"--tensor-split {options.tensor_split}: {len(shares)} shares for {n_devices} GPUs"
        raise FbragError("usage", what, "give a number for each, as 3,1")
    return bool(found)


def placement(options: ModelOptions, *, large: bool) -> Placement:
    """Where the large model, or any other, goes."""
    from fbrag_cli.generation.llama.machine import ON_THE_CPU, Placement

    if options.gpu == "off":
        return ON_THE_CPU
    if not large:
        return Placement(None, _names(options.small_device or options.device) or None)
    return Placement(_layers(options.gpu_layers), _names(options.device) or None, _shares(options.tensor_split))


def _layers(told: str) -> int | None:
    if told == "auto":
        return None
    if told == "all":
        return -1
    if not told.isdigit():
        raise FbragError("usage", f"--gpu-layers {told}: not a number of layers", "use auto, all or a number")
    return int(told)


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


def _shares(listed: str | None) -> tuple[float, ...]:
    try:
        shares = tuple(map(float, _names(listed)))
        valid = all(0 <= share < float("inf") for share in shares) and (any(shares) or not shares)
    except ValueError:
        valid = False
    if not valid:
        raise FbragError("usage", f"--tensor-split {listed}: not shares of GPUs", "give a number for each, as 3,1")
    return shares
