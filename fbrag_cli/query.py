"""`Query`: a question on a `Collection`, and how it is to be answered. Every front makes one and passes it to a `Session`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from fbrag_cli.documents.originals import Originals
from fbrag_cli.errors import FbragError
from fbrag_cli.settings import knob, settings_of

if TYPE_CHECKING:
    from fbrag_cli.corpus import Corpus
    from fbrag_cli.retrieval.bm25 import BM25

#: The retriever of a query that names none.
DEFAULT_RETRIEVER = "bm25"

#: Characters of the longest question.
LONGEST_QUESTION = 10_000


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus with its index.

    warnings: one line for each file that was left out. cached: which of "text" and "index" came from the cache. seconds: how long
    collecting took, if the caller timed it. originals: opens the files again.
    """

    corpus: Corpus
    retriever: BM25
    warnings: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    seconds: float = 0.0
    originals: Originals = Originals()


#: What a model of a question does: the small one samples, the large one answers.
Role = Literal["small", "large"]


class ModelNames(NamedTuple):
    """Names, paths or server addresses of the models of a question. None: that of the session."""

    small: str | None = None
    large: str | None = None


#: Both models of the session.
DEFAULT_MODELS = ModelNames()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings(ABC):
    """A method as one record: its name, its settings, and how much it reads. `methods.method.Method` runs it.

    name: as users type it. retrieves: whether the context depends on the retriever. chunk_words: words of a chunk if the user
    names no number. note_keys, table_keys: the keys in JSON of `Trace.method_notes` and `Trace.tables`. own_prompt: whether its
    prompt is a part of the method, so that no other replaces it.
    """

    name: ClassVar[str]
    retrieves: ClassVar[bool] = True
    chunk_words: ClassVar[int] = 300
    note_keys: ClassVar[tuple[str, ...]] = ()
    table_keys: ClassVar[tuple[str, ...]] = ()
    own_prompt: ClassVar[bool] = False

    max_tokens: int = knob(512, "length limit of the answer", minimum=1, compared=False)
    seed: int = knob(0, "random seed: same seed, input, and machine give the same answer", minimum=0, compared=False)
    instructions: str | None = knob(None, "how to phrase the answer: 'in one sentence' (@FILE reads it)", compared=False)
    allow_unsupported: bool = knob(False, "always print an answer, even an unsupported one", compared=False)

    def __post_init__(self) -> None:
        """Raise FbragError `usage` for a value that its setting does not accept."""
        for name, setting in settings_of(type(self)).items():
            if (value := getattr(self, name)) is not None or setting.default is not None:
                setting.check(value, name)

    @property
    def needs_small(self) -> bool:
        """Whether `retrieve` asks the small model."""
        return False

    @property
    def needs_large(self) -> bool:
        """Whether `retrieve` asks the large model."""
        return False

    @abstractmethod
    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        """Return the steps for a document of `n_chunks` chunks, a phrase each, as `--dry-run` prints them."""

    def check(self) -> None:  # noqa: B027 most methods have no trained parts
        """Raise FbragError if the folder of trained parts that the settings name has none, or if the settings need one and name
        none."""

    def n_context_chunks(self, n_chunks: int, chunk_words: int) -> int:
        """Return how many of a document's `n_chunks` chunks, each of `chunk_words` words, the large model reads to answer."""
        return 0

    def for_two_models(self) -> MethodSettings:
        """Return the method for two different models: the large one has to read what the small one has read."""
        return self

    def reading_twice(self) -> MethodSettings | None:
        """Return the method that reads twice as much; None if it reads all or nothing anyway."""
        return None

    @property
    def larger_select(self) -> int | None:
        """The value of `select` that reads twice as much; None if the method reads all or nothing anyway."""
        return None

    def described(self) -> dict[str, Any]:
        """Return the settings that make a difference to a result, by name. They are the key of an evaluation's rows."""
        hidden = ("instructions", "allow_unsupported")
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in hidden}


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question on a collection, and how it is to be answered.

    text: the question. method: the record of its settings. retriever: bm25, or the name of an embedding model. Raises FbragError
    `usage` as `checked_question` does.
    """

    text: str
    collection: Collection
    method: MethodSettings
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
