"""Which models fit a machine, and which pair of the catalogue suits it best.

This is arithmetic on the sizes of files and KV cells, and on the number of cores. No answer was measured for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fbrag_cli.models.catalogue import Catalogue, ModelEntry, Pair
from fbrag_cli.text.printable import byte_size, counted

# Tokens of context that a question needs at most by default: 20 chunks and 5 samples; 10 chunks, the answer and its check.
_SMALL_TOKENS, _LARGE_TOKENS = 12_000, 6_000
_KV_BYTES = 131_072  # of a token, for a model of which this is not known: as an 8B of Llama 3
_BUFFERS = 500_000_000  # bytes of the program and of llama.cpp's buffers
_FOR_OTHERS = 2_500_000_000  # bytes of main memory that are left for the system and other programs
_FOR_OTHERS_ON_GPU = 2_000_000_000  # as `layers_for_gpu` leaves
_BYTES_A_CORE = 2_000_000_000  # of weights, which a CPU reads for each token, that a core is asked to take
_DEFAULT_SECONDS = 40  # of a question with the default pair on 2 cores without a GPU (README)
_DEFAULT_RIGHT = "26 of 74 hard questions"  # that the default pair answered rightly (README)


@dataclass(frozen=True, slots=True)
class Machine:
    """The memory and the cores of a machine.

    memory: bytes of main memory. gpu_memory: bytes on all GPUs that llama.cpp can use, 0 for none. cores: of the CPU that this
    process may use; None for as many as a model takes.
    """

    memory: int
    gpu_memory: int = 0
    cores: int | None = None

    @property
    def on_gpu(self) -> bool:
        return self.gpu_memory > 0

    def fits(self, need: int) -> bool:
        """Return whether `need` bytes fit the main memory or the GPUs, and leave room for other programs."""
        return need <= self.memory - _FOR_OTHERS or self.fits_gpu(need)

    def runs(self, weights: int) -> bool:
        """Return whether the cores read so many bytes of weights fast enough for people to wait for an answer."""
        return self.cores is None or weights <= self.cores * _BYTES_A_CORE

    def fits_gpu(self, need: int) -> bool:
        """Return whether `need` bytes fit the GPUs."""
        return need <= self.gpu_memory - _FOR_OTHERS_ON_GPU


def this_machine() -> Machine:
    """Return this machine. Loads llama.cpp to find GPUs; if it does not load, there are none."""
    import psutil

    try:
        from fbrag_cli.generation.llama.machine import gpus

        gpu_memory = sum(gpu.total_bytes for gpu in gpus())
    except (ImportError, OSError, RuntimeError):
        gpu_memory = 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(int(psutil.virtual_memory().total), gpu_memory, cores)


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
        need, may_use_cpu = pair_bytes(pair), not (pair.gpu_only or machine.on_gpu)
        if machine.fits_gpu(need) or (may_use_cpu and machine.fits(need) and machine.runs(pair.bytes)):
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


def first_run(names: Sequence[str], catalogue: Catalogue, machine: Machine) -> tuple[str, str]:
    """Return the question whether to download these models, and a line on larger ones that suit the machine, "" for none."""
    entries = [catalogue.models[name] for name in names]
    size, default = byte_size(sum(entry.bytes for entry in entries)), catalogue.default
    if {*names} != {entry.id for entry in default.models}:
        return f"first run: download {', '.join(names)} ({size})?", ""
    seconds = "" if machine.on_gpu else f", some {_DEFAULT_SECONDS} s a question on 2 cores"
    question = f"first run: download the default model ({size}{seconds}, {_DEFAULT_RIGHT} right)?"
    pair = suggested(catalogue, machine)
    if pair.models == default.models:
        return question, ""
    larger = " and ".join(entry.id for entry in pair.models if entry not in default.models)
    return question, f"this machine has room for {larger} ({byte_size(pair.bytes)}) too: fbrag models pull --suggested"
