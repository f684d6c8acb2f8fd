"""The figures of a part that tells relevance (`fbrag train r2ag --relevance`), by default of the one in the package.

    python tests/benchmarks/r2ag_relevance.py [FOLDER] [--lengths 5 10]

No language model runs. The lists are those of questions for checking in ../shared/train, the best passages by BM25 as they come,
of four sets, of which nq was not trained on. Prints for each set and length: AUC over all passages of the retriever's score, of
the place and of the relevance (with a 95 % bootstrap interval over the questions), the AUC inside a list less the retriever's,
and the expected calibration error (ten bins of equal width).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from question_recall import BENCH

from fbrag_cli.evaluation.statistics import auc
from fbrag_cli.methods.relevance.features import FEATURES, RELEVANCE
from fbrag_cli.methods.relevance.former import SHIPPED, R2Former, load
from fbrag_cli.training.r2ag.lists import PassageList, list_of
from fbrag_cli.training.rows import Pool, read_material

DRAWS = 1000


def lists(name: str, length: int) -> list[PassageList]:
    """Return the lists of a set's questions for checking."""
    material = read_material([BENCH.parent / "train" / f"{name}.jsonl.gz"])
    pool = Pool(material)
    found = (list_of(each, pool, pool.of(each.group).retriever, length) for each in material.questions if each.dev)
    return [each for each in found if each is not None]


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
        for length in lengths:
            made, random = lists(name, length), np.random.default_rng(0)
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
    parser.add_argument("part", type=Path, nargs="?", default=SHIPPED, metavar="FOLDER")
    parser.add_argument("--lengths", type=int, nargs="+", default=[5, 10])
    options = parser.parse_args()
    judge(load(options.part), options.lengths)


if __name__ == "__main__":
    main()
