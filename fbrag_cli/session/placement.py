"""Which GPUs the models may use: checks the settings against this machine, and places each model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.placement import ON_THE_CPU, Device, Placement
from fbrag_cli.generation.server.address import is_elsewhere, is_server
from fbrag_cli.progress import Event, Progress
from fbrag_cli.query import Role
from fbrag_cli.session.settings import ModelSettings

if TYPE_CHECKING:
    from fbrag_cli.generation.llama.weights import Loading


def check_gpu(settings: ModelSettings, models: Sequence[str], progress: Progress) -> bool:
    """Check the GPU settings. Return whether `models` can run on a GPU. Warn of a GPU that llama.cpp cannot use.

    A server on this machine counts as running on its GPU, if it has one. A server elsewhere counts as running on a GPU, since
    nothing is known about it. Raises FbragError: `usage` for invalid settings, `gpu_unavailable` if a requested GPU is not found.
    """
    from fbrag_cli.generation.build import has_nvidia

    _layers(settings.gpu_layers)
    elsewhere = [name for name in models if is_elsewhere(name)]
    own = [name for name in models if not is_server(name)]
    named = settings.gpu == "require" or settings.device
    gpu_names = [gpu.name for gpu in gpus_here(bool(own and named))] if settings.gpu != "off" else []
    if own and not gpu_names and settings.gpu != "off":
        _note_no_gpu(settings, progress)
    _check_devices(settings, gpu_names)
    here = bool(gpu_names) or (not own and settings.gpu != "off" and has_nvidia(os.environ))
    return here or len(elsewhere) == len(models)


def _note_no_gpu(settings: ModelSettings, progress: Progress) -> None:
    """Say why llama.cpp finds no GPU: an error if one is required, a warning if there is one of NVIDIA's."""
    from fbrag_cli.generation.build import has_nvidia, install_for_gpu

    try:
        from fbrag_cli.generation.llama.machine import gpu_backends
    except FbragError:
        return  # llama.cpp does not load, which is said when it is needed
    backends = gpu_backends()
    built = f"built for {' and '.join(backends)}" if backends else "built without GPU support"
    if settings.gpu == "require":
        driver = "check the GPU's driver (fbrag doctor), or use --gpu auto"
        hint = driver if backends else f"{install_for_gpu(os.environ)} && fbrag doctor"
        raise FbragError("gpu_unavailable", f"--gpu require: no GPU found (llama.cpp was {built})", hint)
    if has_nvidia(os.environ):
        idle = f"llama.cpp ({built}) cannot use the NVIDIA GPU: running on the CPU (--gpu off hides this)"
        progress(Event("load", "warning", text=idle))
        progress(Event("load", "hint", text="fbrag doctor" if backends else install_for_gpu(os.environ)))


def gpus_here(needed: bool) -> tuple[Device, ...]:
    """Return the GPUs that llama.cpp finds. If it does not load there are none, or with `needed`, its error is raised."""
    try:
        from fbrag_cli.generation.llama.machine import gpus
    except FbragError:
        if needed:
            raise
        return ()
    return gpus()


def _check_devices(settings: ModelSettings, found: Sequence[str]) -> None:
    """Check that the named GPUs exist. found: names of the GPUs that llama.cpp finds."""
    for name in _names(settings.device):
        if name not in found:
            hint = f"use {', '.join(found)}" if found else "fbrag doctor"
            raise FbragError("gpu_unavailable", f"--set device={name}: GPU not found", hint)
    shares, n_devices = _shares(settings.tensor_split), len(_names(settings.device)) or len(found)
    if shares and len(shares) != n_devices:
        what = f"--set tensor-split={settings.tensor_split}: {len(shares)} shares for {n_devices} GPUs"
        raise FbragError("usage", what, "give one number per GPU, such as 3,1")


def placement(settings: ModelSettings, role: Role) -> Placement:
    """Return the GPUs and layers for a model. Any other model than the large one has those of the small one."""
    if settings.gpu == "off":
        return ON_THE_CPU
    if role == "small":
        return Placement(None, _names(settings.device) or None)
    return Placement(_layers(settings.gpu_layers), _names(settings.device) or None, _shares(settings.tensor_split))


def loading(settings: ModelSettings, role: Role, cancellation: Cancellation, *, verbose: bool) -> Loading:
    """Return how to load a model, placed as in `placement`."""
    from fbrag_cli.generation.llama.weights import Loading

    where = placement(settings, role)
    return Loading(placement=where, threads=settings.threads, cancellation=cancellation, verbose=verbose)


def devices_asked(asked: Placement, gpus: Sequence[Device]) -> list[object]:
    """Return the GPUs that a model may use and the settings for them, for a cache key; the same on all CPUs.

    The number of layers that fit is not included: it is only known once the model is loaded, and affects replies only by
    rounding.
    """
    found = [gpu.description for gpu in gpus if asked.may_use(gpu)]
    return [found, asked.gpu_layers, asked.shares] if found and asked.gpu_layers != 0 else []


def _layers(text: str) -> int | None:
    if text == "auto":
        return None
    if text == "all":
        return -1
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise FbragError("usage", f"--set gpu-layers={text}: expected auto, all or a number", "for example --set gpu-layers=20")
    return int(text)


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


def _shares(listed: str | None) -> tuple[float, ...]:
    try:
        shares = tuple(map(float, _names(listed)))
        valid = all(0 <= share < float("inf") for share in shares) and (any(shares) or not shares)
    except ValueError:
        valid = False
    if not valid:
        raise FbragError(
            "usage", f"--set tensor-split={listed}: expected numbers, one per GPU", "give one number per GPU, such as 3,1"
        )
    return shares
