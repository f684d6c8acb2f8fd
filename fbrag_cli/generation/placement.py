"""Placement of a model's layers: GPUs as llama.cpp names them, and the layers for them. Imports nothing from llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes of GPU memory that the weights leave free, for the KV cells of a prompt and llama.cpp's buffers.
GPU_RESERVE = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Device:
    """A device on which llama.cpp can run layers."""

    name: str
    description: str
    is_gpu: bool
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where to place the layers of a model.

    gpu_layers: number of layers on GPUs, -1 for all, None for as many as fit. devices: names of the GPUs to use, () for none,
    None for all. shares: share of the layers per GPU, () to split by free memory.
    """

    gpu_layers: int | None = None
    devices: tuple[str, ...] | None = None
    shares: tuple[float, ...] = ()

    def may_use(self, gpu: Device) -> bool:
        return self.devices is None or gpu.name in self.devices


WHERE_IT_FITS = Placement()
ON_THE_CPU = Placement(devices=())
