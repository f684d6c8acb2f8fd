"""K forward samples from one prompt: ours against what else writes them from the same weights.

    python tests/benchmarks/forward_samples.py MODEL.gguf DOCUMENT [--tokens 2000 4000 8000] [--samples 5] [--repeat 3]
        [--contenders fbrag llama-cpp-python ...] [--python xllamacpp=VENV/bin/python ...] [--server URL]

fbrag               one prefill, one batch
llama-cpp-python    K calls of its own class, which keeps the prompt between them
xllamacpp           K requests at once to the server of llama.cpp that its wheel carries (built for any x86-64)
xllamacpp-n         one request for K completions to the same
server, server-n    the same two to a server that listens at --server (llama-server -np K --kv-unified -t THREADS -c CELLS)
transformers        generate(num_return_sequences=K), the weights in bfloat16

Same tokens, length limit, sampling parameters and threads. The contenders take turns, each in a process of its own; each round is
another passage of the document, so that nothing of it is in any cache. The prompt is prose to go on with: nobody stops early.
Prints medians, the lowest and the highest, and ratios to ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from time import perf_counter, sleep
from typing import Any
from urllib.request import Request, urlopen

TEMPERATURE, TOP_P, TOP_K = 1.0, 0.9, 50
Tokens = list[int]
Contender = Callable[[Tokens], dict[str, Any]]  # writes the samples: how many tokens, and the seconds before the first


# -- the contenders: each is made in a process of its own, and imports what is its own ---------------------------------------


def fbrag(model: str, k: int, length: int, cells: int, threads: int) -> Contender:
    from pathlib import Path

    from fbrag_cli.generation.process import set_environment

    set_environment()
    from fbrag_cli.generation.generator import Sampling
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.llama.weights import Loading

    generator = LlamaGenerator(Path(model), Loading(threads=threads))
    sampling = Sampling(length, temperature=TEMPERATURE, top_p=TOP_P, top_k=TOP_K)

    def write(tokens: Tokens) -> dict[str, Any]:
        generator.tokenize = lambda turns: tokens  # type: ignore[method-assign]  # the tokens that the others get
        written = generator.generate((), k, sampling)
        return {"tokens": written.generated_tokens, "prefill": written.prefill_seconds}

    return write


def llama_cpp_python(model: str, k: int, length: int, cells: int, threads: int) -> Contender:
    from llama_cpp import Llama

    from fbrag_cli.generation.llama.machine import amx_in_use

    if amx_in_use():
        raise SystemExit("llama-cpp-python's own class crashes on this CPU (AMX)")
    llama = Llama(model, n_ctx=cells, n_threads=threads, n_threads_batch=threads, n_gpu_layers=-1, verbose=False)

    def write(tokens: Tokens) -> dict[str, Any]:
        written, prefill = 0, None
        started = perf_counter()
        for i in range(k):
            pieces = llama.create_completion(
                tokens,
                max_tokens=length,
                temperature=TEMPERATURE,
                top_p=TOP_P,
                top_k=TOP_K,
                min_p=0.0,
                repeat_penalty=1.0,
                seed=i,
                stream=True,
            )
            for _ in pieces:
                prefill = prefill or perf_counter() - started
                written += 1
        return {"tokens": written, "prefill": prefill}

    return write


def xllamacpp(model: str, k: int, length: int, cells: int, threads: int, *, at_once: bool = False) -> Contender:
    import xllamacpp as x

    params = x.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel, params.kv_unified = k * cells, k, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup, params.verbosity, params.port = False, 0, 0
    held = x.Server(params)
    return requests(held.listening_address, k, length, at_once=at_once, held=held)


def server(address: str, k: int, length: int, cells: int, threads: int, *, at_once: bool = False) -> Contender:
    return requests(address, k, length, at_once=at_once)


def requests(address: str, k: int, length: int, *, at_once: bool, held: object = None) -> Contender:
    """at_once: one request for all samples. held: what has to live as long as the server."""

    def ask(tokens: Tokens, seed: int) -> int:
        body = {"prompt": tokens, "n_predict": length, "temperature": TEMPERATURE, "top_p": TOP_P, "top_k": TOP_K, "min_p": 0}
        body |= {"seed": seed, "repeat_penalty": 1, "cache_prompt": True, "samplers": ["top_k", "temperature", "top_p"]}
        body |= {"n_cmpl": k if at_once else 1}
        data = json.dumps(body).encode()
        with urlopen(Request(f"{address}/completion", data, {"Content-Type": "application/json"})) as reply:
            found = json.load(reply)
        return sum(written["tokens_predicted"] for written in (found if isinstance(found, list) else [found]))

    def write(tokens: Tokens) -> dict[str, Any]:
        n = 1 if at_once else k
        with ThreadPoolExecutor(n) as pool:
            written = sum(pool.map(ask, [tokens] * n, range(n)))
        _ = held
        return {"tokens": written, "prefill": None}

    return write


def transformers(model: str, k: int, length: int, cells: int, threads: int) -> Contender:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    folder, name = os.path.split(model)
    network = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16)
    if torch.cuda.is_available():
        network = network.cuda()

    def write(tokens: Tokens) -> dict[str, Any]:
        ids = torch.tensor([tokens], device=network.device)
        torch.manual_seed(0)
        with torch.inference_mode():
            out = network.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                num_return_sequences=k,
                max_new_tokens=length,
                temperature=TEMPERATURE,
                top_p=TOP_P,
                top_k=TOP_K,
            )
        return {"tokens": int((out.shape[1] - len(tokens)) * k), "prefill": None}

    return write


CONTENDERS: dict[str, Callable[..., Contender]] = {
    "fbrag": fbrag,
    "llama-cpp-python": llama_cpp_python,
    "xllamacpp": xllamacpp,
    "xllamacpp-n": partial(xllamacpp, at_once=True),
    "server": server,
    "server-n": partial(server, at_once=True),
    "transformers": transformers,
}


def serve(name: str, model: str, k: int, length: int, cells: int, threads: int) -> None:
    """A contender's process: a line of tokens in, a line of figures out."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no figure
    write = CONTENDERS[name](model, k, length, cells, threads)
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        tokens = json.loads(line)
        started = perf_counter()
        figures = write(tokens)
        print(json.dumps(figures | {"seconds": perf_counter() - started}), file=out, flush=True)


# -- the comparison ----------------------------------------------------------------------------------------------------------


def passages(model: str, document: str, size: int, n: int) -> list[Tokens]:
    """n runs of `size` tokens from different places of the document."""
    from pathlib import Path

    from fbrag_cli.documents.load import load
    from fbrag_cli.generation.llama.weights import Weights

    weights = Weights(Path(model))
    tokens = weights.tokens_of(load(document).text)
    weights.close()
    if len(tokens) < size + n:
        raise SystemExit(f"{document} has {len(tokens)} tokens: too few for passages of {size}")
    starts = [(len(tokens) - size) * i // max(n - 1, 1) for i in range(n)]
    return [tokens[start : start + size] for start in starts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model")
    parser.add_argument("document")
    parser.add_argument("--tokens", type=int, nargs="+", default=[2000, 4000, 8000])
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=["fbrag", "llama-cpp-python"])
    parser.add_argument("--python", nargs="+", default=[], metavar="CONTENDER=PYTHON")
    parser.add_argument("--server", metavar="URL")
    options = parser.parse_args()

    from fbrag_cli.generation.llama.machine import physical_cores

    threads = options.threads or physical_cores()
    pythons = dict(pair.split("=", 1) for pair in options.python)
    cells = max(options.tokens) + options.samples * options.length + 256
    model = os.path.abspath(options.model)
    children = {}
    for name in options.contenders:
        settings = [options.server if name.startswith("server") else model, options.samples, options.length, cells, threads]
        command = [pythons.get(name, sys.executable), __file__, "--serve", name, *map(str, settings)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise SystemExit(f"{name} did not start: {' '.join(command)}")
        children[name] = child

    print(f"{os.path.basename(model)}: {options.samples} samples of {options.length} tokens, {threads} threads")
    for size in options.tokens:
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in children}
        for tokens in passages(model, options.document, size, options.repeat):
            for name, child in children.items():
                assert child.stdin is not None
                assert child.stdout is not None
                print(json.dumps(tokens), file=child.stdin, flush=True)
                if not (line := child.stdout.readline()):
                    raise SystemExit(f"{name} died at a prompt of {size} tokens")
                rounds[name].append(json.loads(line))
                sleep(1)  # a server's threads come to rest
        report(size, rounds)


def report(size: int, rounds: dict[str, list[dict[str, Any]]]) -> None:
    print(f"\nprompt of {size} tokens: seconds, median (lowest to highest)")
    ours = [figures["seconds"] for figures in rounds.get("fbrag", [])]
    for name, all_figures in rounds.items():
        seconds = [figures["seconds"] for figures in all_figures]
        told = f"  {name:17} {median(seconds):7.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
        if all(figures["prefill"] for figures in all_figures):
            decode = [figures["seconds"] - figures["prefill"] for figures in all_figures]
            told += f", without the prompt {median(decode):6.2f}"
        told += f", {median(figures['tokens'] for figures in all_figures):.0f} tokens"
        if ours and name != "fbrag":
            told += f": {median(b / a for a, b in zip(ours, seconds, strict=True)):.2f} times ours"
        print(told, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:8]))
    else:
        main()
