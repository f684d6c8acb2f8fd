"""`Answer`: a Trace as people and programs are shown it. Text, Markdown, JSON, pages, agents and rows only draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fbrag_cli.citations import Claim
from fbrag_cli.corpus import Passage
from fbrag_cli.render.passages import also_in, scored
from fbrag_cli.text.languages import detect, sentence, stop_words
from fbrag_cli.text.printable import one_line, plural, printable
from fbrag_cli.text.spans import Span
from fbrag_cli.text.words import word_spans
from fbrag_cli.trace import Trace

#: Where no text of the document was read.
OWN_KNOWLEDGE = "from the model's own knowledge, not from the document"
#: How the command line gives an answer that the chunks do not show.
ANYWAY = " (--answer-anyway gives it)"
#: Where an answer was given, and no sentence earns a citation.
UNPROVED = "no sentence of the sources shows this"

_PROPOSED = 200  # characters of an answer that the chunks do not show
_SAID = 60  # characters of the answer of a sample
_NAMED = 8  # words that are named
_SCRIPT_SHOWS = ("el", "ja", "ko", "zh")  # languages that a question's script shows
_CERTAIN = 2  # function words of another language in a question, for the question to be in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A passage that the large model read.

    rank: its place among the sources, best first, from 1. number: by which it is cited, from 1: first the cited sources, in the
    order of the answer, or the closest one without any, then the others, best first; None before there is an answer. score: with
    its scale, as `scored` has it. also_in: places of copies, to follow its own. sentence: the one that shows the answer best;
    None without one. shows: "best" for a cited source; "closest" for the one that is nearest to a question which the document
    does not answer; "near" for one whose sentence shows nothing; "" for one for which a line is enough. marks: spans of words
    that show the answer, in characters of the document.
    """

    passage: Passage
    rank: int
    number: int | None
    score: str
    also_in: str
    sentence: Passage | None
    marks: tuple[Span, ...]
    shows: Literal["best", "closest", "near", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is shown of a Trace.

    declined: whether the document does not say. missing_terms: says which words of the question no chunk has; "" without any.
    head: stands before an unsure answer, else "". text: the answer in full, printable. claims: its sentences, with numbers of
    sources. heading: of `sources`, which stand in the order of their numbers, or of their ranks before the answer. own_knowledge:
    whether no text of the document was read. sample_answers: what the samples answered, of an unsure answer. unsupported_answer:
    the model's answer where the document does not say. uncited: whether no sentence shows the answer. unsupported_terms: its
    words that stand in no source. grounds: what it rests on, a few words each. cut: says that it was cut at its length limit,
    else "".
    """

    question: str
    declined: bool
    missing_terms: str
    head: str
    text: str
    claims: tuple[Claim, ...]
    heading: str
    sources: tuple[Source, ...]
    own_knowledge: bool
    sample_answers: str
    unsupported_answer: str
    uncited: bool
    unsupported_terms: tuple[str, ...]
    grounds: tuple[str, ...]
    cut: str

    @property
    def pieces(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the answer in pieces, which end with sentences, each with the numbers of the sources that show it."""
        at = 0
        for claim in self.claims:
            yield self.text[at : claim.end], claim.sources
            at = claim.end
        if at < len(self.text):
            yield self.text[at:], ()

    @property
    def cited(self) -> tuple[int, ...]:
        """Return the numbers of the sources that show a sentence."""
        return tuple(each.number for each in self.sources if each.shows == "best" and each.number)

    def notes(self, *, anyway: str = ANYWAY, sources: bool = True) -> Iterator[str]:
        """Yield a line for each thing that is to be known beside the answer.

        anyway: follows an answer that the document does not say. sources: whether the sources are shown, of which some speak.
        """
        if self.own_knowledge:
            yield f"The answer is {OWN_KNOWLEDGE}."
        if self.sample_answers:
            yield f"The forward samples say: {self.sample_answers}"
        if self.unsupported_answer:
            yield f"Proposed, but not shown by the chunks: {one_line(self.unsupported_answer, _PROPOSED)}{anyway}"
        if sources and self.uncited:
            yield UNPROVED
        if sources and self.unsupported_terms:
            yield f"in no source: {_first(self.unsupported_terms)}"


def answer_of(trace: Trace) -> Answer:
    """Return what is shown of a trace, with an answer or before it has one."""
    cited, declined = trace.citations, trace.status == "not_found"
    # Sources are counted in the order in which the answer cites them; without any, the closest one comes first.
    ranks = range(1, len(cited.evidence) + 1)
    named = list(dict.fromkeys(rank for claim in cited.claims for rank in claim.sources))
    first = named or [rank for rank in ranks if rank == cited.nearest and trace.status != "retrieved"]
    order = [*first, *(rank for rank in ranks if rank not in first)]
    numbers = {rank: number for number, rank in enumerate(order, 1)}

    def shows(rank: int) -> Literal["best", "closest", "near", ""]:
        if trace.status == "retrieved":
            return "near"
        if rank in named:
            return "best"
        return "" if named or rank != cited.nearest else "closest" if declined else "near"

    passages = trace.sources
    sources = [
        Source(
            passage=(passage := passages[rank - 1]),
            rank=rank,
            number=None if trace.status == "retrieved" else numbers[rank],
            score=_score(trace, passage),
            also_in=also_in(trace, passage),
            sentence=cited.evidence[rank - 1].sentence,
            marks=cited.evidence[rank - 1].marks,
            shows=shows(rank),
        )
        for rank in order
    ]
    heading = "Selected chunks" if trace.status == "retrieved" else "Closest" if declined or cited.uncited else "Sources"
    return Answer(
        question=trace.question,
        declined=declined,
        missing_terms=_absent(trace),
        head=f"{sentence(_asked_in(trace.question), 'not_sure')} " if trace.verdict.low_confidence else "",
        text=said_of(trace),
        claims=tuple(replace(each, sources=tuple(numbers[rank] for rank in each.sources)) for each in cited.claims),
        heading=heading,
        sources=tuple(sources),
        own_knowledge=not trace.from_document,
        sample_answers=_looks(trace) if trace.verdict.low_confidence else "",
        unsupported_answer=(trace.answer or "") if declined else "",
        uncited=cited.uncited,
        unsupported_terms=cited.unsupported_terms,
        grounds=tuple(_grounds(trace, len(named))),
        cut=f"Cut at its length limit of {trace.method.max_tokens} tokens." if trace.truncated else "",
    )


def said_of(trace: Trace) -> str:
    """Return the answer in full, printable: that the document does not say, where it does not."""
    if trace.status == "not_found":
        return sentence(_asked_in(trace.question), "not_found")
    return printable(trace.answer or "")


def agreement(trace: Trace) -> str:
    """Return how many samples hold the answer, as "2 of 3 samples agree"; "" where it is not known."""
    if trace.verdict.agreement is None:
        return ""
    n = len(trace.samples)
    return f"{round(trace.verdict.agreement * n)} of {plural(n, 'sample')} agree"


def _grounds(trace: Trace, n_cited: int) -> Iterator[str]:
    """Yield what an answer rests on: the sources that show it, the samples that agree, the confidence."""
    if n_cited:
        yield f"shown by {'source' if n_cited == 1 else 'sources'} {', '.join(map(str, range(1, n_cited + 1)))}"
    if trace.citations.uncited:
        yield UNPROVED
    if not trace.from_document:
        yield OWN_KNOWLEDGE
    if agree := agreement(trace):
        yield agree
    if trace.verdict.confidence is not None and trace.status == "answered":
        yield f"confidence {trace.verdict.confidence:.0%}"


def _score(trace: Trace, passage: Passage) -> str:
    """Return the score of a passage with its scale: its own where it was chosen by that, else its chunk's."""
    if not (own := trace.selection.scores):
        return scored(trace.scores, passage.position)
    score, best = own[trace.context.index(passage)], max(own)
    return f"{score / best:.2f} ({score:.2f})" if best > 0 else f"{score:.2f}"


def _absent(trace: Trace) -> str:
    where = "document" if len(trace.corpus.documents) == 1 else "documents"
    return f"Not in the {where}: {_first(trace.missing_terms)}" if trace.missing_terms else ""


def _looks(trace: Trace) -> str:
    """Return the answers of the forward samples, each once, in a line; "" without any."""
    return "; ".join(dict.fromkeys(one_line(sample.answer, _SAID).rstrip(".") for sample in trace.samples if sample.answer))


def _first(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return one_line(", ".join(words[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def _asked_in(question: str) -> str:
    """Return the language of a question; "en" where another one is uncertain."""
    language = detect(question)
    if language in _SCRIPT_SHOWS:
        return language
    words = [question[start:end].strip(".,;:!?¿¡«»“”\"'()؟।").casefold() for start, end in word_spans(question)]
    found, english = (sum(word in stop_words(each) for word in words) for each in (language, "en"))
    return language if found >= _CERTAIN and found > english else "en"
