"""Questions to train on, the passages in which their answers may stand, and what retrieves from these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation import metrics
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.query import Collection
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.languages import detect

# Answers that stand in many passages by chance: containment says nothing of them.
_SAYS_NOTHING = re.compile(r"yes|no|\d|.{0,2}", re.IGNORECASE)
_WHOLE = 100_000  # words of a chunk: a passage is one chunk


@dataclass(frozen=True, slots=True)
class Passage:
    """id: SHA-256 of its text, 16 hex digits. group: passages of one group are retrieved from together."""

    id: str
    text: str
    group: str


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with gold answers.

    group: group of the passages among which it is asked, "" where it has none. gold: ids of the passages that hold the answer, as
    far as the row names them. verbatim: whether an answer stands in texts as it is; of a told story it often does not, and only
    `gold` counts. dev: whether it is for checking, not for training.
    """

    id: str
    dataset: str
    text: str
    answers: tuple[str, ...]
    group: str
    gold: tuple[str, ...]
    verbatim: bool
    dev: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.dataset, self.id

    @property
    def is_telling(self) -> bool:
        """Whether it means something that a text holds a gold answer."""
        return self.verbatim and bool(self._telling())

    def answered_in(self, reply: str) -> bool:
        """Return whether a gold answer stands in `reply` as whole words, normalised as for exact match."""
        return self._stands_in(reply, self.answers)

    def has_answer(self, passage: Passage) -> bool:
        """Return Has_Answer: whether the passage is named as the evidence, or a gold answer stands in it. In a passage an answer
        like "5" may stand by chance: only others count."""
        return passage.id in self.gold or (self.verbatim and self._stands_in(passage.text, self._telling()))

    def _telling(self) -> tuple[str, ...]:
        return tuple(answer for answer in self.answers if not _SAYS_NOTHING.fullmatch(answer.strip()))

    def _stands_in(self, text: str, answers: tuple[str, ...]) -> bool:
        example = Example(self.id, self.dataset, self.text, answers, str, self.id)
        return bool(metrics.answer_in(example, [text]))


@dataclass(frozen=True, slots=True)
class Material:
    """questions: in the order of their files. passages: by group, each once. sha256: SHA-256 of each file, by its name."""

    questions: tuple[GoldQuestion, ...]
    passages: Mapping[str, tuple[Passage, ...]]
    sha256: Mapping[str, str]


class Pool:
    """The passages of each group as a corpus, with its index. Each is made when it is first asked for."""

    def __init__(self, material: Material) -> None:
        self.passages = material.passages
        self._made: dict[str, Collection] = {}

    def of(self, group: str) -> Collection:
        """Return the collection of a group: passage i is chunk i, as none is blank."""
        if group not in self._made:
            corpus = _corpus(self.passages[group])
            self._made[group] = Collection(corpus, BM25.of(corpus))
        return self._made[group]

    def ranked(self, question: GoldQuestion) -> list[Passage]:
        """Return all passages of the question's group, nearest to it first by BM25."""
        order = best(self.of(question.group).retriever.scores(question.text), None)
        return [self.passages[question.group][position] for position in order]


def _corpus(passages: Sequence[Passage]) -> Corpus:
    language = detect(" ".join(each.text for each in passages[:200]))
    documents = [
        Document.of(each.id, each.id, Extracted(Content(each.text), "text/plain"), each.id, language) for each in passages
    ]
    return build_corpus(documents, _WHOLE)
