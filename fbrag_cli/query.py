"""`Query`: a question on a `Collection`, and how it is to be answered. Every front makes one and passes it to a `Session`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from fbrag_cli.corpus import Corpus
    from fbrag_cli.methods.method import Method
    from fbrag_cli.retrieval.bm25 import BM25

#: The retriever of a query that names none.
DEFAULT_RETRIEVER = "bm25"

#: Characters of the longest question.
LONGEST_QUESTION = 10_000


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus with its index.

    warnings: one line for each file that was left out. cached: which of "text" and "index" came from the cache. seconds: how long
    collecting took, where the caller has timed it.
    """

    corpus: Corpus
    retriever: BM25
    warnings: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    seconds: float = 0.0


#: What a model of a question does: the small one samples, the large one answers.
Role = Literal["small", "large"]


class ModelNames(NamedTuple):
    """Names, paths or server addresses of the models of a question. None: that of the session."""

    small: str | None = None
    large: str | None = None


#: Both models of the session.
DEFAULT_MODELS = ModelNames()


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question on a collection, and how it is to be answered.

    text: the question. method: the record of its settings. retriever: bm25, or the name of an embedding model. Raises FbragError
    `usage` as `checked_question` does.
    """

    text: str
    collection: Collection
    method: Method
    models: ModelNames = DEFAULT_MODELS
    retriever: str = DEFAULT_RETRIEVER

    def __post_init__(self) -> None:
        checked_question(self.text)

    @property
    def corpus(self) -> Corpus:
        """The chunks that are searched."""
        return self.collection.corpus


def checked_question(text: str) -> str:
    """Return a question without the blanks around it. Fronts call this before they read a document or load a model.

    Raises FbragError `usage` for a text with a `question_fault`.
    """
    if fault := question_fault(text):
        raise FbragError("usage", fault, f"ask in words, with up to {LONGEST_QUESTION:,} characters")
    return text.strip()


def question_fault(text: str) -> str:
    """Return why a text is not a question, for an error; "" if it is one."""
    question = text.strip()
    if not question:
        return "the question is empty"
    if "\0" in question:
        return "the question has a NUL character, which is not text"
    if not any(map(str.isalnum, question)):
        return "the question has no letter and no digit"
    return f"the question has more than {LONGEST_QUESTION:,} characters" if len(question) > LONGEST_QUESTION else ""
