"""The passages of a group of training questions, and what retrieves from them."""

from __future__ import annotations

from collections.abc import Sequence

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.indexing.collect import Collection
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.languages import detect
from fbrag_cli.training.questions import Material, Passage, Question

_WHOLE = 100_000  # words: a passage is one chunk


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

    def ranked(self, question: Question) -> list[Passage]:
        """Return all passages of the question's group, nearest to it first by BM25."""
        order = best(self.of(question.group).retriever.scores(question.text), None)
        return [self.passages[question.group][position] for position in order]


def has_answer(question: Question, passage: Passage) -> bool:
    """Return Has_Answer: whether a gold answer stands in the passage, or the passage is named as the evidence."""
    return passage.id in question.gold or (question.verbatim and question.told_in(passage.text))


def _corpus(passages: Sequence[Passage]) -> Corpus:
    language = detect(" ".join(each.text for each in passages[:200]))
    documents = [
        Document.of(each.id, each.id, Extracted(Content(each.text), "text/plain"), each.id, language) for each in passages
    ]
    return build_corpus(documents, _WHOLE)
