"""Run what fbrag does on a GPU, once each, and print a table: command, exit code, seconds, layers on the GPU, last words.

    python tests/benchmarks/gpu.py [--model smollm2-135m] [--short] [--limit 900] [-o gpu.jsonl]

The fbrag beside this file runs with this Python, whose llama-cpp-python must be built for a GPU. A second run makes only the rows
that the file lacks. The last row is no command: it compares samples drawn together with samples drawn alone, and the memory that
fbrag expects with what the device reports.

Without a GPU, Mesa's software device runs the same code. llama.cpp needs the headers of Vulkan 1.4, as in Debian 13:

    apt-get install mesa-vulkan-drivers libvulkan-dev glslc spirv-headers
    CMAKE_ARGS=-DGGML_VULKAN=on pip install --no-binary llama-cpp-python --no-cache-dir llama-cpp-python==0.3.36
    GGML_VK_VISIBLE_DEVICES=0 python tests/benchmarks/gpu.py --short
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = ROOT / "tests" / "documents" / "inquiry.txt"
QUESTION = "Where was the Garefowl built?"
FBRAG = [sys.executable, "-m", "fbrag_cli"]

SHORT = (
    "The barque Garefowl was built at Osterwick in 1871 for the timber trade.\n\nTamsin Vale kept the lighthouse until 1894.\n"
)
ASK = "-v ask DOCUMENT QUESTION --small MODEL --large MODEL --refresh LENGTH SAMPLES"
NO_GPU = {"VK_DRIVER_FILES": "/none", "CUDA_VISIBLE_DEVICES": ""}

BATCH = "-v batch HERE/one.txt HERE/two.txt -Q HERE/questions.txt --small MODEL --large MODEL --refresh LENGTH SAMPLES"

#: Commands, and variables that they run with. DEVICE stands for the name of the first GPU, HERE for a new folder.
COMMANDS: dict[str, tuple[str, dict[str, str]]] = {
    "models list": ("models list --all", {}),
    "ask": (ASK, {}),
    "ask, cached": (ASK.replace("--refresh", ""), {}),
    "ask --gpu off": (f"{ASK} --gpu off", {}),
    "ask --gpu require": (f"{ASK} --gpu require", {}),
    "ask --gpu require, 10 layers": (f"{ASK} --gpu require -s gpu-layers=10", {}),
    "ask, 10 layers": (f"{ASK} -s gpu-layers=10", {}),
    "ask, no layers": (f"{ASK} -s gpu-layers=0", {}),
    "ask, one device": (f"{ASK} -s device=DEVICE", {}),
    "ask, no such device": (f"{ASK} -s device=nothing", {}),
    "ask, shares": (f"{ASK} -s tensor-split=1", {}),
    "ask --method r2ag": (ASK.replace("SAMPLES", "--method r2ag"), {}),
    "batch --jobs 2": (f"{BATCH} --jobs 2", {}),
    "chat": ("-v chat DOCUMENT --small MODEL --large MODEL LENGTH SAMPLES", {}),
    "ask, no driver": (ASK, NO_GPU),
    "ask --gpu require, no driver": (f"{ASK} --gpu require", NO_GPU),
    "doctor, no driver": ("doctor --offline", NO_GPU),
    "ask, small buffers": (ASK, {"GGML_VK_FORCE_MAX_ALLOCATION_SIZE": "20000000"}),
    "ask, large context": (f"{ASK} -s ctx=8192 --select 10", {}),
    "doctor": ("doctor --offline", {}),
}


def run(command: str, variables: dict[str, str], told: dict[str, str], limit: float) -> dict[str, Any]:
    """Run a command of fbrag and return its row. told: the meaning of its capitals. limit: seconds after which it is stopped."""
    lengths = command.replace("LENGTH", told["LENGTH"]).replace("SAMPLES", told["SAMPLES"])  # several words each
    words = [re.sub("|".join(told), lambda found: told[found[0]], word) for word in lengths.split()]
    begun = perf_counter()
    try:
        done = subprocess.run(
            [*FBRAG, *words],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=limit,
            input=f"{QUESTION}\n",
        )
        exit_code, out, err = str(done.returncode), done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        exit_code, out, err = f"stopped after {limit:.0f} s", str(late.stdout or ""), str(late.stderr or "")
    layers = re.search(r"(\d+/\d+) layers", err + out)
    said = [line for line in err.splitlines() if line.strip()]
    return {
        "exit": exit_code,
        "seconds": round(perf_counter() - begun, 1),
        "layers": layers[1] if layers else "",
        "out": out[:4000],
        "err": err[-4000:],
        "said": said[-1] if said else "",
    }


def drawn(model: str, text: str) -> dict[str, Any]:
    """Compare five samples of one call with five calls of one sample, and the memory that is expected with that of the device."""
    from fbrag_cli.generation.generator import Message, Sampling
    from fbrag_cli.generation.llama import context, machine
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.models.catalog import load_catalog
    from fbrag_cli.models.store import resolve
    from fbrag_cli.storage.paths import models_dir

    messages = [Message("user", f"{text}\n\n{QUESTION}")]
    begun, before = perf_counter(), machine.free_gpu_memory()
    with LlamaGenerator(resolve(model, models_dir(), load_catalog()).path) as generator:
        loaded = machine.free_gpu_memory()
        together = [sample.text for sample in generator.generate(messages, 5, Sampling(48)).samples]
        made, used = generator._prompts.opened, machine.free_gpu_memory()
        params = context._parameters(generator._weights, made.n_cells, made.n_sequences)
        expected = context.context_bytes(generator._weights, params)
        alone = [generator.generate(messages, 1, Sampling(48, seed=seed)).samples[0].text for seed in range(5)]
        layers = generator.info.gpu_layers
    pairs = list(zip(together, alone, strict=True))
    shared = [next((i for i, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair))) for pair in pairs]
    said = (
        f"{sum(a == b for a, b in pairs)} of 5 samples are equal; they share {shared} of {[*map(len, together)]} characters; "
        f"weights {(before - loaded) / 1e6:.0f} MB, context {(loaded - used) / 1e6:.0f} MB (expected {expected / 1e6:.0f})"
    )
    return {"exit": "0", "seconds": round(perf_counter() - begun, 1), "layers": layers, "out": "", "err": "", "said": said}


def main() -> None:
    """Make the missing rows, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--short", action="store_true", help="a text of 20 words and short replies, for a software device")
    parser.add_argument("--limit", type=float, default=900, help="seconds that a command may take")
    parser.add_argument("--only", default="", help="names of rows, separated by commas")
    parser.add_argument("-o", type=Path, default=Path("gpu.jsonl"), dest="output")
    given = parser.parse_args()
    from fbrag_cli.generation.llama import machine

    found = machine.gpus()
    for gpu in found:
        print(f"{gpu.name}: {gpu.description}, {gpu.total_bytes / 1e9:.1f} GB", file=sys.stderr)
    lines = given.output.read_text().splitlines() if given.output.exists() else []
    rows = {row["name"]: row for row in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as here, given.output.open("a") as file:
        text = SHORT if given.short else DOCUMENT.read_text("utf-8")[:6000]
        (Path(here) / "questions.txt").write_text(f"{QUESTION}\n", "utf-8")
        for name in ("one.txt", "two.txt"):
            (Path(here) / name).write_text(f"{name}\n\n{text}", "utf-8")
        told = {"QUESTION": QUESTION, "MODEL": given.model, "HERE": here, "DEVICE": found[0].name if found else "none"}
        told["DOCUMENT"] = f"{here}/one.txt" if given.short else str(DOCUMENT)
        told["LENGTH"] = "--max-tokens 12" if given.short else ""
        told["SAMPLES"] = "--samples 2 -s forward-tokens=12" if given.short else ""
        for name in [*COMMANDS, "samples"]:
            if name in rows or (given.only and name not in given.only.split(",")):
                continue
            row = run(*COMMANDS[name], told, given.limit) if name in COMMANDS else drawn(given.model, text)
            rows[name] = {"name": name, **row}
            print(json.dumps(rows[name], ensure_ascii=False), file=file, flush=True)
            print(f"{name}: exit {row['exit']}, {row['seconds']} s, {row['layers']}: {row['said']}", file=sys.stderr)
    print("| command | exit | seconds | layers on the GPU | last words |\n|---|---|---|---|---|")
    for row in rows.values():
        print(f"| {row['name']} | {row['exit']} | {row['seconds']} | {row['layers']} | {row['said'][:160].replace('|', '/')} |")


if __name__ == "__main__":
    main()
