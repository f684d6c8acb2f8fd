"""A `Trace` as one HTML page that needs no network and no script. What documents, models and users say is text in it.

Of a document that is not shown, its name and its best score are told; its text is not read.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup, escape

from fbrag_cli.corpus import Chunk
from fbrag_cli.documents.document import Document, Section
from fbrag_cli.documents.lines import lines_of, pages_of, section_of
from fbrag_cli.render.answer_text import answer_of
from fbrag_cli.render.as_json import versions
from fbrag_cli.render.line_layout import LineLayout
from fbrag_cli.render.passages import highlights, passages, place, shown_lines, supporting_terms
from fbrag_cli.render.shown import positions_shown, with_texts_at_hand
from fbrag_cli.retrieval.ranking import best, ranks
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.spans import Span, joined
from fbrag_cli.trace import ForwardSample, Trace

if TYPE_CHECKING:
    from jinja2 import Template

_OTHERS = 1_000  # documents that are not shown, but have a cell in the map
_RAISED = 5  # chunks named for a forward sample
_CONTEXT = 1  # lines around a source's passage
_SHADES = 10
_TITLE = 60  # characters of a section's title


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk as the page shows it.

    number: from 1. within: its lines or pages. section: the title of its section where that is another than the last chunk's.
    after_gap: how many chunks are left out before it. shade: 0 to 9. source: its rank among the selected ones, from 1; None if it
    is not selected.
    """

    number: int
    place: str
    within: str
    section: str
    after_gap: int
    shade: int
    score: float
    source: int | None
    recalled: bool
    next_selected: int | None
    text: Markup


@dataclass(frozen=True, slots=True)
class _Document:
    """A document of which some chunks are shown. number: from 1. after_gap: how many chunks are left out at its end."""

    number: int
    document: Document
    n_words: int
    n_chunks: int
    chunks: tuple[_Chunk, ...]
    after_gap: int
    layout: LineLayout


@dataclass(frozen=True, slots=True)
class _Other:
    """A document that is not shown, and the best score of its chunks."""

    name: str
    n_chunks: int
    score: float
    shade: int


@dataclass(frozen=True, slots=True)
class _Source:
    """A selected chunk. Ranks are from 1, among all chunks; sample: the one that raised it, from 1, None if none did."""

    chunk: _Chunk
    backward: float
    backward_rank: int
    forward: float
    forward_rank: int
    sample: int | None
    language: str
    layout: LineLayout
    passages: tuple[Markup, ...]


@dataclass(frozen=True, slots=True)
class _Raised:
    """A chunk that a forward sample raises. place: "" where the chunk is not shown."""

    number: int
    score: float
    place: str
    source: int | None


@dataclass(frozen=True, slots=True)
class _Sample:
    sample: ForwardSample
    raised: tuple[_Raised, ...]


def page(trace: Trace) -> str:
    """The whole page, to be written as UTF-8."""
    shown = positions_shown(trace)
    trace = with_texts_at_hand(trace, shown)
    shade = _shading(trace)
    documents = tuple(_documents(trace, shown, shade))
    chunks = {chunk.number: chunk for document in documents for chunk in document.chunks}
    others = _others(trace, {document.number - 1 for document in documents}, shade)
    return _template().render(
        trace=trace,
        title=one_line(trace.question, 80),
        answer=answer_of(trace),
        documents=documents,
        sources=tuple(_sources(trace, chunks, {document.number - 1: document.layout for document in documents})),
        samples=tuple(_samples(trace, chunks)),
        others=sorted(others, key=lambda other: -other.score)[:_OTHERS],
        n_others=len(others),
        density=_density(len(shown), len(documents)),
        settings=_settings(trace),
        versions=versions(),
        warnings=list(dict.fromkeys([*trace.warnings, *(w for document in trace.corpus.documents for w in document.warnings)])),
        seconds=sum(stage.seconds for stage in trace.stages),
    )


def _shading(trace: Trace) -> Callable[[float], int]:
    combined = trace.scores.combined
    low, high = float(combined.min()), float(combined.max())
    return lambda score: round((score - low) / (high - low) * (_SHADES - 1)) if high > low else 0


def _density(n_chunks: int, n_documents: int) -> str:
    """How small the cells of the map are."""
    if n_chunks <= 120 and n_documents <= 15:
        return "few"
    return "some" if n_chunks <= 1200 and n_documents <= 60 else "many"


def _documents(trace: Trace, shown: list[int], shade: Callable[[float], int]) -> Iterator[_Document]:
    corpus = trace.corpus
    owners = corpus.spans[shown, 0]
    rank = {position: i for i, position in enumerate(trace.ranked, 1)}
    recalled = set(trace.recalled)
    following = dict(zip(trace.selected, trace.selected[1:], strict=False))
    for owner in np.unique(owners).tolist():
        first, end = np.searchsorted(owners, [owner, owner + 1])
        held = corpus.chunks_of(owner)
        document = corpus.documents[owner]
        layout = LineLayout(document.text)
        chunks = []
        before = held.start - 1
        section: Section | None = None
        for position in shown[first:end]:
            chunk = corpus.chunks[position]
            marks = highlights(chunk, supporting_terms(trace, position)) if position in rank else ()
            score = float(trace.scores.combined[position])
            last_section, section = section, section_of(document, chunk.start, chunk.end)
            chunks.append(
                _Chunk(
                    position + 1,
                    place(chunk),
                    _within(chunk),
                    one_line(section.title, _TITLE) if section and section != last_section else "",
                    position - before - 1,
                    shade(score),
                    score,
                    rank.get(position),
                    position in recalled,
                    following[position] + 1 if position in following else None,
                    _marked(chunk.text, marks, layout.breaks(chunk.start, chunk.end)),
                )
            )
            before = position
        left = held.stop - before - 1
        yield _Document(owner + 1, document, corpus.words_of(owner), len(held), tuple(chunks), left, layout)


def _others(trace: Trace, shown: set[int], shade: Callable[[float], int]) -> list[_Other]:
    corpus = trace.corpus
    best = np.full(len(corpus.documents), -np.inf, np.float32)
    np.maximum.at(best, corpus.spans[:, 0], trace.scores.combined)
    n_chunks = np.bincount(corpus.spans[:, 0], minlength=len(corpus.documents))
    return [
        _Other(document.name, int(n_chunks[i]), float(best[i]), shade(float(best[i])))
        for i, document in enumerate(corpus.documents)
        if i not in shown and n_chunks[i]
    ]


def _sources(trace: Trace, chunks: dict[int, _Chunk], layouts: dict[int, LineLayout]) -> Iterator[_Source]:
    scores = trace.scores
    backward_ranks, forward_ranks = ranks(scores.backward), ranks(scores.forward)
    for position in trace.ranked:
        chunk = trace.corpus.chunks[position]
        layout = layouts[int(trace.corpus.spans[position, 0])]
        told = []
        for passage in passages(shown_lines(chunk, supporting_terms(trace, position)), _CONTEXT):
            start, end = passage[0].start, passage[-1].end
            marks = [(first - start, last - start) for line in passage for first, last in line.marks]
            told.append(_marked(chunk.text[start:end], marks, layout.breaks(chunk.start + start, chunk.start + end)))
        yield _Source(
            chunks[position + 1],
            float(scores.backward[position]),
            backward_ranks[position],
            float(scores.forward[position]),
            forward_ranks[position],
            int(scores.best_sample[position]) + 1 if scores.forward[position] > 0 else None,
            chunk.document.language,
            layout,
            tuple(told),
        )


def _samples(trace: Trace, chunks: dict[int, _Chunk]) -> Iterator[_Sample]:
    for sample, scores in zip(trace.samples, trace.scores.per_sample, strict=True):
        raised = []
        for position in best(scores, _RAISED):
            if scores[position] > 0:
                chunk = chunks.get(position + 1)
                where, source = (chunk.place, chunk.source) if chunk else ("", None)
                raised.append(_Raised(position + 1, float(scores[position]), where, source))
        yield _Sample(sample, tuple(raised))


def _settings(trace: Trace) -> dict[str, object]:
    return {
        **asdict(trace.method),
        "templates": trace.method.templates.name if trace.method.templates else None,
        "retriever": trace.retriever,
        "chunk_words": trace.corpus.chunk_words,
        "corpus": trace.corpus.fingerprint,
    }


def _within(chunk: Chunk) -> str:
    pages = pages_of(chunk.document, chunk.start, chunk.end)
    first, last = pages or lines_of(chunk.document, chunk.start, chunk.end)
    unit = "page" if pages else "line"
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"


def _marked(text: str, marks: Iterable[Span], breaks: Iterable[int]) -> Markup:
    """`text` escaped, with the words at `marks` marked and a `<br>` at each of `breaks`; overlapping marks are one."""
    tags = [(at, "<br>") for at in breaks]
    for start, end in joined(marks):
        tags += [(start, "<mark>"), (end, "</mark>")]
    pieces, done = [], 0
    for at, tag in sorted(tags, key=lambda item: item[0]):
        pieces += [_escaped(text[done:at]), Markup(tag)]
        done = at
    return Markup("").join([*pieces, _escaped(text[done:])])


def _escaped(text: str) -> Markup:
    return escape(printable(text))


def _made_visible(value: object) -> object:
    """For every value that the template puts out, before it is escaped."""
    return printable(value) if type(value) is str else value


@lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    home = files(__package__ or "fbrag_cli.render")
    style = home.joinpath("page.css").read_text("utf-8")
    environment = Environment(
        autoescape=True, finalize=_made_visible, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["style"] = Markup(style)
    # The style is the only thing that the page may use; the hash keeps out any other that a document might bring.
    environment.globals["style_hash"] = b64encode(sha256(style.encode()).digest()).decode()
    return environment.from_string(home.joinpath("page.html.jinja").read_text("utf-8"))
