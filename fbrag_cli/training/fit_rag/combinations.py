"""FIT-RAG's labels of combinations: from which windows together the model answers correctly. The detector is trained on them.

Training uses only questions that the model answers from all windows, but not from none (section 4.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import Passage
from fbrag_cli.generation.generator import CallOptions, Generator
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.fit_rag.parts import FitRagParts
from fbrag_cli.methods.fit_rag.windows import Reduction
from fbrag_cli.methods.method import Tools, method_of
from fbrag_cli.progress import silent
from fbrag_cli.query import Query
from fbrag_cli.storage.rows import Row
from fbrag_cli.training.fit_rag.labels import reply_of
from fbrag_cli.training.rows import GoldQuestion, Pool

Labels = NDArray[np.float32]

SCHEMA = "fbrag.combination/1"
#: Prefixes: numbers of first windows, as the search takes them.
PREFIXES = (10, 7, 5, 3, 2, 1)  # longest first: the others begin with the same text, which is then not read again
#: Random combinations per question: drawn per size, kept in total.
SIZES, DRAWN, KEPT = (2, 3, 5), 4, 6
#: Share of common windows up to which a combination counts as different.
_ALIKE = 0.6

CombinationKey = tuple[str, str, tuple[int, ...]]  # dataset, question, windows


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its windows, best first, and their labels (n_windows, 2). candidates: labels of the chunks from which the
    windows were chosen (n_candidates, 2)."""

    question: GoldQuestion
    windows: tuple[Passage, ...]
    labels: Labels
    candidates: Labels


def case_of(question: GoldQuestion, pool: Pool, parts: FitRagParts, large: Generator) -> Case:
    """Return the case of a question, with the windows that the method finds."""
    collection = pool.of(question.group)
    tools = Tools(
        corpus=collection.corpus,
        retriever=collection.retriever,
        progress=silent,
        cancellation=Cancellation(),
        model=lambda role: large,
        part=lambda folder, load: cast("Any", parts),
    )
    query = Query(question.text, collection, FitRag(fit_rag="trained", reduce="windows"))
    reduction = method_of(query).retrieve(query, tools).method_state
    assert isinstance(reduction, Reduction)
    assert reduction.window_labels is not None
    assert reduction.labels is not None
    return Case(question, reduction.windows, reduction.window_labels, reduction.labels)


def combinations(case: Case, parts: FitRagParts) -> list[tuple[int, ...]]:
    """Return random combinations of the windows of a case, each in rank order.

    For each size the skyline is kept: the combinations that no other of that size dominates in both labels of the joined text.
    """
    random = Random(f"{case.question.dataset} {case.question.id}")
    kept: list[tuple[int, ...]] = []
    for size in (size for size in SIZES if size < len(case.windows)):
        drawn = {tuple(sorted(random.sample(range(len(case.windows)), size))) for _ in range(DRAWN)}
        others = [each for each in sorted(drawn) if each != tuple(range(size)) and not any(_alike(each, other) for other in kept)]
        if others:
            texts = ["\n\n".join(case.windows[i].text for i in each) for each in others]
            kept += [others[i] for i in skyline(parts.scorer.scores(case.question.text, texts))]
    return kept[:KEPT]


def skyline(scores: Labels) -> list[int]:
    """Return the rows of (n, 2) that no other row dominates, that is, is at least as good in both columns and better in one."""
    return [i for i, own in enumerate(scores) if not (np.all(scores >= own, axis=1) & np.any(scores > own, axis=1)).any()]


def _alike(one: Iterable[int], other: Iterable[int]) -> bool:
    a, b = set(one), set(other)
    return len(a & b) / len(a | b) > _ALIKE


def key_of(row: Row) -> CombinationKey:
    """Return the key of the combination whose reply is in a row."""
    return row["dataset"], row["question"], tuple(row["windows"])


def telling(rows: Iterable[Row]) -> list[Row]:
    """Return the rows for training or checking the detector. Training questions with a single row are dropped."""
    rows = list(rows)
    counts = Counter(key_of(row)[:2] for row in rows)
    return [row for row in rows if row["dev"] or counts[key_of(row)[:2]] > 1]


def rows_of(
    case: Case,
    parts: FitRagParts,
    large: Generator,
    before: Mapping[CombinationKey, Row],
    options: CallOptions,
    *,
    right_alone: bool,
) -> Iterator[Row]:
    """Yield the rows of a case. before: rows of an earlier run by key, which are yielded again. right_alone: whether the model
    answers correctly without windows.

    A question for checking has all its prefixes. A training question that the model answers alone, or not from all windows, has
    only one row.
    """
    question, n = case.question, len(case.windows)

    def row(chosen: tuple[int, ...]) -> Row:
        if (found := before.get((*question.key, chosen))) is not None:
            return found
        reply = reply_of(large, [case.windows[i].text for i in chosen], question.text, options)
        made = {
            "schema": SCHEMA,
            "dataset": question.dataset,
            "question": question.id,
            "windows": list(chosen),
            "labels": [_rounded(case.labels[i]) for i in chosen],
            "dev": question.dev,
            "right": question.answered_in(reply),
            "reply": reply,
        }
        return made | ({"candidates": _rounded(case.candidates[:, 0])} if question.dev and len(chosen) == n else {})

    yield (every := row(tuple(range(n))))
    if not question.dev and (right_alone or not every["right"]):
        return
    lengths = range(n - 1, 0, -1) if question.dev else [length for length in PREFIXES if length < n]
    others = [] if question.dev else combinations(case, parts)
    yield from map(row, (*(tuple(range(length)) for length in lengths), *others))


def _rounded(values: Labels) -> list[float]:
    return [round(float(value), 5) for value in values]
