"""R2AG's relevance alone: what the head of the R2-Former makes of a retriever's scores. No language model runs.

    python tests/benchmarks/r2ag_relevance.py nq [--lengths 2 5 10 15 20] [--embedder FILE.gguf] [--ablations]

The lists are those that R2AG is trained on: the best passages for a question in ../shared/train, by BM25 or by the embedding
model, as they come. Nothing is put in. Each of the systems is trained on the first four fifths, and its AUC is of all passages
of the last fifth. "retriever": its score, untrained; "logistic": a logistic regression of the features and the place; and the
Transformer (width 64), of the relevance alone, of all features and, with --ablations, without each of them or without the place.
Prints the AUC, and its difference to the retriever and to the Transformer of all features, with 95 % bootstrap intervals over
the questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from question_recall import BENCH
from relevance_fit import SIZES, Logistic, fit
from sample_languages import dense, embedder

from fbrag_cli.evaluation.statistics import auc
from fbrag_cli.methods.r2ag.features import FEATURES, RELEVANCE
from fbrag_cli.retrieval import Retriever
from fbrag_cli.training.r2ag.lists import PassageList, list_of
from fbrag_cli.training.rows import Pool, read_material

DRAWS = 1000


def lists(name: str, lengths: list[int], path: Path | None, threads: int) -> Iterator[tuple[int, list[PassageList]]]:
    """Yield each length with the lists of a set's questions."""
    material = read_material([BENCH.parent / "train" / f"{name}.jsonl.gz"])
    pool, by = Pool(material), embedder(path, threads) if path else None

    @cache
    def retriever(group: str) -> Retriever:
        return dense(by, (each.text for each in pool.passages[group])) if by else pool.of(group).retriever

    for length in lengths:
        found = (list_of(each, pool, retriever(each.group), length) for each in material.questions)
        yield length, [each for each in found if each is not None]


def logits(made: list[PassageList], *, ablations: bool) -> dict[str, list[np.ndarray]]:
    """Return what each system gives the passages of the lists for checking."""
    dev = [each for each in made if each.dev]
    found = {"retriever": [each.features[:, FEATURES.index(RELEVANCE)] for each in dev]}
    found["logistic"] = fit(made, FEATURES, kind=Logistic).scores
    found["relevance"] = fit(made, [RELEVANCE]).scores
    found["all"] = fit(made, FEATURES).scores
    for name in FEATURES if ablations else ():
        found[f"without {name}"] = fit(made, [each for each in FEATURES if each != name]).scores
    if ablations:
        found["without place"] = fit(made, FEATURES, replace(SIZES, positions=False)).scores
    return found


def report(length: int, made: list[PassageList], *, ablations: bool) -> None:
    dev, random = [each for each in made if each.dev], np.random.default_rng(0)
    draws = [random.integers(len(dev), size=len(dev)) for _ in range(DRAWS)]
    areas = {name: of(scores, dev, draws) for name, scores in logits(made, ablations=ablations).items()}
    print(f"\nlists of {length}: {len(made) - len(dev)} to train on, {len(dev)} for checking, AUC", flush=True)
    for name, (area, drawn) in areas.items():
        told = f"{name:18} {area:.3f}"
        for base in ("retriever", "all"):
            low, high = np.quantile(drawn - areas[base][1], [0.025, 0.975])
            told += f"   less {base} {area - areas[base][0]:+.3f} ({low:+.3f} to {high:+.3f})" if name != base else ""
        print(told, flush=True)


def of(scores: list[np.ndarray], dev: list[PassageList], draws: list[np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the AUC of all lists, and that of each draw of them."""

    def area(chosen: np.ndarray) -> float:
        found = auc(np.concatenate([scores[i] for i in chosen]), np.concatenate([dev[i].labels for i in chosen]) > 0)
        assert found is not None
        return found

    return area(np.arange(len(dev))), np.array([area(chosen) for chosen in draws])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("set", choices=["nq", "fairytaleqa"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 5, 10, 15, 20])
    parser.add_argument("--embedder", type=Path, metavar="FILE.gguf")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for length, made in lists(options.set, options.lengths, options.embedder, options.threads):
        report(length, made, ablations=options.ablations)


if __name__ == "__main__":
    main()
