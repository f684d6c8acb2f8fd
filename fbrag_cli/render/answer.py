"""`Answer`: what people and programs are shown of a Trace. Text, Markdown, JSON, pages, agents and rows only draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fbrag_cli.citations import Claim
from fbrag_cli.corpus import Passage
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.render.passages import also_in, by_ocr, in_part, scored
from fbrag_cli.text.languages import asks_for_many, detect, sentence, stop_words
from fbrag_cli.text.printable import one_line, plural, printable
from fbrag_cli.text.spans import Span
from fbrag_cli.text.words import word_spans
from fbrag_cli.trace import Trace

#: Says that no text of the document was read.
OWN_KNOWLEDGE = "from the model's own knowledge, not from the document"
#: How the command line prints an answer that the sources do not support.
ANYWAY = " (use --allow-unsupported to print it)"
#: The heading of sources before there is an answer.
SELECTED = "Selected chunks"
#: Says that no sentence earns a citation.
UNCITED = "no sentence that was read holds this answer"
#: An answer below this confidence is marked: with samples and the answer's probability, by the probability alone, and by the mean
#: of support and agreement alone, if no probability is known. One right answer in five is below (tests/benchmarks/README.md,
#: "Marks").
SURE, SURE_ALONE, SURE_UNWEIGHED = 0.65, 0.74, 0.51

_CAPITAL_NOUNS = "de"  # the language in which a capital shows no name
_BEFORE = "\"'“”‘’«»¿¡( "  # may precede the first word of a question
_PROPOSED = 200  # characters of an answer that the chunks do not show
_SAID = 60  # characters of the answer of a sample
_NAMED = 8  # words that are named
_SCRIPT_SHOWS = ("el", "ja", "ko", "zh")  # languages that a question's script shows
_MATCHES, _MAY_MATCH = 0.8, 0.6  # of the best score by the question, for a passage to match; if it asks for many things
_CERTAIN = 2  # function words of another language in a question, for the question to be in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A passage that the large model read.

    rank: its place among the sources, best first, from 1. number: for citations, from 1: the cited sources come first, in the
    order of the answer, or the closest source if none is cited, then the others, best first; None before there is an answer.
    score: with its scale, as `scored` has it. also_in: the places of its copies, printed after its own. sentence: the one that
    shows the answer best; None without one. shows: "best" for a cited source; "closest" for the source nearest to a question that
    the document does not answer; "near" for one whose sentence shows nothing; "" for one that needs one line only. marks: spans
    of words that show the answer, in characters of the document.
    """

    passage: Passage
    rank: int
    number: int | None
    score: str
    also_in: str
    sentence: Passage | None
    marks: tuple[Span, ...]
    shows: Literal["best", "closest", "near", ""]

    def remark(self, shown: Passage) -> str:
        """Return what is printed after the place of the shown part of the passage: that OCR has read it, and `also_in`."""
        return by_ocr(shown) + self.also_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Passages that were not read, although the question may need them.

    read, found: number of the passages that match by the words of the question, of those that were read, and of all; both None if
    no more match than were read, or if it cannot be determined. whole: that the question asks for the whole document, and how
    much of it was read; "" for another question. way: how the command line reads more; "" if it cannot.
    """

    read: int | None
    found: int | None
    whole: str
    way: str

    def said(self, more: str | None = None) -> str:
        """Return it as a line. more: text at its end that says how to read more, if more can be read; None for `way`."""
        told = self.whole or f"{self.read} of {self.found:,} matching passages read"
        return f"{told}{(f': {self.way}' if more is None else more) if self.way else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is shown of a Trace.

    declined: whether no answer was found. low_confidence: whether the answer is marked; every front draws this mark, and no
    other. head: precedes a marked answer, else "". text: the answer in full, printable. claims: its sentences, with numbers of
    sources. heading: of `sources`, which are in the order of their numbers, or of their ranks before the answer. own_knowledge:
    whether no text of the document was read. missing_terms: words of the question that are not in the document: all if there is
    no answer, names if the answer is marked for them. sample_answers: other answers of the samples, if the answer is marked.
    unsupported_answer: the model's answer if none was found. uncited: whether no sentence holds the answer. unsupported_terms:
    its words that are in no source. grounds: what it rests on, a few words each. cut: says that it was cut at its length limit,
    else "". unread: what the question may need of what was not read; None if nothing.
    """

    question: str
    declined: bool
    low_confidence: bool
    head: str
    text: str
    claims: tuple[Claim, ...]
    heading: str
    sources: tuple[Source, ...]
    own_knowledge: bool
    missing_terms: str
    sample_answers: str
    unsupported_answer: str
    uncited: bool
    unsupported_terms: tuple[str, ...]
    grounds: tuple[str, ...]
    cut: str
    unread: Unread | None

    @property
    def answered(self) -> bool:
        """Whether there is a result, an answer or none. Before it the sources have ranks and no numbers."""
        return self.heading != SELECTED

    @property
    def pieces(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the answer in pieces that end with a sentence, each with the numbers of the sources that show it."""
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

    def notes(self, *, anyway: str = ANYWAY, more: str | None = None, sources: bool = True) -> Iterator[str]:
        """Yield the notes below the answer: the best reason to doubt it; without an answer, what is missing and what was
        withheld.

        anyway: text after a withheld answer. more: as for `Unread.said`. sources: whether the sources are shown.
        """
        if self.own_knowledge:
            yield f"The answer is {OWN_KNOWLEDGE}."
        if self.missing_terms:
            yield self.missing_terms
        if self.unsupported_answer:
            yield f"Unsupported answer: {one_line(self.unsupported_answer, _PROPOSED)}{anyway}"
        if self.sample_answers:
            yield f"The forward samples say something else: {self.sample_answers}"
        elif sources and self.unsupported_terms:
            yield f"Not in the sources: {_first(self.unsupported_terms)}"
        elif sources and self.uncited:
            yield f"{UNCITED[0].upper()}{UNCITED[1:]}."
        if self.unread:
            yield self.unread.said(more)


def answer_of(trace: Trace) -> Answer:
    """Return what is shown of a trace, before or after its answer."""
    cited, declined = trace.citations, trace.status == "not_found"
    absent_names = () if declined else _absent_names(trace)
    low_confidence = trace.status == "answered" and (bool(absent_names) or _is_unsure(trace))
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
    heading = SELECTED if trace.status == "retrieved" else "Closest passage" if declined or cited.uncited else "Sources"
    return Answer(
        question=trace.question,
        declined=declined,
        low_confidence=low_confidence,
        head=f"{sentence(_asked_in(trace.question), 'not_sure')} " if low_confidence else "",
        text=said_of(trace),
        claims=tuple(replace(each, sources=tuple(numbers[rank] for rank in each.sources)) for each in cited.claims),
        heading=heading,
        sources=tuple(sources),
        own_knowledge=not trace.from_document,
        missing_terms=_missing(trace, trace.missing_terms if declined else absent_names),
        sample_answers=_others(trace) if low_confidence else "",
        unsupported_answer=(trace.answer or "") if declined else "",
        uncited=cited.uncited,
        unsupported_terms=cited.unsupported_terms,
        grounds=tuple(_grounds(trace, len(named))),
        cut=f"Cut at its length limit of {trace.method.max_tokens} tokens." if trace.truncated else "",
        unread=_unread(trace),
    )


def said_of(trace: Trace) -> str:
    """Return the answer in full, printable; or that none was found, in the question's language."""
    if trace.status == "not_found":
        return sentence(_asked_in(trace.question), "not_found")
    return printable(trace.answer or "")


def agreement(trace: Trace) -> str:
    """Return how many samples hold the answer, as "2 of 3 samples agree"; "" if it is not known."""
    if trace.verdict.agreement is None:
        return ""
    n = len(trace.samples)
    return f"{round(trace.verdict.agreement * n)} of {plural(n, 'sample')} agree"


def _unread(trace: Trace) -> Unread | None:
    """Return what the question may need of the passages that were not read; None if nothing, and before there is an answer.

    A passage matches whose score by the question's words is near to the best one. In prose few are; in lists, tables and folders
    of like files there may be more than were read. A question for the whole document needs all passages; one for a number of
    things too, if any that matches was not read: else the number may be in the text.
    """
    scores, read = trace.scores.backward, {*trace.selected}
    if trace.status == "retrieved" or not read:
        return None
    asks = _asks(trace)
    best, matching = float(scores.max(initial=0)), set[int]()
    if trace.retriever == DEFAULT_RETRIEVER and best > 0:
        near = scores >= best * (_MAY_MATCH if asks else _MATCHES)
        matching = {*near.nonzero()[0].tolist()} - trace.selection.duplicate_of.keys()
    is_whole = asks == "whole" or (asks == "count" and bool(matching - read))
    whole = _part_read(trace) if is_whole else ""
    more_match = bool(matching - read) if whole else len(matching) > len(read)
    if not (whole or more_match):
        return None
    return Unread(
        read=len(matching & read) if more_match else None,
        found=len(matching) if more_match else None,
        whole=whole,
        way=_way(trace, bool(whole)),
    )


def _asks(trace: Trace) -> str:
    """Return what `asks_for_many` returns. A short question ("Résume le texte.") has too few words to show its language, so that
    of the documents counts too."""
    asked = _asked_in(trace.question)
    for language in dict.fromkeys([asked, detect(trace.question), *trace.corpus.languages]):
        if (asks := asks_for_many(trace.question, language)) in ("whole", "count"):
            return asks
    return asks_for_many(trace.question, asked)


def _part_read(trace: Trace) -> str:
    """Return that the question asks for all of the documents, and how much of them was read; "" if all of them were, or if the
    method reads as much as the model can."""
    n_documents, n_chunks = len(trace.corpus.documents), len(trace.corpus.chunks) - len(trace.selection.duplicate_of)
    parts = "parts of " if in_part(trace) else ""
    if not trace.method.retrieves or (len(trace.selected) >= n_chunks and not parts):
        return ""
    asked = "the whole document" if n_documents == 1 else f"all {n_documents:,} documents"
    return f"This asks for {asked}: {parts}{len(trace.selected)} of {plural(n_chunks, 'passage')} were read"


def _way(trace: Trace, is_whole: bool) -> str:
    """Return what to type to read more, and for a question about the whole document to read all of it if the model can; "" if
    nothing more can be read."""
    if not (larger := trace.method.larger_select):
        return ""
    if is_whole and _fits(trace):
        return "--method long-context"
    if is_whole and len(trace.corpus.documents) > 1:
        return "fbrag batch asks each one"
    return f"--select {larger}"


def _fits(trace: Trace) -> bool:
    """Return whether all of the documents fit the window of the large model, by the number of tokens of what it has read."""
    large, n_read = trace.models.get("large"), sum(passage.n_words for passage in trace.context)
    tokens = next((stage.prompt_tokens for stage in trace.stages if stage.name == "answer"), 0)
    if not (large and large.context_tokens and n_read and tokens):
        return False
    return trace.corpus.n_words * tokens / n_read + trace.method.max_tokens <= large.context_tokens


def _grounds(trace: Trace, n_cited: int) -> Iterator[str]:
    """Yield what an answer rests on: the sources that show it, the samples that agree, the confidence."""
    if n_cited:
        yield f"supported by {'source' if n_cited == 1 else 'sources'} {', '.join(map(str, range(1, n_cited + 1)))}"
    if trace.citations.uncited:
        yield UNCITED
    if not trace.from_document:
        yield OWN_KNOWLEDGE
    if agree := agreement(trace):
        yield agree
    if trace.verdict.confidence is not None and trace.status == "answered":
        yield f"confidence {trace.verdict.confidence:.0%}"


def _score(trace: Trace, passage: Passage) -> str:
    """Return the score of a passage with its scale: its own if it was chosen by that, else its chunk's."""
    if not (own := trace.selection.scores):
        return scored(trace.scores, passage.position)
    score, best = own[trace.context.index(passage)], max(own)
    return f"{score / best:.2f} ({score:.2f})" if best > 0 else f"{score:.2f}"


def _is_unsure(trace: Trace) -> bool:
    """Return whether no sentence and no sample holds an answer, or the confidence is below the line for what is known of it."""
    verdict = trace.verdict
    if trace.citations.uncited and verdict.agreement == 0:
        return True
    if verdict.confidence is None:
        return False
    if verdict.answer_probability is not None:
        return verdict.confidence < (SURE_ALONE if verdict.agreement is None else SURE)
    if verdict.agreement is None:
        return False
    return verdict.confidence < SURE_UNWEIGHED if verdict.support is not None else verdict.agreement == 0


def _absent_names(trace: Trace) -> tuple[str, ...]:
    """Return the names of the question that the document has nowhere: words with a capital that are not its first word."""
    if not trace.from_document or _CAPITAL_NOUNS in trace.corpus.languages:
        return ()
    asked = trace.question.lstrip(_BEFORE)
    return tuple(word for word in trace.missing_terms if word[0].isupper() and not asked.startswith(word))


def _missing(trace: Trace, words: Sequence[str]) -> str:
    where = "document" if len(trace.corpus.documents) == 1 else "documents"
    return f"Not in the {where}: {_first(words)}" if words else ""


def _others(trace: Trace) -> str:
    """Return the answers of the forward samples that differ from the answer, each once, in a line; "" without any."""
    said = (one_line(sample.answer, _SAID).rstrip(".") for sample in trace.samples if sample.answer)
    given = one_line(trace.answer or "").casefold()
    return "; ".join(each for each in dict.fromkeys(said) if each.casefold() not in given and given not in each.casefold())


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
