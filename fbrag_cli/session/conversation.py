"""`Conversation`: questions one after the other, each understood from those before it. For every front that has one.

A question that leaves out what was named before ("and who paid for it?") finds nothing by its own words. The small model writes
it so that it stands alone, before anything is retrieved. What it writes counts only where it is plausible; else the question
before it stands in front. A question that shows no sign of leaving anything out is taken word for word, and no model is asked.
Measured in tests/benchmarks/README.md, "Follow-up questions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fbrag_cli.generation.generator import CallOptions, Sampling
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.prompts import rewrite_messages
from fbrag_cli.progress import Listener, stage
from fbrag_cli.query import DEFAULT_MODELS, DEFAULT_RETRIEVER, ModelNames, Query
from fbrag_cli.session.pool import Lease
from fbrag_cli.session.session import Session
from fbrag_cli.text.languages import foreign_language, referring_words, stop_words
from fbrag_cli.text.word_forms import is_name
from fbrag_cli.text.words import terms

if TYPE_CHECKING:
    from fbrag_cli.query import Collection
    from fbrag_cli.trace import Trace

#: Exchanges that a question may refer to.
READ = 3

_QUESTION_WORDS = 60  # of each question, at most
_ANSWER_WORDS = 40  # of each answer, at most
_MOST_TOKENS = 96  # of what it writes
_KEPT = 0.5  # of the terms of the typed question, at least, that a plausible one keeps
_LONGER = 30  # words that a plausible one may have more than was typed
_QUOTES = "\"'“”"
_FEW = 1  # terms of a question that says too little to stand alone


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """What the next question may need of one before it.

    question, answer: in as many words as that takes; the answer is "" where the document does not say.
    """

    question: str
    answer: str

    @classmethod
    def of(cls, trace: Trace) -> PastQuestion:
        """Return what a question may need of this one."""
        answer = trace.answer or "" if trace.status == "answered" else ""
        return cls(_short_question(trace.question), _short_answer(answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question of a conversation, and what became of it. typed: as the user typed it; `trace.question` is what was asked."""

    typed: str
    trace: Trace

    @property
    def said(self) -> PastQuestion:
        """What the next question may need of it."""
        return PastQuestion.of(self.trace)


@dataclass(kw_only=True)
class Conversation:
    """Questions on a collection, one after the other. One thread uses it at a time.

    collection, method, models, retriever: of the next query; they may be set between two. plain: whether each question is
    asked as it was typed. history: what was said before the first exchange. exchanges: the questions so far, which nothing is
    kept of elsewhere but the cache.
    """

    session: Session
    collection: Collection
    method: Method
    models: ModelNames = DEFAULT_MODELS
    retriever: str = DEFAULT_RETRIEVER
    plain: bool = False
    history: list[PastQuestion] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def query(self, typed: str, listener: Listener | None = None) -> Query:
        """Return the query that a typed question stands for. `add` its trace when it is answered. Raises as
        `rewrite_question`."""
        return Query(self.rewrite_question(typed, listener), self.collection, self.method, self.models, self.retriever)

    def add(self, typed: str, trace: Trace) -> Exchange:
        """Put an answered question at the end of the conversation, and return it."""
        self.exchanges.append(Exchange(typed=typed, trace=trace))
        return self.exchanges[-1]

    def take_up(self, said: Sequence[tuple[str, str]], listener: Listener | None = None) -> None:
        """Take up a conversation that its client repeats from its beginning.

        said: each question as it was typed, with its answer, "" for none. Each question is understood again, which
        takes the small model only where its reply is not cached. Raises as `rewrite_question`.
        """
        for typed, answer in said:
            self.history.append(PastQuestion(_short_question(self.rewrite_question(typed, listener)), _short_answer(answer)))

    def rewrite_question(self, typed: str, listener: Listener | None = None) -> str:
        """Return the question that a typed one stands for: as it was typed, or whole.

        The small model is fetched and loaded where it is needed. Raises what that raises, and the error of a requested
        cancellation.
        """
        before = [(each.question, each.answer) for each in self._before]
        if self.plain or not before or stands_alone(typed, self.collection.corpus.languages):
            return typed
        listener = listener or self.session.listener
        self.session.models.find([self.session.names(self.models)[0]], listener=listener)
        with stage("understand", listener.progress), Lease(listener) as lease:
            small = self.session.model(self.session.names(self.models)[0], lease=lease)
            sampling = Sampling(_MOST_TOKENS, temperature=0)
            written = small.generate(
                rewrite_messages(before, typed), 1, sampling, CallOptions(cancellation=listener.cancellation)
            )
        return plausible_rewrite(typed, written.samples[0].text, before, self.collection.corpus.languages)

    @property
    def _before(self) -> list[PastQuestion]:
        """What the next question may refer to."""
        return [*self.history, *(each.said for each in self.exchanges[-READ:])][-READ:]


def stands_alone(typed: str, languages: Sequence[str]) -> bool:
    """Return whether a question shows no sign of leaving out what was named before it.

    languages: those of the documents. In a language without a list of referring words, no question stands alone.
    """
    spoken = _spoken(typed, languages)
    known = any(referring_words(each) and not stop_words(each).isdisjoint(_words(typed)) for each in spoken)
    return known and not _referring(typed, spoken) and len(terms(typed, spoken)) > _FEW


def plausible_rewrite(typed: str, written: str, before: Sequence[tuple[str, str]], languages: Sequence[str] = ("en",)) -> str:
    """Return the whole question that a model wrote for a typed one where that is plausible; else the typed one, behind the last
    question and its answer.

    before: the questions before it with their answers, the last one last. languages: those of the documents.
    """
    spoken = _spoken(typed, languages)

    def said(*texts: str) -> frozenset[str]:
        return frozenset(term for text in texts for term in terms(text, spoken))

    whole = next(filter(None, map(str.strip, written.splitlines())), "")
    if whole[:1] in _QUOTES and whole[-1:] in _QUOTES:  # else they are of a title
        whole = whole.strip(_QUOTES)
    own, new = said(typed), said(whole)
    referring = _referring(typed, spoken)
    if new == own and not any(word.endswith("_") for word in referring) and _names_something(typed):
        return typed  # what it refers to stands in itself
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
    """Return the last words of a question: it may have others in front."""
    return " ".join(question.split()[-_QUESTION_WORDS:])


def _short_answer(answer: str) -> str:
    words = answer.split()
    return " ".join(words[:_ANSWER_WORDS]) + (" …" if len(words) > _ANSWER_WORDS else "")


def _spoken(typed: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Return the languages that a question may be in: those of the documents, unless it shows another one."""
    known = tuple(filter(None, languages)) or ("en",)
    return (foreign,) if (foreign := foreign_language(typed, known)) else known


def _referring(question: str, spoken: Sequence[str]) -> frozenset[str]:
    """Return the referring words of a question, as the lists of its languages have them."""
    words = _words(question)
    begins = "_".join([*words[:4], ""])
    listed = frozenset[str]().union(*map(referring_words, spoken))
    return frozenset(word for word in listed if (begins.startswith(word) if word.endswith("_") else word in words))


def _names_something(question: str) -> bool:
    """Return whether a word of a question but the first is spelt as a name."""
    return any(is_name(each) for each in question.split()[1:])


def _words(text: str) -> list[str]:
    return "".join(each if each.isalnum() else " " for each in text.casefold()).split()
