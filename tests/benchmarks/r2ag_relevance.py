"""R2AG's relevance alone: what the head of the R2-Former makes of a retriever's scores. No language model runs.

    python tests/benchmarks/r2ag_relevance.py nq [--lengths 2 5 10 15 20] [--embedder FILE.gguf] [--ablations]
    python tests/benchmarks/r2ag_relevance.py part [--lengths 5 10] [--part FOLDER]

The lists are those that R2AG is trained on: the best passages for a question in ../shared/train, by BM25 or by the embedding
model, as they come. Nothing is put in. Each of the systems is trained on the first four fifths, and its AUC is of all passages
of the last fifth. "retriever": its score, untrained; "logistic": a logistic regression of the features and the place; and the
Transformer (width 64), of the relevance alone, of all features and, with --ablations, without each of them or without the place.
"part" trains nothing: it judges a folder of `fbrag train r2ag --relevance`, by default the one in the package, on the lists for
checking of four sets, of which nq was not trained on: AUC over all passages of the retriever's score, of the place and of the
relevance, the AUC inside a list less the retriever's, and the expected calibration error (ten bins of equal width).

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
from fbrag_cli.methods.r2ag import method
from fbrag_cli.methods.relevance.features import FEATURES, RELEVANCE
from fbrag_cli.methods.relevance.former import R2Former, load
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


def judge(former: R2Former, lengths: list[int]) -> None:
    """Print the figures of a part on each set."""
    for name in ("2wikimqa", "fairytaleqa", "qmsum", "nq"):
        for length, every in lists(name, lengths, None, 1):
            made, random = [each for each in every if each.dev], np.random.default_rng(0)
            draws = [random.integers(len(made), size=len(made)) for _ in range(DRAWS)]
            p = [former.relevance(each.features) for each in made]
            scores = [each.features[:, FEATURES.index(RELEVANCE)] for each in made]
            place = [-np.arange(len(each.labels), dtype=np.float32) for each in made]
            areas = [of(each, made, draws) for each in (scores, place, p)]
            inside = [
                (auc(ours, each.labels > 0) or 0) - (auc(theirs, each.labels > 0) or 0)
                for ours, theirs, each in zip(p, scores, made, strict=True)
                if 0 < each.labels.sum() < len(each.labels)
            ]
            low, high = np.quantile([np.mean(random.choice(inside, len(inside))) for _ in range(DRAWS)], [0.025, 0.975])
            lower, upper = np.quantile(areas[2][1], [0.025, 0.975])
            told = f"{name:12} {length:2}  n {len(made):4}  AUC retriever {areas[0][0]:.3f}, place {areas[1][0]:.3f}, "
            told += f"relevance {areas[2][0]:.3f} ({lower:.3f} to {upper:.3f})  within {np.mean(inside):+.3f} "
            told += f"({low:+.3f} to {high:+.3f})  calibration error {calibration(p, made):.3f}"
            print(told, flush=True)


def calibration(p: list[np.ndarray], made: list[PassageList]) -> float:
    """Return the expected calibration error: the mean distance of the probability and the share of evidence, over ten bins."""
    said, labels = np.concatenate(p), np.concatenate([each.labels for each in made])
    bins = np.minimum((said * 10).astype(int), 9)
    return float(sum(abs(said[bins == i].sum() - labels[bins == i].sum()) for i in range(10)) / len(said))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("set", choices=["nq", "fairytaleqa", "part"])
    parser.add_argument("--lengths", type=int, nargs="+")
    parser.add_argument("--part", type=Path, default=Path(method.__file__).with_name("parts"), metavar="FOLDER")
    parser.add_argument("--embedder", type=Path, metavar="FILE.gguf")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.set == "part":
        judge(load(options.part), options.lengths or [5, 10])
        return
    lengths = options.lengths or [2, 5, 10, 15, 20]
    for length, made in lists(options.set, lengths, options.embedder, options.threads):
        report(length, made, ablations=options.ablations)


if __name__ == "__main__":
    main()
