"""Where the layers of a model go: GPUs as llama.cpp names them, and what is asked of them. Imports nothing of llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """A device that llama.cpp can run layers on."""

    name: str
    description: str
    is_gpu: bool
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the layers of a model go.

    gpu_layers: how many go on GPUs, -1 for all, None for as many as fit. devices: the names of the GPUs that may be used, () for
    no GPU, None for all. shares: the part of those layers that each of these GPUs takes, () for parts by their free memory.
    """

    gpu_layers: int | None = None
    devices: tuple[str, ...] | None = None
    shares: tuple[float, ...] = ()

    def may_use(self, gpu: Device) -> bool:
        return self.devices is None or gpu.name in self.devices


WHERE_IT_FITS = Placement()
ON_THE_CPU = Placement(devices=())


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs that a build of llama.cpp finds. built_for_gpu: whether it can use any at all."""

    found: tuple[Device, ...] = ()
    built_for_gpu: bool = True
