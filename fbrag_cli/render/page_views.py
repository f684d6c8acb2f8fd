"""The contents of a trace's page as records: documents with their chunks, sources and samples. Texts are escaped HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup, escape

from fbrag_cli.citations import Citations, Shown
from fbrag_cli.corpus import Chunk, Excerpt
from fbrag_cli.documents.document import Document, Section
from fbrag_cli.documents.lines import lines_of, pages_of, section_of
from fbrag_cli.render.answer_text import OWN_KNOWLEDGE, UNPROVED, absent, answer_of, head_of, proposals
from fbrag_cli.render.line_layout import LineLayout
from fbrag_cli.render.passages import (
    also_in,
    cut,
    digits,
    parts,
    passage,
    place,
    read_of,
    scored_samples,
    scored_source,
)
from fbrag_cli.retrieval.ranking import best, ranks
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.spans import Span
from fbrag_cli.text.terminal import beginning
from fbrag_cli.trace import ForwardSample, Trace

_RAISED = 5  # chunks named for a forward sample
_CONTEXT = 1  # lines around a source's sentence
_SHADES = 10
_TITLE = 60  # characters of a section's title
_BEGINNING = 90  # characters of the sentence of a source that is not shown in full
_SAID = 120  # characters of the summary of a sample

Shade = Callable[[float], int]  # a combined score -> 0 to 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkView:
    """A chunk that the page shows.

    number: from 1. within: its lines or pages. section: the title of its section, where the section begins; else empty.
    after_gap: the number of chunks left out before it. shade: 0 to 9. sources: the numbers of the sources in it, from 1; none if
    it is not selected. read: how many of its words the large model reads; empty unless it reads a part. next_selected: the number
    of the next selected chunk.
    """

    number: int
    place: str
    within: str
    section: str
    after_gap: int
    shade: int
    score: float
    sources: tuple[int, ...]
    read: str
    recalled: bool
    next_selected: int | None
    text: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """A document with chunks that the page shows. number: from 1. after_gap: the number of chunks left out at its end."""

    number: int
    document: Document
    n_words: int
    n_chunks: int
    chunks: tuple[ChunkView, ...]
    after_gap: int
    layout: LineLayout


@dataclass(frozen=True, slots=True)
class OtherView:
    """A document whose text the page does not show. score: the best of its chunks."""

    name: str
    n_chunks: int
    score: float
    shade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """The answer, and what is to be known beside it.

    above: the words of the question that stand nowhere. unsure: the head of an unsure answer, else empty. grounds: what it rests
    on. notes: of each what stands before a text of the model, this text, and what stands after it. declined: whether the
    document does not say.
    """

    above: str
    unsure: str
    grounds: tuple[str, ...]
    text: Markup
    notes: tuple[tuple[str, str, str], ...]
    declined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """What is read of a selected chunk. Numbers and ranks count from 1, ranks among all chunks.

    place: of the sentence that shows the answer best. also_in: the places of its copies. scored: the score and its scale.
    sample: which one raised it, from 1; None if none did. in_full: whether its passage is shown. excerpt: the passage: the
    sentence and what is around it. beginning: of the sentence.
    """

    number: int
    in_full: bool
    chunk: ChunkView
    place: str
    also_in: str
    scored: str
    backward: str
    backward_rank: int
    forward: str
    forward_rank: int
    sample: int | None
    language: str
    layout: LineLayout
    excerpt: Markup
    beginning: str


@dataclass(frozen=True, slots=True)
class RaisedView:
    """A chunk that a forward sample raises. place: empty where the page does not show the chunk."""

    number: int
    score: str
    place: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SampleView:
    """A forward sample, what it says in a line, why it was cut, and the chunks that it raises most."""

    sample: ForwardSample
    said: str
    cut: str
    raised: tuple[RaisedView, ...]


def shading(trace: Trace) -> Shade:
    """Return the function that gives a combined score its shade, from the lowest to the highest of the trace."""
    combined = trace.scores.combined
    low, high = float(combined.min()), float(combined.max())
    return lambda score: round((score - low) / (high - low) * (_SHADES - 1)) if high > low else 0


def answer_view(trace: Trace, cited: Citations) -> AnswerView:
    """Return the answer with a link to each source that shows a sentence, at the sentence's end."""
    answer, links = answer_of(trace), Markup('<a href="#source-{0}">[{0}]</a>')
    pieces, at = [], 0
    for claim in cited.claims:
        pieces += [escape(printable(answer[at : claim.end])), *map(links.format, claim.sources)]
        at = claim.end
    return AnswerView(
        above=absent(trace),
        unsure=head_of(trace).strip().rstrip(":："),
        grounds=tuple(_grounds(trace, cited)),
        text=Markup("").join([*pieces, escape(printable(answer[at:]))]),
        notes=tuple(_notes(trace, cited)),
        declined=trace.status == "not_found",
    )


def _grounds(trace: Trace, cited: Citations) -> Iterator[str]:
    """Yield what an answer rests on: the sources that show it, the samples that agree, the confidence."""
    if named := sorted(_named(cited)):
        yield f"shown by {'source' if len(named) == 1 else 'sources'} {', '.join(map(str, named))}"
    if cited.unproved:
        yield UNPROVED
    if not trace.from_document:
        yield OWN_KNOWLEDGE
    if trace.agreement is not None:
        n = len(trace.samples)
        yield f"{round(trace.agreement * n)} of {counted(n, 'sample')} agree"
    if trace.confidence is not None and trace.status == "answered":
        yield f"confidence {trace.confidence:.0%}"


def _notes(trace: Trace, cited: Citations) -> Iterator[tuple[str, str, str]]:
    if trace.unsure and (said := proposals(trace)):
        yield "The looks ahead said: ", said, ""
    if trace.status == "not_found" and trace.answer:
        yield "The large model proposed “", trace.answer, "”, which the selected chunks do not show (--answer-anyway gives it)."
    if cited.unseen:
        yield "In no source: ", ", ".join(cited.unseen), ""
    if trace.truncated:
        yield f"Cut at its length limit of {trace.method.max_tokens} tokens.", "", ""


def _named(cited: Citations) -> set[int]:
    """Return the numbers of the sources that are cited."""
    return {number for claim in cited.claims for number in claim.sources}


def evidence(trace: Trace, cited: Citations) -> dict[int, str]:
    """Return the sources that are shown in full, by number, each with the mark of its sentence: "best" for a cited one,
    "closest" for the nearest one where the document does not say, else "near", for a sentence that shows nothing."""
    if trace.status == "retrieved":
        return dict.fromkeys(range(1, len(cited.shown) + 1), "near")
    if named := _named(cited):
        return dict.fromkeys(named, "best")
    return {cited.nearest: "closest" if trace.status == "not_found" else "near"}


def document_views(trace: Trace, shown: list[int], shade: Shade, cited: Citations) -> Iterator[DocumentView]:
    """Yield the documents of the chunks at the positions `shown`, in their order."""
    corpus, read = trace.corpus, read_of(trace)
    sources: dict[int, dict[int, Shown]] = {}
    marks = evidence(trace, cited)
    for number, (source, of_source) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        before = source.start - corpus.chunks[source.position].start
        sources.setdefault(source.position, {})[number] = _of_chunk(of_source, before)
    owners = corpus.spans[shown, 0]
    for owner in np.unique(owners).tolist():
        first, end = np.searchsorted(owners, [owner, owner + 1])
        document, positions = corpus.documents[owner], corpus.chunks_of(owner)
        layout = LineLayout(document.text)
        yield DocumentView(
            number=owner + 1,
            document=document,
            n_words=corpus.words_of(owner),
            n_chunks=len(positions),
            chunks=tuple(_chunk_views(trace, shown[first:end], (sources, marks), read, shade, layout)),
            after_gap=positions.stop - 1 - shown[end - 1],
            layout=layout,
        )


def _of_chunk(shown: Shown, before: int) -> Shown:
    """Return what a source shows in characters of its chunk. before: characters of the chunk before the source."""
    sentence = shown.sentence and (shown.sentence[0] + before, shown.sentence[1] + before)
    return Shown(sentence, tuple((start + before, end + before) for start, end in shown.marks))


def _chunk_views(
    trace: Trace,
    shown: list[int],
    marked: tuple[Mapping[int, Mapping[int, Shown]], Mapping[int, str]],
    read: Mapping[int, Sequence[Excerpt]],
    shade: Shade,
    layout: LineLayout,
) -> Iterator[ChunkView]:
    """Yield chunks of one document.

    marked: of the selected chunks, by position, what each source shows, by its number; and the marks, as of `evidence`. read: as
    of `read_of`.
    """
    sources, marks = marked
    following, recalled = dict(pairwise(trace.selected)), set(trace.recalled)
    before = trace.corpus.chunks_of(int(trace.corpus.spans[shown[0], 0])).start - 1
    section: Section | None = None
    for position in shown:
        chunk = trace.corpus.chunks[position]
        score = float(trace.scores.combined[position])
        own, unread = sources.get(position, {}), _unread(chunk, read.get(position, ()))
        shows = [(each, marks.get(number, "")) for number, each in own.items()]
        last_section, section = section, section_of(chunk.document, chunk.start, chunk.end)
        yield ChunkView(
            number=position + 1,
            place=place(chunk),
            within=_within(chunk),
            section=one_line(section.title, _TITLE) if section and section != last_section else "",
            after_gap=position - before - 1,
            shade=shade(score),
            score=score,
            sources=tuple(own),
            read=f"{sum(each.n_words for each in read[position])} of {counted(chunk.n_words, 'word')} read" if unread else "",
            recalled=position in recalled,
            next_selected=following[position] + 1 if position in following else None,
            text=_marked(chunk.text, shows, layout.breaks(chunk.start, chunk.end), unread),
        )
        before = position


def _unread(chunk: Chunk, read: Sequence[Excerpt]) -> list[Span]:
    """Return the parts of a selected chunk that the large model does not read, in characters of the chunk."""
    if not read:
        return []
    return [(part.start - chunk.start, part.end - chunk.start) for part, is_read in parts(chunk, read) if not is_read]


def other_views(trace: Trace, shown: set[int], shade: Shade) -> list[OtherView]:
    """Return the documents with chunks whose positions are not in `shown`. Reads no text."""
    corpus = trace.corpus
    highest = np.full(len(corpus.documents), -np.inf, np.float32)
    np.maximum.at(highest, corpus.spans[:, 0], trace.scores.combined)
    n_chunks = np.bincount(corpus.spans[:, 0], minlength=len(corpus.documents))
    return [
        OtherView(document.name, int(n_chunks[i]), float(highest[i]), shade(float(highest[i])))
        for i, document in enumerate(corpus.documents)
        if i not in shown and n_chunks[i]
    ]


def source_views(
    trace: Trace, chunks: dict[int, ChunkView], layouts: dict[int, LineLayout], cited: Citations
) -> Iterator[SourceView]:
    """Yield the sources, best first. chunks: by number. layouts: by the position of the document."""
    scores = trace.scores
    backward_ranks, forward_ranks = ranks(scores.backward), ranks(scores.forward)
    marks = evidence(trace, cited)
    for number, (chunk, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        position = chunk.position
        layout = layouts[int(trace.corpus.spans[position, 0])]
        start, end = passage(chunk, shown.sentence, _CONTEXT)
        first, last = shown.sentence or (0, len(chunk.text))
        within = Shown(shown.sentence, tuple(mark for mark in shown.marks if start <= mark[0] and mark[1] <= end))
        breaks = layout.breaks(chunk.start + start, chunk.start + end)
        yield SourceView(
            number=number,
            in_full=number in marks,
            chunk=chunks[position + 1],
            place=place(chunk, shown.sentence),
            also_in=also_in(trace, chunk),
            scored=scored_source(trace, chunk),
            backward=digits(trace, scores.backward[position]),
            backward_rank=backward_ranks[position],
            forward=digits(trace, scores.forward[position]),
            forward_rank=forward_ranks[position],
            sample=int(scores.best_sample[position]) + 1 if scores.forward[position] > 0 else None,
            language=chunk.document.language,
            layout=layout,
            excerpt=_marked(chunk.text[start:end], [(_of_chunk(within, -start), marks.get(number, ""))], breaks),
            beginning=beginning(one_line(chunk.text[first:last]), _BEGINNING),
        )


def sample_views(trace: Trace, chunks: dict[int, ChunkView]) -> Iterator[SampleView]:
    """Yield the forward samples. chunks: those that the page shows, by number."""
    for sample, scores in scored_samples(trace):
        raised = []
        for position in best(scores, _RAISED):
            if scores[position] > 0:
                chunk = chunks.get(position + 1)
                where, sources = (chunk.place, chunk.sources) if chunk else ("", ())
                raised.append(RaisedView(position + 1, digits(trace, scores[position]), where, sources))
        said = beginning(one_line(sample.answer or sample.rationale or "(empty)"), _SAID)
        yield SampleView(sample, said, cut(sample), tuple(raised))


def _within(chunk: Chunk) -> str:
    pages = pages_of(chunk.document, chunk.start, chunk.end)
    first, last = pages or lines_of(chunk.document, chunk.start, chunk.end)
    unit = "page" if pages else "line"
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"


def _marked(text: str, sources: Iterable[tuple[Shown, str]], breaks: Iterable[int], unread: Iterable[Span] = ()) -> Markup:
    """Return `text` escaped, with what is unread marked, and a `<br>` at each of `breaks`.

    sources: what each shows, and the mark of its sentence; with "best" the words that show the answer are marked too, with ""
    nothing is.
    """
    text = printable(text)
    tags = [(at, 2, "<br>") for at in breaks]  # position, order at the same position, tag
    for start, end in unread:
        tags += [(start, 3, '<span class="unread">'), (end, 1, "</span>")]
    for shown, mark in sources:
        if shown.sentence is not None and mark:
            tags += [(shown.sentence[0], 3, f'<mark class="{mark}">'), (shown.sentence[1], 1, "</mark>")]
        for start, end in shown.marks if mark == "best" else ():
            tags += [(start, 4, "<mark>"), (end, 0, "</mark>")]
    pieces, done = [], 0
    for at, _, tag in sorted(tags):
        pieces += [escape(text[done:at]), Markup(tag)]
        done = at
    return Markup("").join([*pieces, escape(text[done:])])
