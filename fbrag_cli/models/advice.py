"""Which models fit a machine, and which pair of the catalogue it would take.

All of it is arithmetic on the sizes of files and KV cells, and on the speed of the default pair. No answer was measured for it.
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
# Seconds of a question with the default pair on 2 cores without a GPU (README): looking forward, answering.
_FORWARD_SECONDS, _ANSWER_SECONDS = 11.0, 28.5


@dataclass(frozen=True, slots=True)
class Machine:
    """memory: bytes of main memory. gpu_memory: bytes of all GPUs that llama.cpp can use, 0 for none."""

    memory: int
    gpu_memory: int = 0

    @property
    def on_gpu(self) -> bool:
        return self.gpu_memory > 0

    def fits(self, need: int) -> bool:
        """Return whether so many bytes fit the main memory or the GPUs, and leave room for what else runs there."""
        return need <= self.memory - _FOR_OTHERS or self.fits_gpu(need)

    def fits_gpu(self, need: int) -> bool:
        """Return whether so many bytes fit the GPUs."""
        return need <= self.gpu_memory - _FOR_OTHERS_ON_GPU


def this_machine() -> Machine:
    """Return the memory of this machine. Loads llama.cpp, which knows the GPUs; where it does not load, there are none."""
    import psutil

    try:
        from fbrag_cli.generation.llama.machine import gpus

        gpu_memory = sum(gpu.total_bytes for gpu in gpus())
    except (ImportError, OSError, RuntimeError):
        gpu_memory = 0
    return Machine(int(psutil.virtual_memory().total), gpu_memory)


def bytes_needed(size: int, entry: ModelEntry | None, tokens: int = _SMALL_TOKENS) -> int:
    """Return the memory for a model: its weights (`size` bytes), the KV cells of `tokens`, and buffers."""
    return size + tokens * (entry.kv_bytes if entry and entry.kv_bytes else _KV_BYTES) + _BUFFERS


def pair_bytes(pair: Pair) -> int:
    """Return the memory for both models at once."""
    small = bytes_needed(pair.small.bytes, pair.small)
    if len(pair.models) == 1:
        return small
    return small + bytes_needed(pair.large.bytes, pair.large, _LARGE_TOKENS) - _BUFFERS


def suggested(catalogue: Catalogue, machine: Machine) -> Pair:
    """Return the pair with the most weights that fits the machine; the default where no other does."""
    found = catalogue.default
    for pair in catalogue.pairs:
        need = pair_bytes(pair)
        if machine.fits_gpu(need) or (machine.fits(need) and not pair.gpu_only and not machine.on_gpu):
            found = pair
    return found


def reckoned_seconds(pair: Pair, catalogue: Catalogue, machine: Machine) -> float | None:
    """Return the seconds of a question on 2 cores: those of the default pair, by the bytes that a token is computed with.

    None on a GPU, where no pair was timed.
    """
    if machine.on_gpu:
        return None
    default = catalogue.default
    forward, answer = _active(pair.small) / _active(default.small), _active(pair.large) / _active(default.large)
    return _FORWARD_SECONDS * forward + _ANSWER_SECONDS * answer


def described(pair: Pair, catalogue: Catalogue, machine: Machine) -> str:
    """Return a pair in words: its models, size, memory and seconds, which are said to be reckoned unless they were measured."""
    small, large = pair.small.id, pair.large.id
    names = f"{small} for both" if small == large else f"{small} (small) and {large} (large)"
    files = f"{counted(len(pair.models), 'model')}, {byte_size(pair.bytes)}: {names}; {byte_size(pair_bytes(pair))} of memory"
    if (seconds := reckoned_seconds(pair, catalogue, machine)) is None:
        return f"{files} (reckoned)"
    how = "measured" if pair.models == catalogue.default.models else "reckoned from the sizes"
    return f"{files}, some {seconds:.0f} s a question on 2 cores ({how})"


def _active(entry: ModelEntry) -> float:
    return entry.bytes * entry.active
