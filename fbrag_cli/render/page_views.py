"""The contents of a trace's page as records: the answer, its sources and samples. Texts are escaped HTML."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from fbrag_cli.citations import Citations, Shown
from fbrag_cli.render.answer_text import OWN_KNOWLEDGE, UNPROVED, absent, answer_of, head_of, proposals
from fbrag_cli.render.line_layout import layout_of
from fbrag_cli.render.page_chunks import Shade, evidence, marked, of_chunk
from fbrag_cli.render.page_chunks import named as cited_numbers
from fbrag_cli.render.passages import also_in, cut, digits, passage, place, said_from, scored_samples, scored_source
from fbrag_cli.retrieval.ranking import best, ranks
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.terminal import beginning
from fbrag_cli.trace import ForwardSample, Trace

_RAISED = 5  # chunks named for a forward sample
_CONTEXT = 1  # lines around a source's sentence
_BEGINNING = 90  # characters of the sentence of a source that is not shown in full
_SAID = 120  # characters of the summary of a sample


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
    document does not say. proposed: the answer that the chunks do not show, where it does not say.
    """

    above: str
    unsure: str
    grounds: tuple[str, ...]
    text: Markup
    notes: tuple[tuple[str, str, str], ...]
    declined: bool
    proposed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """What is read of a selected chunk. Numbers and ranks count from 1, ranks among all chunks.

    chunk, chunk_place, score: the number, the place and the combined score of its chunk. place: of the sentence that shows the
    answer best. also_in: the places of its copies. scored: the score and its scale. sample: which one raised it, from 1; None if
    none did. in_full: whether its passage is shown. layout: of the passage's lines. excerpt: the passage: the sentence and what
    is around it. beginning: of the sentence.
    """

    number: int
    in_full: bool
    chunk: int
    chunk_place: str
    score: float
    place: str
    also_in: str
    scored: str
    backward: str
    backward_rank: int
    forward: str
    forward_rank: int
    sample: int | None
    language: str
    layout: str
    excerpt: Markup
    beginning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedView:
    """A chunk that a forward sample raises. place: empty where the page does not show the chunk."""

    number: int
    score: str
    place: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    """A forward sample, what it says in a line, why it was cut, and the chunks that it raises most."""

    sample: ForwardSample
    said: str
    cut: str
    raised: tuple[RaisedView, ...]


def answer_view(trace: Trace, cited: Citations, prefix: str = "") -> AnswerView:
    """Return the answer with a link to each source that shows a sentence, at the sentence's end. prefix: of the sources' ids."""
    answer, link = answer_of(trace), Markup('<a href="#{0}source-{1}">[{1}]</a>')
    pieces, at = [], 0
    for claim in cited.claims:
        links = (link.format(prefix, number) for number in claim.sources)
        pieces += [escape(printable(answer[at : claim.end])), *links]
        at = claim.end
    return AnswerView(
        above=absent(trace),
        unsure=head_of(trace).strip().rstrip(":："),
        grounds=tuple(_grounds(trace, cited)),
        text=Markup("").join([*pieces, escape(printable(answer[at:]))]),
        notes=tuple(_notes(trace, cited)),
        declined=trace.status == "not_found",
        proposed=(trace.answer or "") if trace.status == "not_found" else "",
    )


def _grounds(trace: Trace, cited: Citations) -> Iterator[str]:
    """Yield what an answer rests on: the sources that show it, the samples that agree, the confidence."""
    if named := sorted(cited_numbers(cited)):
        yield f"shown by {'source' if len(named) == 1 else 'sources'} {', '.join(map(str, named))}"
    if cited.unproved:
        yield UNPROVED
    if not trace.from_document:
        yield OWN_KNOWLEDGE
    if trace.verdict.agreement is not None:
        n = len(trace.samples)
        yield f"{round(trace.verdict.agreement * n)} of {counted(n, 'sample')} agree"
    if trace.verdict.confidence is not None and trace.status == "answered":
        yield f"confidence {trace.verdict.confidence:.0%}"


def _notes(trace: Trace, cited: Citations) -> Iterator[tuple[str, str, str]]:
    if trace.verdict.unsure and (said := proposals(trace)):
        yield "The looks ahead said: ", said, ""
    if cited.unseen:
        yield "In no source: ", ", ".join(cited.unseen), ""
    if trace.truncated:
        yield f"Cut at its length limit of {trace.method.max_tokens} tokens.", "", ""


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


def source_views(trace: Trace, cited: Citations) -> Iterator[SourceView]:
    """Yield the sources, best first."""
    scores = trace.scores
    backward_ranks, forward_ranks = ranks(scores.backward), ranks(scores.forward)
    marks = evidence(trace, cited)
    for number, (chunk, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        position = chunk.position
        layout = layout_of(chunk.document.text)
        start, end = passage(chunk, shown.sentence, _CONTEXT)
        within = Shown(shown.sentence, tuple(mark for mark in shown.marks if start <= mark[0] and mark[1] <= end))
        breaks = layout.breaks(chunk.start + start, chunk.start + end)
        yield SourceView(
            number=number,
            in_full=number in marks,
            chunk=position + 1,
            chunk_place=place(trace.corpus.chunks[position]),
            score=float(scores.combined[position]),
            place=place(chunk, shown.sentence),
            also_in=also_in(trace, chunk),
            scored=scored_source(trace, chunk),
            backward=digits(trace, scores.backward[position]),
            backward_rank=backward_ranks[position],
            forward=digits(trace, scores.forward[position]),
            forward_rank=forward_ranks[position],
            sample=int(scores.best_sample[position]) + 1 if scores.forward[position] > 0 else None,
            language=chunk.document.language,
            layout=layout.kind,
            excerpt=marked(chunk.text[start:end], [(of_chunk(within, -start), marks.get(number, ""))], breaks),
            beginning=beginning(said_from(chunk, shown.sentence), _BEGINNING),
        )


def sample_views(trace: Trace, shown: Container[int]) -> Iterator[SampleView]:
    """Yield the forward samples. shown: the positions of the chunks that the page shows."""
    sources: dict[int, list[int]] = {}
    for number, source in enumerate(trace.sources, 1):
        sources.setdefault(source.position, []).append(number)
    for sample, scores in scored_samples(trace):
        raised = tuple(
            RaisedView(
                number=position + 1,
                score=digits(trace, scores[position]),
                place=place(trace.corpus.chunks[position]) if position in shown else "",
                sources=tuple(sources.get(position, ())) if position in shown else (),
            )
            for position in best(scores, _RAISED)
            if scores[position] > 0
        )
        said = beginning(one_line(sample.answer or sample.rationale or "(empty)"), _SAID)
        yield SampleView(sample=sample, said=said, cut=cut(sample), raised=raised)
