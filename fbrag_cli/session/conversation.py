"""`Conversation`: a series of questions, each of which may refer to earlier ones. Used by every front that has conversations.

A follow-up question that leaves out a name ("and who paid for it?") finds nothing by its own words. Before retrieval, the small
model rewrites it as a complete question. The rewrite is used only if it is plausible; otherwise the previous question is put
before the typed one. A question with no sign of leaving anything out is used as typed, without asking a model. Measured in
tests/benchmarks/README.md, "Follow-up questions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fbrag_cli.generation.generator import CallOptions, Sampling
from fbrag_cli.methods.prompts import rewrite_messages
from fbrag_cli.progress import Listener, stage
from fbrag_cli.query import (
    DEFAULT_MODELS,
    DEFAULT_RETRIEVER,
    LONGEST_QUESTION,
    MethodSettings,
    ModelNames,
    Query,
    checked_question,
)
from fbrag_cli.session.pool import Lease
from fbrag_cli.session.session import Session
from fbrag_cli.text.languages import foreign_language, referring_words, stop_words
from fbrag_cli.text.word_forms import is_name
from fbrag_cli.text.words import terms

if TYPE_CHECKING:
    from fbrag_cli.query import Collection
    from fbrag_cli.trace import Trace

#: Number of earlier exchanges that a question may refer to.
READ = 3

_QUESTION_WORDS = 60  # maximum, per question
_ANSWER_WORDS = 40  # maximum, per answer
_MOST_TOKENS = 96  # maximum, per rewrite
_KEPT = 0.5  # minimum share of the typed question's terms in a plausible rewrite
_LONGER = 30  # maximum number of words that a plausible rewrite adds
_QUOTES = "\"'“”"
_FEW = 1  # number of terms up to which a question is too short to be complete


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """What the next question may need of an earlier one.

    question, answer: shortened; the answer is "" if none was found.
    """

    question: str
    answer: str

    @classmethod
    def of(cls, trace: Trace) -> PastQuestion:
        """Return what the next question may need of this trace."""
        answer = trace.answer or "" if trace.status == "answered" else ""
        return cls(_short_question(trace.question), _short_answer(answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question of a conversation with its trace. typed: as the user typed it; `trace.question` is the question that was
    asked."""

    typed: str
    trace: Trace

    @property
    def said(self) -> PastQuestion:
        """What the next question may need of this one."""
        return PastQuestion.of(self.trace)


@dataclass(kw_only=True)
class Conversation:
    """A conversation about a collection, for use by one thread at a time.

    collection, method, models, retriever: for the next query; may be set between two questions. plain: whether each question is
    asked as typed. history: questions and answers before the first exchange. exchanges: the exchanges so far, which are stored
    nowhere else except in the cache.
    """

    session: Session
    collection: Collection
    method: MethodSettings
    models: ModelNames = DEFAULT_MODELS
    retriever: str = DEFAULT_RETRIEVER
    plain: bool = False
    history: list[PastQuestion] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def query(self, typed: str, listener: Listener | None = None) -> Query:
        """Return the query for a typed question. `add` its trace when it is answered. Raises the same errors as
        `rewrite_question`."""
        typed = checked_question(typed)
        return Query(self.rewrite_question(typed, listener), self.collection, self.method, self.models, self.retriever)

    def add(self, typed: str, trace: Trace) -> Exchange:
        """Append an answered question to the conversation, and return it."""
        self.exchanges.append(Exchange(typed=typed, trace=trace))
        return self.exchanges[-1]

    def take_up(self, said: Sequence[tuple[str, str]], listener: Listener | None = None, *, complete: bool = False) -> None:
        """Restore a conversation from a client that repeats it from the beginning.

        said: each question as typed, with its answer, "" for none. Each question is rewritten again, for which the small model
        runs only if its reply is not cached. complete: whether the questions need no rewriting. Raises the same errors as
        `rewrite_question`.
        """
        for typed, answer in said:
            question = typed if complete else self.rewrite_question(typed, listener)
            self.history.append(PastQuestion(_short_question(question), _short_answer(answer)))

    def rewrite_question(self, typed: str, listener: Listener | None = None) -> str:
        """Return the question that a typed one means: as typed, or completed from earlier ones.

        The small model is downloaded and loaded if needed. Raises the errors of that, and the error of a requested cancellation.
        """
        before = [(each.question, each.answer) for each in self._before]
        if self.plain or not before or stands_alone(typed, self.collection.corpus.languages):
            return typed
        listener = listener or self.session.listener
        self.session.models.find([self.session.names(self.models)[0]], listener)
        with stage("understand", listener.progress), Lease(listener) as lease:
            small = self.session.model("small", self.models, lease=lease)
            sampling = Sampling(_MOST_TOKENS, temperature=0)
            written = small.generate(
                rewrite_messages(before, typed), 1, sampling, CallOptions(cancellation=listener.cancellation)
            )
        rewritten = plausible_rewrite(typed, written.samples[0].text, before, self.collection.corpus.languages)
        return rewritten if len(rewritten) <= LONGEST_QUESTION else typed

    @property
    def _before(self) -> list[PastQuestion]:
        """The earlier questions that the next one may refer to."""
        return [*self.history, *(each.said for each in self.exchanges[-READ:])][-READ:]


def stands_alone(typed: str, languages: Sequence[str]) -> bool:
    """Return whether a question shows no sign of referring to earlier ones.

    languages: those of the documents. In a language without a list of referring words, the result is always False.
    """
    spoken = _spoken(typed, languages)
    known = any(referring_words(each) and not stop_words(each).isdisjoint(_words(typed)) for each in spoken)
    return known and not _referring(typed, spoken) and len(terms(typed, spoken)) > _FEW


def plausible_rewrite(typed: str, written: str, before: Sequence[tuple[str, str]], languages: Sequence[str] = ("en",)) -> str:
    """Return the question that a model wrote for a typed one if it is plausible; else the last question, its answer and the typed
    one.

    before: the earlier questions with their answers, oldest first. languages: those of the documents.
    """
    spoken = _spoken(typed, languages)

    def said(*texts: str) -> frozenset[str]:
        return frozenset(term for text in texts for term in terms(text, spoken))

    whole = next(filter(None, map(str.strip, written.splitlines())), "")
    if whole[:1] in _QUOTES and whole[-1:] in _QUOTES:  # quotes around the whole question, not around a title
        whole = whole.strip(_QUOTES)
    own, new = said(typed), said(whole)
    referring = _referring(typed, spoken)
    if new == own and not any(word.endswith("_") for word in referring) and _names_something(typed):
        return typed  # it contains what it refers to
    question, answer = before[-1]
    plausible = (
        new - own  # names something
        and len(own & new) >= _KEPT * len(own)
        and new - own <= said(*(text for pair in before for text in pair))  # invents nothing
        and new != said(question)  # is not the question before
        and (not referring or not referring <= _referring(whole, spoken))  # refers to less
        and said(*filter(is_name, typed.split()[1:])) <= new  # keeps the names
        and len(whole.split()) <= len(typed.split()) + _LONGER
        and ("?" in whole or "?" not in typed)
        and not foreign_language(whole, spoken)
    )
    return whole if plausible else " ".join(filter(None, [question, answer and f"({answer})", typed]))


def _short_question(question: str) -> str:
    """Return the last words of a question, which may have earlier ones before it."""
    return " ".join(question.split()[-_QUESTION_WORDS:])


def _short_answer(answer: str) -> str:
    words = answer.split()
    return " ".join(words[:_ANSWER_WORDS]) + (" …" if len(words) > _ANSWER_WORDS else "")


def _spoken(typed: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Return the languages that a question may be in: those of the documents, unless it is clearly in another one."""
    known = tuple(filter(None, languages)) or ("en",)
    return (foreign,) if (foreign := foreign_language(typed, known)) else known


def _referring(question: str, spoken: Sequence[str]) -> frozenset[str]:
    """Return the referring words in a question, as spelled in the lists of its languages."""
    words = _words(question)
    begins = "_".join([*words[:4], ""])
    listed = frozenset[str]().union(*map(referring_words, spoken))
    return frozenset(word for word in listed if (begins.startswith(word) if word.endswith("_") else word in words))


def _names_something(question: str) -> bool:
    """Return whether any word of a question except the first is spelled like a name."""
    return any(is_name(each) for each in question.split()[1:])


def _words(text: str) -> list[str]:
    return "".join(each if each.isalnum() else " " for each in text.casefold()).split()
