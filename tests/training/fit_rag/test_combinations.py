"""FIT-RAG's combinations of windows: which are asked about, and from which the detector learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations as pairs_of
from typing import Any

import numpy as np
import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.generation.generator import CallOptions
from fbrag_cli.methods.fit_rag.parts import FitRagParts
from fbrag_cli.training.fit_rag.combinations import KEPT, PREFIXES, Case, combinations, key_of, rows_of, skyline, telling
from fbrag_cli.training.rows import GoldQuestion
from tests.training.fit_rag.test_labels import Parrot

AT = 3  # of the window that holds the answer


class ByLength:
    """A scorer that finds longer texts better, in both labels."""

    def scores(self, question: str, texts: Sequence[str]) -> Any:
        return np.array([[len(text), len(text)] for text in texts], np.float32)


class Silent(Parrot):
    def generate(self, messages: Any, n: int, sampling: Any, call: Any) -> Any:
        found = super().generate(messages, n, sampling, call)
        return replace(found, samples=(replace(found.samples[0], text=""),))


def case(number: int = 1, *, dev: bool = False) -> Case:
    """A question with ten windows, each longer than the one before it."""
    question = GoldQuestion(str(number), "ships", "Where was it built?", ("Hull",), "g", (), True, dev)
    texts = [f"It was built in {'Hull' if i == AT else 'York'}{', they say' * i}." for i in range(10)]
    documents = [Document.of(str(i), str(i), Extracted(Content(text), "text/plain")) for i, text in enumerate(texts)]
    windows = tuple(build_corpus(documents).chunks)
    labels = np.full((10, 2), 0.5, np.float32)
    return Case(question, windows, labels, np.full((40, 2), 0.1, np.float32))


PARTS = FitRagParts(scorer=ByLength(), detector=None, model={}, languages=())  # type: ignore[arg-type]


def rows(of: Case, model: Any = None, *, right_alone: bool = False, before: Any = None) -> list[Any]:
    return list(rows_of(of, PARTS, model or Parrot(), before or {}, CallOptions(), right_alone=right_alone))


def test_a_question_for_training_has_prefixes_and_other_combinations() -> None:
    found = rows(case())
    chosen = [tuple(row["windows"]) for row in found]
    prefixes = [tuple(range(length)) for length in PREFIXES]
    assert chosen[: len(PREFIXES)] == prefixes
    assert set(chosen[len(PREFIXES) :]) == set(combinations(case(), PARTS))
    assert [row["right"] for row in found] == [AT in each for each in chosen]
    again = rows(case(), Silent(), before={key_of(row): row for row in found})
    assert again == found  # nothing is asked twice


def test_a_question_for_checking_has_all_prefixes_and_its_candidates() -> None:
    found = rows(case(dev=True), right_alone=True)
    assert [len(row["windows"]) for row in found] == list(range(10, 0, -1))
    assert len(found[0]["candidates"]) == 40
    assert all("candidates" not in row for row in found[1:])


@pytest.mark.parametrize(("model", "right_alone"), [(Parrot(), True), (Silent(), False)])
def test_what_the_model_answers_alone_or_never_teaches_nothing(model: Any, right_alone: bool) -> None:
    """Section 3.5: the detector learns from questions that are answered from all windows, and not without any."""
    left_out = rows(case(), model, right_alone=right_alone)
    assert len(left_out) == 1
    taught, checked = rows(case(2)), rows(case(3, dev=True), Silent())
    assert telling([*left_out, *taught, *checked]) == [*taught, *checked]


def test_combinations_of_a_size_are_unlike_and_on_the_skyline() -> None:
    many = [combinations(case(number), PARTS) for number in range(20)]
    for found in many:
        assert 0 < len(found) <= KEPT
        assert all(list(each) == sorted(set(each)) and len(each) in (2, 3, 5) for each in found)
        assert all(len(set(a) & set(b)) / len({*a, *b}) <= 0.6 for a, b in pairs_of(found, 2) if len(a) != len(b))
        assert all(sum(a) == sum(b) for a, b in pairs_of(found, 2) if len(a) == len(b))  # as long: no text exceeds another
    assert many == [combinations(case(number), PARTS) for number in range(20)]
    assert len(set(map(tuple, many))) > 1


def test_the_skyline_is_what_nothing_exceeds() -> None:
    scores = np.array([[9, 1], [1, 9], [5, 5], [4, 4], [9, 1], [9, 0]], np.float32)
    assert skyline(scores) == [0, 1, 2, 4]
