"""Which models fit a machine, and which pair of the catalog suits it best.

This is arithmetic on the sizes of files, KV cells and states, and on the number of cores. No answer was measured for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fbrag_cli.errors import FbragError
from fbrag_cli.limits import total_memory
from fbrag_cli.models.catalog import Catalog, ModelEntry, Pair
from fbrag_cli.text.printable import byte_size, plural

# Tokens of context and sequences that a question needs at most by default. Small: 20 chunks, 5 samples and 4 copies of states.
# Large: 10 chunks, the answer, its check, and 4 copies.
_SMALL_TOKENS, _SMALL_SEQUENCES = 12_000, 9
_LARGE_TOKENS, _LARGE_SEQUENCES = 6_000, 5
_KV_BYTES = 131_072  # of a token, for a model of which this is not known: as an 8B of Llama 3
_BUFFERS = 500_000_000  # bytes of the program and of llama.cpp's buffers
_FOR_OTHERS = 2_500_000_000  # bytes of main memory that are left for the system and other programs
_GPU_RESERVE = 2_000_000_000  # bytes beside the weights: `layers_for_gpu` puts all layers on a GPU that has these

# On a CPU a question takes a time in proportion to the bytes of the weights that a token passes: 0.4 of it the small model, 0.6
# the large one. One model for both reads 1,245 tokens to answer, where another one reads 2,075: it has read the others. With more
# bytes a core people wait for over 90 s (1.1 GB for both took 33.6 s on 2 cores when all was read). More than 8 cores share one
# memory, and gain little.
_SMALL_SHARE = 0.4
_NEW_TO_ONE_MODEL = 1_245 / 2_075
_MOST_BYTES_A_CORE = 1_496_000_000
_MOST_CORES = 8
_DEFAULT_RIGHT = "26 of 74 hard questions right"  # of the default pair (README)


@dataclass(frozen=True, slots=True)
class Machine:
    """The memory and the cores of a machine.

    memory: bytes of main memory. gpu_memory: bytes on all GPUs that llama.cpp can use, 0 for none. cores: number of CPU cores
    that this process may use; None for as many as help.
    """

    memory: int
    gpu_memory: int = 0
    cores: int | None = None

    @property
    def on_gpu(self) -> bool:
        return self.gpu_memory > 0

    def fits(self, need: int) -> bool:
        """Return whether `need` bytes fit the main memory, and leave room for other programs."""
        return need <= self.memory - _FOR_OTHERS

    def fits_gpu(self, weights: int) -> bool:
        """Return whether all layers of models go on the GPUs.

        weights: bytes of the weights of the model that is loaded last, and of all that is loaded before.
        """
        return weights <= self.gpu_memory - _GPU_RESERVE


def this_machine() -> Machine:
    """Return this machine, or the container. Loads llama.cpp to find GPUs; if it does not load, there are none."""
    try:
        from fbrag_cli.generation.llama.machine import gpus, usable_cores

        found, cores = gpus(), usable_cores()
    except FbragError:
        import psutil

        found, cores = (), psutil.cpu_count(logical=False) or 1
    return Machine(total_memory(), sum(gpu.total_bytes for gpu in found), cores)


def bytes_needed(size: int, entry: ModelEntry | None, *, answers: bool = False) -> int:
    """Return the bytes of memory for a model: its weights (`size` bytes), KV cells, states of sequences, and buffers.

    answers: whether it is only the large model of a pair.
    """
    tokens, sequences = (_LARGE_TOKENS, _LARGE_SEQUENCES) if answers else (_SMALL_TOKENS, _SMALL_SEQUENCES)
    kv_bytes = entry.kv_bytes if entry and entry.kv_bytes else _KV_BYTES
    return size + tokens * kv_bytes + sequences * (entry.state_bytes if entry else 0) + _BUFFERS


def pair_bytes(pair: Pair) -> int:
    """Return the bytes of memory for both models at once."""
    small = bytes_needed(pair.small.bytes, pair.small)
    if len(pair.models) == 1:
        return small
    return small + bytes_needed(pair.large.bytes, pair.large, answers=True) - _BUFFERS


def is_slow(small: int, large: int, machine: Machine) -> bool:
    """Return whether people would wait too long for an answer, with models of these bytes of weights that a token passes
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


def suggested(catalog: Catalog, machine: Machine) -> Pair:
    """Return the largest pair that suits the machine, the default pair where no other does."""
    return next((pair for pair in reversed(catalog.pairs) if _suits(pair, machine)), catalog.default)


@dataclass(frozen=True, slots=True)
class Advice:
    """The memory of a machine, and the pair of models that suits it best."""

    machine: Machine
    pair: Pair

    def roles(self, name: str) -> tuple[str, ...]:
        """Return the roles of a model in the suggested pair."""
        return tuple(role for role, entry in (("small", self.pair.small), ("large", self.pair.large)) if entry.id == name)


def advise(catalog: Catalog) -> Advice:
    """Return the advice for this machine."""
    machine = this_machine()
    return Advice(machine, suggested(catalog, machine))


def pair_text(pair: Pair) -> str:
    """Describe a pair in words: models, size and memory."""
    small, large = pair.small.id, pair.large.id
    names = f"{small} for both" if small == large else f"{small} (small) and {large} (large)"
    return f"{plural(len(pair.models), 'model')}, {byte_size(pair.bytes)}: {names}; {byte_size(pair_bytes(pair))} of memory"


def speed_sentence(pair: Pair, catalog: Catalog) -> str:
    """Return in words how many answers of a pair are right."""
    return _DEFAULT_RIGHT if pair.models == catalog.default.models else "its answers were not measured here"


def first_run(names: Sequence[str], catalog: Catalog) -> str:
    """Return the question whether to download these models."""
    size, default = byte_size(sum(catalog.models[name].bytes for name in names)), catalog.default
    if {*names} != {entry.id for entry in default.models}:
        return f"first run: download {', '.join(names)} ({size})?"
    return f"first run: download the default model ({size}, {speed_sentence(default, catalog)})?"
