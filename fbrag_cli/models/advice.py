"""Which models fit a machine, and which pair of the catalogue suits it best.

This is arithmetic on the sizes of files and KV cells. No answer was measured for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fbrag_cli.models.catalogue import Catalogue, ModelEntry, Pair
from fbrag_cli.text.printable import byte_size, counted

# Tokens of context that a question needs at most by default: 20 chunks and 5 samples; 10 chunks, the answer and its check.
_SMALL_TOKENS, _LARGE_TOKENS = 12_000, 6_000
_KV_BYTES = 131_072  # of a token, for a model of which this is not known: as an 8B of Llama 3
_BUFFERS = 500_000_000  # bytes of the program and of llama.cpp's buffers
_FOR_OTHERS = 2_500_000_000  # bytes of main memory that are left for the system and other programs
_FOR_OTHERS_ON_GPU = 2_000_000_000  # as `layers_for_gpu` leaves
_DEFAULT_SECONDS = 40  # of a question with the default pair on 2 cores without a GPU (README)


@dataclass(frozen=True, slots=True)
class Machine:
    """The memory of a machine. memory: bytes of main memory. gpu_memory: bytes on all GPUs that llama.cpp can use, 0 for none."""

    memory: int
    gpu_memory: int = 0

    @property
    def on_gpu(self) -> bool:
        return self.gpu_memory > 0

    def fits(self, need: int) -> bool:
        """Return whether `need` bytes fit the main memory or the GPUs, and leave room for other programs."""
        return need <= self.memory - _FOR_OTHERS or self.fits_gpu(need)

    def fits_gpu(self, need: int) -> bool:
        """Return whether `need` bytes fit the GPUs."""
        return need <= self.gpu_memory - _FOR_OTHERS_ON_GPU


def this_machine() -> Machine:
    """Return the memory of this machine. Loads llama.cpp to find GPUs; if it does not load, there are none."""
    import psutil

    try:
        from fbrag_cli.generation.llama.machine import gpus

        gpu_memory = sum(gpu.total_bytes for gpu in gpus())
    except (ImportError, OSError, RuntimeError):
        gpu_memory = 0
    return Machine(int(psutil.virtual_memory().total), gpu_memory)


def bytes_needed(size: int, entry: ModelEntry | None, tokens: int = _SMALL_TOKENS) -> int:
    """Return the bytes of memory for a model: its weights (`size` bytes), the KV cells of `tokens` tokens, and buffers."""
    return size + tokens * (entry.kv_bytes if entry and entry.kv_bytes else _KV_BYTES) + _BUFFERS


def pair_bytes(pair: Pair) -> int:
    """Return the bytes of memory for both models at once."""
    small = bytes_needed(pair.small.bytes, pair.small)
    if len(pair.models) == 1:
        return small
    return small + bytes_needed(pair.large.bytes, pair.large, _LARGE_TOKENS) - _BUFFERS


def suggested(catalogue: Catalogue, machine: Machine) -> Pair:
    """Return the largest pair that fits the machine, the default pair where no other does."""
    found = catalogue.default
    for pair in catalogue.pairs:
        need = pair_bytes(pair)
        if machine.fits_gpu(need) or (machine.fits(need) and not pair.gpu_only and not machine.on_gpu):
            found = pair
    return found


@dataclass(frozen=True, slots=True)
class Advice:
    """The memory of a machine, and the pair of models that suits it best."""

    machine: Machine
    pair: Pair

    def roles(self, name: str) -> tuple[str, ...]:
        """Return the roles of a model in the suggested pair."""
        return tuple(role for role, entry in (("small", self.pair.small), ("large", self.pair.large)) if entry.id == name)


def advise(catalogue: Catalogue) -> Advice:
    """Return the advice for this machine."""
    machine = this_machine()
    return Advice(machine, suggested(catalogue, machine))


def described(pair: Pair, catalogue: Catalogue, machine: Machine) -> str:
    """Describe a pair in words: models, size, memory, and the seconds for a question where they were measured."""
    small, large = pair.small.id, pair.large.id
    names = f"{small} for both" if small == large else f"{small} (small) and {large} (large)"
    files = f"{counted(len(pair.models), 'model')}, {byte_size(pair.bytes)}: {names}; {byte_size(pair_bytes(pair))} of memory"
    timed = pair.models == catalogue.default.models and not machine.on_gpu
    return f"{files}, some {_DEFAULT_SECONDS} s a question on 2 cores" if timed else files
