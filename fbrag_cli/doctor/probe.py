"""Child processes that load llama.cpp and run a model, so that a crash is a finding instead of the end of `fbrag doctor`.

The child prints one JSON object as its last line on stdout.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from fbrag_cli import workers
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.process import set_environment
from fbrag_cli.limits import free_memory

_PASSAGE = "The harbour lies to the north of the town, and its lamps are lit by the keeper at six every evening. "
# Variables that hide every GPU from the drivers.
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "GGML_VK_VISIBLE_DEVICES": ""}


@dataclass(frozen=True, slots=True)
class Death:
    """A child's end without a report. cause: a signal such as "SIGSEGV", "timeout", or None. what: one line for the user."""

    cause: str | None
    what: str


def command(*arguments: str) -> list[str]:
    """Return the command of a child that runs `main` with these arguments."""
    return workers.command("fbrag_cli.doctor.probe:main", *arguments)


def run(child: Sequence[str], environ: Mapping[str, str], *, gpu: bool = True, timeout: float = 300) -> dict[str, Any] | Death:
    """Run a child and return its report, or how it died. timeout: seconds. gpu: whether it may see GPUs."""
    try:
        ended = subprocess.run(
            child,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**environ, **({} if gpu else _NO_GPU)},
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Death("timeout", f"no result within {timeout:g} s")
    except OSError as error:
        return Death(None, f"could not start a process to load llama.cpp: {error.strerror or error}")
    if ended.returncode < 0:
        name = workers.signal_name(-ended.returncode)
        return Death(name, f"killed by {name}")
    if ended.returncode > 255:  # an exception in native code, on Windows
        return Death("SIGSEGV", f"killed by exception {ended.returncode:#x}")
    try:
        report = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        return Death(None, lines[-1].strip() if lines else f"exit code {ended.returncode}")
    return report if isinstance(report, dict) else Death(None, "no report")


# -- inside the child ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the task in the arguments: `backend`, or `model PATH GPU_LAYERS THREADS` (layers "auto": as many as fit; threads 0: the
    number of physical cores)."""
    task, *arguments = sys.argv[1:]
    set_environment()
    try:
        report = _backend() if task == "backend" else _model(*arguments)
    except FbragError as error:
        report = {"error": error.message, "hint": error.hint}
    print(json.dumps(report), flush=True)


def _backend() -> dict[str, Any]:
    from fbrag_cli.generation.llama import machine

    return {
        "version": machine.version(),
        "system_info": machine.system_info(),
        "backends": machine.backends(),
        "devices": [
            {
                "name": device.name,
                "description": device.description,
                "is_gpu": device.is_gpu,
                "free_bytes": device.free_bytes if device.is_gpu else free_memory(),
                "total_bytes": device.total_bytes,
            }
            for device in machine.devices()
        ],
    }


def _model(path: str, gpu_layers: str, threads: str) -> dict[str, Any]:
    from fbrag_cli.generation.generator import Message, Sampling
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.llama.weights import Loading
    from fbrag_cli.generation.placement import Placement

    started = perf_counter()
    where = Placement(None if gpu_layers == "auto" else int(gpu_layers))
    with LlamaGenerator(Path(path), Loading(placement=where, threads=int(threads) or None), max_context=512) as generator:
        loaded = perf_counter()
        asked = [Message("user", "What is the capital of France? Answer in one word.")]
        answer = generator.generate(asked, 1, Sampling(max_tokens=8, temperature=0))  # this also reads the weights from the disk
        answered = perf_counter()
        timed = generator.generate([Message("user", f"{_PASSAGE * 8}Describe the harbour.")], 1, Sampling(max_tokens=16))
        return {
            "load_seconds": loaded - started,
            "answer_seconds": answered - loaded,
            "gpu_layers": generator.info.gpu_layers,
            "generated_tokens": answer.generated_tokens,
            "text": answer.samples[0].text,
            "reads": (timed.prompt_tokens - timed.cached_tokens) / timed.prefill_seconds,
            "writes": timed.generated_tokens / max(timed.decode_seconds, 1e-6),
        }
