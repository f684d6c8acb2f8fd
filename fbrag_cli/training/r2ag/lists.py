"""The training lists of R2AG: a question, the passages that its retriever finds, and labels of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.methods.relevance.features import FEATURES, Scored, list_features, permuted
from fbrag_cli.retrieval import Retriever
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.training.rows import GoldQuestion, Pool

Array = NDArray[np.float32]

#: Passages per list: drawn for each question, so that the components work with lists of all these lengths.
SHORTEST, LONGEST = 5, 10
#: Maximum words of an answer to train on. A list with a longer answer, such as a summary of a meeting, only teaches relevance.
LONGEST_ANSWER = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageList:
    """A list. passages: best match first. features: (n, n_features). labels: (n,), 1 for evidence. answer: the first gold answer,
    "" if it is too long to train on. dev: whether it is for checking, not for training."""

    id: str
    question: str
    answer: str
    passages: tuple[str, ...]
    features: Array
    labels: Array
    dev: bool

    @property
    def key(self) -> tuple[str, tuple[str, ...], bytes]:
        """The data that a training depends on."""
        return self.question + "\n" + self.answer, self.passages, self.features.tobytes()


def list_of(
    question: GoldQuestion, pool: Pool, retriever: Retriever, length: int | None, names: Sequence[str] = FEATURES
) -> PassageList | None:
    """Return the list of a question: the passages of its group that match best, as `ask` would read them.

    Nothing is added. A list without evidence has only labels of 0, and no answer to train on. retriever: over the passages of the
    question's group. length: None to draw it from `SHORTEST` to `LONGEST`. names: names of the features. Return None for a
    question without evidence or an answer, or if there is only one passage.
    """
    if not question.gold or not question.answers:
        return None
    n = length or Random(f"{question.dataset} {question.id}").randint(SHORTEST, LONGEST)
    passages, scores = pool.passages[question.group], retriever.scores(question.text)
    chosen = best(scores, n)
    if len(chosen) < 2:
        return None
    labels = np.array([passages[i].id in question.gold for i in chosen], np.float32)
    teaches = labels.any() and len(question.answers[0].split()) <= LONGEST_ANSWER
    chunks = [pool.of(question.group).corpus.chunks[i] for i in chosen]
    return PassageList(
        id=question.id,
        question=question.text,
        answer=question.answers[0] if teaches else "",
        passages=tuple(passages[i].text for i in chosen),
        features=list_features(names, chunks, retriever, Scored(question.text, scores)),
        labels=labels,
        dev=question.dev,
    )


def shuffled(lists: Iterable[PassageList]) -> list[PassageList]:
    """Return the lists with the features permuted among the passages of each: a control for the value of features."""
    return [replace(each, features=permuted(each.features, each.question)) for each in lists]


def spread(lists: Sequence[PassageList]) -> tuple[Array, Array]:
    """Return the mean and standard deviation of each feature over all passages, both (n_features,)."""
    features = np.concatenate([each.features for each in lists])
    return features.mean(axis=0), np.maximum(features.std(axis=0), 1e-6)
