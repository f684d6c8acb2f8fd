"""Which models fit a machine, and which pair of the catalog suits it best.

This is arithmetic on the sizes of files, KV cells and states, and on the number of cores. No answer was measured for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.placement import GPU_RESERVE
from fbrag_cli.limits import total_memory
from fbrag_cli.models.catalog import Catalog, ModelEntry, Pair
from fbrag_cli.text.printable import byte_size

# The largest context (tokens) and number of sequences that a question needs by default. Small: 20 chunks, 5 samples and 4 copies
# of states. Large: 10 chunks, the answer, its check, and 4 copies.
_SMALL_TOKENS, _SMALL_SEQUENCES = 12_000, 9
_LARGE_TOKENS, _LARGE_SEQUENCES = 6_000, 5
_KV_BYTES = 131_072  # per token, for a model whose size is unknown: that of Llama 3 8B
_BUFFERS = 500_000_000  # bytes for the program and llama.cpp's buffers
_FOR_OTHERS = 2_500_000_000  # bytes of main memory kept free for the system and other programs

# On a CPU the time of a question is proportional to the bytes of weights that each token passes: 0.4 of it for the small model,
# 0.6 for the large one. If one model serves as both, it reads 1,245 tokens to answer; a second model reads 2,075, because it has
# read none before. Above this number of bytes per core people wait more than 90 s (1.1 GB for both took 33.6 s on 2 cores when
# everything was read). More than 8 cores share one memory, and gain little.
_SMALL_SHARE = 0.4
_NEW_TO_ONE_MODEL = 1_245 / 2_075
_MOST_BYTES_A_CORE = 1_496_000_000
_MOST_CORES = 8
#: What the default model cannot do (README), for the first run.
OF_THE_DEFAULT = (
    "The default model is small, and often wrong even if it has read the answer. For a larger one, now or later: "
    "fbrag models use recommended"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The memory and the cores of a machine.

    memory: bytes of main memory. gpu_memory: bytes on all GPUs that llama.cpp can use, 0 for none. cores: number of CPU cores
    that this process may use; None for as many as are useful.
    """

    memory: int
    gpu_memory: int = 0
    cores: int | None = None

    @property
    def on_gpu(self) -> bool:
        return self.gpu_memory > 0

    def fits(self, need: int) -> bool:
        """Return whether `need` bytes fit in main memory and leave room for other programs."""
        return need <= self.memory - _FOR_OTHERS

    def fits_gpu(self, weights: int) -> bool:
        """Return whether all layers of the models fit on the GPUs.

        weights: bytes of the weights of the model loaded last, plus all memory used by models loaded before it.
        """
        return weights <= self.gpu_memory - GPU_RESERVE


def this_machine() -> Machine:
    """Return this machine, or the container. Loads llama.cpp to find GPUs; if that fails, none are found."""
    try:
        from fbrag_cli.generation.llama.machine import gpus, usable_cores

        devices, cores = gpus(), usable_cores()
    except FbragError:
        import psutil

        devices, cores = (), psutil.cpu_count(logical=False) or 1
    return Machine(total_memory(), sum(gpu.total_bytes for gpu in devices), cores)


def bytes_needed(size: int, entry: ModelEntry | None, *, answers: bool = False) -> int:
    """Return the bytes of memory that a model needs: its weights (`size` bytes), KV cells, sequence states, and buffers.

    answers: whether it is only used as the large model of a pair.
    """
    tokens, sequences = (_LARGE_TOKENS, _LARGE_SEQUENCES) if answers else (_SMALL_TOKENS, _SMALL_SEQUENCES)
    kv_bytes = entry.kv_bytes if entry and entry.kv_bytes else _KV_BYTES
    return size + tokens * kv_bytes + sequences * (entry.state_bytes if entry else 0) + _BUFFERS


def pair_bytes(pair: Pair) -> int:
    """Return the bytes of memory that both models need together."""
    small = bytes_needed(pair.small.bytes, pair.small)
    if len(pair.models) == 1:
        return small
    return small + bytes_needed(pair.large.bytes, pair.large, answers=True) - _BUFFERS


def is_slow(small: int, large: int, machine: Machine) -> bool:
    """Return whether an answer would take too long, given the bytes of weights that a token passes in each model
    (`active_bytes`)."""
    answering = (1 - _SMALL_SHARE) * (_NEW_TO_ONE_MODEL if small == large else 1)
    weights = _SMALL_SHARE * small + answering * large
    return not machine.on_gpu and weights > _MOST_BYTES_A_CORE * min(machine.cores or _MOST_CORES, _MOST_CORES)


def _suits(pair: Pair, machine: Machine) -> bool:
    if machine.on_gpu:
        small = 0 if len(pair.models) == 1 else bytes_needed(pair.small.bytes, pair.small)
        return pair.only != "cpu" and machine.fits_gpu(small + pair.large.bytes)
    slow = is_slow(pair.small.active_bytes, pair.large.active_bytes, machine)
    return pair.only != "gpu" and machine.fits(pair_bytes(pair)) and not slow


def recommended(catalog: Catalog, machine: Machine) -> Pair:
    """Return the largest pair that suits the machine, the default pair if no other does."""
    return next((pair for pair in reversed(catalog.pairs) if _suits(pair, machine)), catalog.default)


@dataclass(frozen=True, slots=True)
class Advice:
    """A machine, and the pair of models that suits it best."""

    machine: Machine
    pair: Pair

    def roles(self, name: str) -> tuple[str, ...]:
        """Return the roles of a model in the recommended pair."""
        return tuple(role for role, entry in (("small", self.pair.small), ("large", self.pair.large)) if entry.id == name)


def advise(catalog: Catalog) -> Advice:
    """Return the advice for this machine."""
    machine = this_machine()
    return Advice(machine, recommended(catalog, machine))


def pair_text(pair: Pair) -> str:
    """Return a pair in words: models, size of the download and memory."""
    small, large = pair.small.id, pair.large.id
    names = f"{small} (small and large)" if small == large else f"{small} (small) + {large} (large)"
    return f"{names}, {byte_size(pair.bytes)} download, {byte_size(pair_bytes(pair))} of memory"
