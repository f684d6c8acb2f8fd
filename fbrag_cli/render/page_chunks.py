"""The chunks of documents as records for a page: their text as escaped HTML, with what an answer marks in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from fbrag_cli.citations import Citations, Shown
from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.documents.document import Document, Section
from fbrag_cli.documents.lines import lines_of, pages_of, section_of
from fbrag_cli.render.line_layout import LineLayout, layout_of
from fbrag_cli.render.passages import parts, place, read_of
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.spans import Span
from fbrag_cli.trace import Trace

_SHADES = 10
_TITLE = 60  # characters of a section's title

Shade = Callable[[float], int]  # a combined score -> 0 to 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkView:
    """A chunk that the page shows.

    number: from 1. within: its lines or pages. section: the title of its section, where the section begins; else empty.
    after_gap: the number of chunks left out before it. shade: 0 to 9. score: None where nothing was asked. sources: the numbers
    of the sources in it, from 1; none if it is not selected. read: how many of its words the large model reads; empty unless it
    reads a part. next_selected: the number of the next selected chunk.
    """

    number: int
    place: str
    within: str
    section: str
    after_gap: int
    shade: int = 0
    score: float | None = None
    sources: tuple[int, ...] = ()
    read: str = ""
    recalled: bool = False
    next_selected: int | None = None
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


def shading(scores: NDArray[np.float32]) -> Shade:
    """Return the function that gives a score its shade, from the lowest to the highest of `scores`, (n_chunks,)."""
    low, high = float(scores.min(initial=np.inf)), float(scores.max(initial=-np.inf))
    return lambda score: round((score - low) / (high - low) * (_SHADES - 1)) if high > low else 0


def shades(scores: NDArray[np.float32]) -> str:
    """Return the shades of scores, (n_chunks,), as of `shading`: a digit a chunk."""
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    if not high > low:
        return "0" * len(scores)
    found = np.rint((scores - low) / (high - low) * (_SHADES - 1)).astype(np.uint8)
    return "".join(map(str, found.tolist()))


def named(cited: Citations) -> set[int]:
    """Return the numbers of the sources that are cited."""
    return {number for claim in cited.claims for number in claim.sources}


def evidence(trace: Trace, cited: Citations) -> dict[int, str]:
    """Return the sources that are shown in full, by number, each with the mark of its sentence: "best" for a cited one,
    "closest" for the nearest one where the document does not say, else "near", for a sentence that shows nothing."""
    if trace.status == "retrieved":
        return dict.fromkeys(range(1, len(cited.shown) + 1), "near")
    if cited_sources := named(cited):
        return dict.fromkeys(cited_sources, "best")
    return {cited.nearest: "closest" if trace.status == "not_found" else "near"}


class Findings:
    """What an answer says of chunks, for `chunk_views`. shade: of a combined score."""

    def __init__(self, trace: Trace, cited: Citations) -> None:
        self.shade = shading(trace.scores.combined)
        self._scores, self._marks, self._read = trace.scores.combined, evidence(trace, cited), read_of(trace)
        self._following, self._recalled = dict(pairwise(trace.selected)), set(trace.recalled)
        self._sources: dict[int, dict[int, Shown]] = {}
        for number, (source, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
            before = source.start - trace.corpus.chunks[source.position].start
            self._sources.setdefault(source.position, {})[number] = of_chunk(shown, before)

    def of(self, chunk: Passage, breaks: Sequence[int]) -> dict[str, Any]:
        """Return what `ChunkView` has of a chunk. breaks: as of `LineLayout.breaks`."""
        position = chunk.position
        own, read = self._sources.get(position, {}), self._read.get(position, ())
        left_out = (part for part, is_read in parts(chunk, read) if not is_read) if read else ()
        unread = [(part.start - chunk.start, part.end - chunk.start) for part in left_out]
        shows = [(each, self._marks.get(number, "")) for number, each in own.items()]
        score = float(self._scores[position])
        return {
            "shade": self.shade(score),
            "score": score,
            "sources": tuple(own),
            "read": f"{sum(each.n_words for each in read)} of {counted(chunk.n_words, 'word')} read" if unread else "",
            "recalled": position in self._recalled,
            "next_selected": self._following[position] + 1 if position in self._following else None,
            "text": marked(chunk.text, shows, breaks, unread),
        }


def chunk_views(
    corpus: Corpus, positions: Sequence[int], findings: Findings | None = None, *, before: int | None = None
) -> Iterator[ChunkView]:
    """Yield chunks of one document.

    positions: of the chunks, ascending. findings: of an answer, None without one. before: the position of the last chunk that is
    shown elsewhere; None for the one before the document.
    """
    first = corpus.chunks_of(int(corpus.spans[positions[0], 0])).start
    before = first - 1 if before is None else before
    section = _section(corpus.chunks[before]) if before >= first else None
    layout = layout_of(corpus.chunks[positions[0]].document.text)
    for position in positions:
        chunk = corpus.chunks[position]
        breaks = layout.breaks(chunk.start, chunk.end)
        found = findings.of(chunk, breaks) if findings else {"text": marked(chunk.text, (), breaks)}
        last_section, section = section, _section(chunk)
        yield ChunkView(
            number=position + 1,
            place=place(chunk),
            within=_within(chunk),
            section=one_line(section.title, _TITLE) if section and section != last_section else "",
            after_gap=position - before - 1,
            **found,
        )
        before = position


def document_views(trace: Trace, shown: Sequence[int], findings: Findings) -> Iterator[DocumentView]:
    """Yield the documents of the chunks at the positions `shown`, in their order."""
    corpus = trace.corpus
    owners = corpus.spans[shown, 0]
    for owner in np.unique(owners).tolist():
        first, end = np.searchsorted(owners, [owner, owner + 1])
        document, positions = corpus.documents[owner], corpus.chunks_of(owner)
        yield DocumentView(
            number=owner + 1,
            document=document,
            n_words=corpus.words_of(owner),
            n_chunks=len(positions),
            chunks=tuple(chunk_views(corpus, shown[first:end], findings)),
            after_gap=positions.stop - 1 - shown[end - 1],
            layout=layout_of(document.text),
        )


def of_chunk(shown: Shown, before: int) -> Shown:
    """Return what a source shows in characters of its chunk. before: characters of the chunk before the source."""
    sentence = shown.sentence and (shown.sentence[0] + before, shown.sentence[1] + before)
    return Shown(sentence, tuple((start + before, end + before) for start, end in shown.marks))


def marked(text: str, sources: Iterable[tuple[Shown, str]], breaks: Iterable[int], unread: Iterable[Span] = ()) -> Markup:
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


def _section(chunk: Passage) -> Section | None:
    return section_of(chunk.document, chunk.start, chunk.end)


def _within(chunk: Passage) -> str:
    pages = pages_of(chunk.document, chunk.start, chunk.end)
    first, last = pages or lines_of(chunk.document, chunk.start, chunk.end)
    unit = "page" if pages else "line"
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"
