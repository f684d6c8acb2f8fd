"""K forward samples from one prompt: ours (one prefill, one batch) against K calls of llama-cpp-python's own class.

    python tests/benchmarks/forward_samples.py MODEL.gguf DOCUMENT.txt [--chunks 8] [--samples 5] [--repeat 3]

Same weights, prompt, samples, token limit, sampling parameters and threads; the contenders take turns, each round from an empty
cache. llama-cpp-python keeps the prompt between its K calls (its own prefix cache), as it does for anyone. Both write as many
tokens as the model does, so the decode part is also given per token. Prints a line a round, then medians and ratios.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from time import perf_counter

import llama_cpp

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents import load
from fbrag_cli.generation import Sampling
from fbrag_cli.generation.llama import LlamaGenerator
from fbrag_cli.generation.machine import amx_in_use, physical_cores
from fbrag_cli.prompts import Prompt, Text, forward_turns

Figures = tuple[float, float, int]  # seconds in all, seconds of decoding, tokens written


def ours(generator: LlamaGenerator, prompt: Prompt, k: int, sampling: Sampling) -> Figures:
    generator.generate(Prompt((Text("x"),)), 1, Sampling(1))  # forget the prompt
    started = perf_counter()
    result = generator.generate(prompt, k, sampling)
    return perf_counter() - started, result.decode_seconds, result.generated_tokens


def theirs(llama: llama_cpp.Llama, tokens: list[int], k: int, sampling: Sampling) -> Figures:
    llama.reset()
    started = perf_counter()
    written, prefill = 0, 0.0
    for i in range(k):
        first = None
        pieces = llama.create_completion(
            tokens,
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=0.0,
            repeat_penalty=1.0,
            seed=sampling.seed + i,
            stream=True,
        )
        called = perf_counter()
        for _ in pieces:
            first = first or perf_counter()
            written += 1
        prefill += (first or called) - called
    total = perf_counter() - started
    return total, total - prefill, written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("document")
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    if amx_in_use():
        raise SystemExit("llama-cpp-python's own class crashes on this CPU (AMX): there is nothing to compare with")

    chunks = build_corpus([load(options.document)]).chunks[: options.chunks]
    sampling = Sampling(128)
    rounds: dict[str, list[Figures]] = {"ours": [], "create_completion": []}
    with LlamaGenerator(options.model) as generator:
        prompt = generator.prompt(forward_turns([chunk.text for chunk in chunks], "Who is spoken of here, and what happened?"))
        tokens = generator.tokenize(prompt)
        context = len(tokens) + sampling.max_tokens + 64
        llama = llama_cpp.Llama(
            str(options.model), n_ctx=context, n_batch=512, n_threads=physical_cores(), flash_attn=True, verbose=False
        )
        print(f"{options.model.name}: prompt of {len(tokens)} tokens, {options.samples} samples, {physical_cores()} threads")
        for _ in range(options.repeat):
            rounds["ours"].append(ours(generator, prompt, options.samples, sampling))
            rounds["create_completion"].append(theirs(llama, tokens, options.samples, sampling))
            for name, figures in rounds.items():
                total, decode, written = figures[-1]
                ms = 1000 * decode / written
                print(f"  {name:18} {total:7.2f} s, {decode:6.2f} s decoding {written} tokens ({ms:.1f} ms each)")
    whole = {name: median(total for total, _, _ in figures) for name, figures in rounds.items()}
    token = {name: median(decode / written for _, decode, written in figures) for name, figures in rounds.items()}
    faster = [figure["create_completion"] / figure["ours"] for figure in (whole, token)]
    print(f"median of {options.repeat}: {whole['ours']:.2f} s against {whole['create_completion']:.2f} s in all")
    print(f"{faster[0]:.2f} times as fast; decoding, {faster[1]:.2f} times as fast a token")


if __name__ == "__main__":
    main()
