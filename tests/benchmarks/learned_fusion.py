"""Evidence recall of FB-RAG's weighted sum and of learned fusion, from samples that were drawn before. No model runs.

    python tests/benchmarks/learned_fusion.py [FOLDER ...] [--cross] [--rows results/looking-forward.jsonl.gz]

FOLDER is what `fbrag train fusion` made; of several, each is compared with the weighted sum. The questions and the samples are
those of looking_forward.py, "2 chunks", the first 3 samples. They are for testing: nothing that fbrag ships is trained on them or
chosen by them. --cross trains on five of the six sets (a fifth of their questions for checking) and tests on the sixth, for each
of them: what the fusion can reach with rows like these.
Prints evidence recall in percent at 3, 5 and 10 chunks, before and after, and the paired difference with its 95 % bootstrap
interval: by set, over all questions, and the mean over the sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from chunk_ends import AT, RESULTS
from looking_forward import DRAWN, Key, from_samples, questions, recalls, samples_by_name
from sample_languages import read

from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.statistics import paired_difference
from fbrag_cli.learned.r2_former import R2Former, load
from fbrag_cli.methods.learned_fusion import Looked, fused
from fbrag_cli.retrieval.list_features import ALL
from fbrag_cli.training.evidence import is_relevant
from fbrag_cli.training.fusion_fit import FORMERS, fit
from fbrag_cli.training.fusion_lists import MAX_LIST, ChunkList

WAY = "2 chunks"


def measured(example: Example, texts: list[str], formers: Mapping[str, R2Former]) -> dict[str, list[float]]:
    """Evidence recall at each of AT: of the weighted sum, "", and of each former."""
    trace, tools = from_samples(example, texts, DRAWN)
    looked = Looked(
        question=example.question,
        samples=trace.samples,
        scores=trace.scores,
        corpus=tools.corpus,
        retriever=tools.retriever,
    )
    scores = {name: fused(looked, former).combined for name, former in formers.items()}
    return {name: recalls(example, each) for name, each in {"": trace.scores.combined, **scores}.items()}


def crossed(asked: Mapping[Key, Example], samples: Mapping[Key, list[str]], name: str) -> dict[Key, dict[str, list[float]]]:
    """As `measured`, of a former that was trained on the other sets."""
    keys = [key for key in asked if key in samples]
    lists = {key: listed(asked[key], samples[key][: DRAWN.samples], dev=i % 5 == 0) for i, key in enumerate(keys)}
    found = {}
    for tested in sorted({key[0] for key in keys}):
        fitted, sizes = fit([each for key, each in lists.items() if key[0] != tested], ALL, FORMERS[name]), FORMERS[name]
        trained = {"tensors": fitted.tensors, "heads": sizes.heads, "layers": sizes.layers}
        former = R2Former(**trained, features=ALL, max_list=MAX_LIST, retriever={}, languages=())
        for key in (key for key in keys if key[0] == tested):
            found[key] = measured(asked[key], samples[key][: DRAWN.samples], {f"{name}, other sets": former})
    return found


def listed(example: Example, texts: list[str], *, dev: bool) -> ChunkList:
    trace, tools = from_samples(example, texts, DRAWN)
    looked = Looked(
        question=example.question, samples=trace.samples, scores=trace.scores, corpus=tools.corpus, retriever=tools.retriever
    )
    positions, text = list(looked.best(MAX_LIST)), example.context()
    gold = [(start, start + len(each)) for each in map(str.strip, example.evidence) if (start := text.find(each)) >= 0]
    labels = np.array([is_relevant(tools.corpus.chunks[position], gold) for position in positions], np.float32)
    return ChunkList(dataset=example.dataset, dev=dev, features=looked.features(ALL, positions), labels=labels, needed=())


def table(name: str, found: Mapping[Key, Mapping[str, list[float]]]) -> None:
    sets = sorted({key[0] for key in found})
    print(f"\n{name}\n{'':16}{'n':>5}" + "".join(f"  | @{k}: sum, learned, difference" for k in AT))
    for told, groups in [
        *((each, [[each]]) for each in sets),
        ("all questions", [sets]),
        ("mean of sets", [[each] for each in sets]),
    ]:
        keys = [[key for key in found if key[0] in group] for group in groups]
        line = f"{told:16}{sum(map(len, keys)):5}"
        for i, _ in enumerate(AT):
            pairs = {str(n): [100 * (found[key][name][i] - found[key][""][i]) for key in some] for n, some in enumerate(keys)}
            old, new = (100 * np.mean([np.mean([found[key][way][i] for key in some]) for some in keys]) for way in ("", name))
            difference = paired_difference(pairs)
            line += f"  |{old:6.1f} {new:6.1f} {difference.mean:+6.1f} [{difference.low:+.1f}, {difference.high:+.1f}]"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--rows", type=Path, nargs="+", default=[RESULTS / "looking-forward.jsonl.gz"])
    options = parser.parse_args()
    formers = {str(folder): load(folder) for folder in options.folders}
    samples, asked = samples_by_name(row for path in options.rows for row in read(path))[WAY], questions()
    tested = [key for key in asked if key in samples and formers]
    found = {key: measured(asked[key], samples[key][: DRAWN.samples], formers) for key in tested}
    for name in formers:
        table(name, found)
    for name in FORMERS if options.cross else ():
        table(f"{name}, other sets", crossed(asked, samples, name))


if __name__ == "__main__":
    main()
