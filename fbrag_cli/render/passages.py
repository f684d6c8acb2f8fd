"""The lines of a chunk as they are shown around the sentence that shows the answer, its place, its score, and its parts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Passage
from fbrag_cli.documents.lines import line_of, lines_of, pages_of, section_of
from fbrag_cli.render.line_layout import layout_of
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.sentences import sentence_spans
from fbrag_cli.text.spans import Span
from fbrag_cli.text.table import width_of
from fbrag_cli.text.terminal import wrapped
from fbrag_cli.text.words import terms
from fbrag_cli.trace import ForwardSample, Scores, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Columns of a shown line where no terminal is narrower; a longer line of the document is shown in several.
LONGEST_LINE = 120

_LONGEST_TITLE = 60  # characters of a heading in a citation
_COPIES = 3  # places of copies that a citation names
_SHORT = 20  # characters of a sentence, which is shown with what follows
_LONGEST_SENTENCE = 400  # characters; of a longer one, a line is shown
_NEAR = 160  # characters that a passage goes on to begin or end with a sentence
_INK = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is shown: `chunk.text[start:end]`, which begins on line `number` (from 1) of its document."""

    number: int
    start: int
    end: int


def place(chunk: Passage, sentence: Span | None = None) -> str:
    """Return where a chunk stands, for citations: `book.txt:120-148`, `book.epub:120-148 (Chapter 3)` or `book.pdf p. 12`.

    sentence: of the chunk, in characters of its text, to name its place instead: `book.txt:123` or `book.txt:123-124`.
    """
    document = chunk.document
    start, end = (chunk.start, chunk.end) if sentence is None else (chunk.start + sentence[0], chunk.start + sentence[1])
    name = one_line(document.name)  # a line end in it would make the rest look like another source
    if pages := pages_of(document, start, end):
        first, last = pages
        return f"{name} p. {first}" if first == last else f"{name} pp. {first}-{last}"
    first, last = lines_of(document, start, end)
    lines = f"{first}" if sentence is not None and first == last else f"{first}-{last}"
    section = section_of(document, start, end)
    return f"{name}:{lines}" + (f" ({one_line(section.title, _LONGEST_TITLE)})" if section else "")


def link(chunk: Passage, sentence: Span | None = None) -> str:
    """Return the address of the file at the place that `place` names, as `file:///home/ann/book.txt#123`; "" without a file."""
    document, (first, last) = chunk.document, sentence or (0, len(chunk.text))
    path = os.path.abspath(document.path)
    if not os.path.isfile(path):
        return ""
    pages = pages_of(document, chunk.start + first, chunk.start + last)
    where = f"page={pages[0]}" if pages else f"{line_of(document, chunk.start + first)}"
    return f"{Path(path).as_uri()}#{where}"


def copies(trace: Trace, source: Passage) -> Iterator[Passage]:
    """Yield where the text of a source stands as well: the copies of its chunk, each narrowed as the source is."""
    chunk = trace.corpus.chunks[source.position]
    before = len(_INK.findall(chunk.document.text, chunk.start, source.start))
    length = len(_INK.findall(source.text))
    for position in trace.selection.copies.get(source.position, ()):
        copy = trace.corpus.chunks[position]  # of the same words, with other white space between them
        ink = [found.start() for found in _INK.finditer(copy.document.text, copy.start, copy.end)]
        yield copy.part(ink[before], ink[before + length - 1] + 1)


def also_in(trace: Trace, source: Passage) -> str:
    """Return where the text of a source stands as well, to follow its place: `, also in b.txt:1-9`; "" where it has no copies."""
    named = [place(copy) for copy in islice(copies(trace, source), _COPIES)]
    if (more := len(trace.selection.copies.get(source.position, ())) - _COPIES) > 0:
        named.append(counted(more, "other place"))
    return f", also in {', '.join(named)}" if named else ""


def in_part(trace: Trace) -> bool:
    """Return whether the large model reads parts of chunks, not whole ones alone."""
    chunks = trace.corpus.chunks
    return any(each.start > chunks[each.position].start or each.end < chunks[each.position].end for each in trace.context)


def read_of(trace: Trace) -> dict[int, list[Passage]]:
    """Return what the large model reads of each selected chunk, in document order, by the position of the chunk."""
    found: dict[int, list[Passage]] = {}
    for excerpt in sorted(trace.context, key=lambda each: (each.position, each.start)):
        found.setdefault(excerpt.position, []).append(excerpt)
    return found


def parts(chunk: Passage, read: Sequence[Passage]) -> Iterator[tuple[Passage, bool]]:
    """Yield the parts of a chunk in order, without the white space between them, each with whether the large model reads it.

    read: of this chunk, as of `read_of`.
    """
    edges = [chunk.start, *(edge for each in read for edge in (each.start, each.end)), chunk.end]
    for i, (first, last) in enumerate(pairwise(edges)):
        start, end = max(first, chunk.start), min(last, chunk.end)
        text = chunk.document.text[start:end]
        if text.strip():
            yield chunk.part(start + len(text) - len(text.lstrip()), start + len(text.rstrip())), i % 2 == 1


def scored(scores: Scores, position: int) -> str:
    """Return a chunk's combined score with its scale, on which the best chunk has 1: `0.86 (61.27)`; without one, the score."""
    score = f"{scores.combined[position]:.2f}"
    return score if scores.relative is None else f"{scores.relative[position]:.2f} ({score})"


def scored_source(trace: Trace, source: Passage) -> str:
    """Return the score of one of `Trace.sources` as `scored` does: its own where it was chosen by that, else its chunk's."""
    if not (own := trace.selection.scores):
        return scored(trace.scores, source.position)
    score, best = own[trace.context.index(source)], max(own)
    return f"{score / best:.2f} ({score:.2f})" if best > 0 else f"{score:.2f}"


def digits(trace: Trace, score: float) -> str:
    """Return a score of the retriever with the digits that matter: one for BM25's sums, three for cosines."""
    return f"{score:.1f}" if trace.retriever == "bm25" else f"{score:.3f}"


def scored_samples(trace: Trace) -> Iterator[tuple[ForwardSample, NDArray[np.float32]]]:
    """Return each forward sample with its scores (n_chunks,)."""
    return zip(trace.samples, trace.scores.per_sample, strict=True)


def cut(sample: ForwardSample) -> str:
    """Return why a sample was cut, to follow its seed; "" where it was not."""
    return {"length": ", cut at its length limit", "repeat": ", cut where it repeats itself"}.get(sample.finish, "")


def shown_lines(chunk: Passage, columns: int = LONGEST_LINE, within: Span | None = None) -> list[Line]:
    """Return the chunk's lines in order; one that is wider than `columns` is cut between words.

    The lines of a paragraph of prose are joined before, where it is cut at a greater width than `columns`, or shown from within a
    line on. within: the part of the chunk that is shown, in characters of its text; None for all.
    """
    text, number = chunk.text, line_of(chunk.document, chunk.start)
    least, most = within or (0, len(text))
    found: list[Line] = []
    last = 0
    for first, end in _paragraphs(chunk, columns, joins=text[max(0, least - 1) : least] not in ("", "\n")):
        if end < least or first > most:
            continue
        first, end = max(first, least), min(end, most)
        for start, stop in wrapped(text[first:end], first, columns):
            number += text.count("\n", last, start)
            last = start
            found.append(Line(number, start, stop))
    return found


def around(shown: Sequence[Line], sentence: Span | None, context: int) -> list[Line]:
    """Return the lines of a sentence with `context` lines before and after, without blank lines at either end. Never empty.

    sentence: in characters of the chunk's text; None for the first line.
    """
    text = [i for i, line in enumerate(shown) if line.start < line.end] or [0]
    within = [i for i in text if sentence is not None and shown[i].start < sentence[1] and sentence[0] < shown[i].end] or text[:1]
    first, last = max(0, within[0] - context), within[-1] + context
    kept = [i for i in text if first <= i <= last] or text[:1]
    return list(shown[kept[0] : kept[-1] + 1])


def passage(chunk: Passage, sentence: Span | None, context: int) -> Span:
    """Return the part of a chunk, in characters of its text, with a sentence and `context` lines before and after it.

    Of prose it begins and ends with sentences, where these begin and end near. It is the same on every terminal. sentence: as of
    `around`.
    """
    if sentence and not context:
        return sentence
    lines = around(shown_lines(chunk), sentence, context)
    start, end = lines[0].start, lines[-1].end
    if sentence is None:
        return start, end
    layout, text = layout_of(chunk.document.text), chunk.text
    breaks = layout.breaks(chunk.start, chunk.end) if layout.kind in ("flow", "wide") else _line_ends(text)
    sentences = sentence_spans(text)
    starts = {*(first for first, _ in sentences), *(at + 1 for at in breaks), 0}
    ends = {*(last for _, last in sentences), *breaks, len(text)}
    # What begins or ends within the lines comes first: then a passage is not longer than it was asked for.
    first = min((at for at in starts if start <= at < sentence[0]), default=-1)
    if first < 0:
        first = max((at for at in starts if start - _NEAR <= at <= sentence[0]), default=start)
    last = max((at for at in ends if sentence[1] < at <= end), default=-1)
    if last < 0:
        last = min((at for at in ends if max(sentence[1], end) <= at <= end + _NEAR), default=sentence[1])
    shown = text[first:last]
    return first + len(shown) - len(shown.lstrip("\n")), last - len(shown) + len(shown.rstrip())


def said_from(chunk: Passage, sentence: Span | None) -> str:
    """Return a sentence of a chunk as one line, with what follows where it says too little alone, as "9." does; the whole chunk
    without one. sentence: in characters of the chunk's text."""
    start, end = sentence or (0, len(chunk.text))
    return one_line(chunk.text[start : end if end - start >= _SHORT else len(chunk.text)])


def nearest_sentence(chunk: Passage, weights: Mapping[str, float]) -> Span:
    """Return the sentence of a chunk that shares most with a question, in characters of its text; of a long one, the best line.

    weights: the score of each term of the question in this chunk.
    """
    text, language = chunk.text, (chunk.document.language,)

    def weight(span: Span) -> float:
        return sum(weights.get(term, 0.0) for term in {*terms(text[slice(*span)], language)})

    start, end = max(sentence_spans(text), key=weight)
    if end - start <= _LONGEST_SENTENCE:
        return start, end
    # A table, or a text without punctuation.
    ends = accumulate(len(line) + 1 for line in text[start:end].split("\n"))
    return max(pairwise([start, *(min(end, start + each) for each in ends)]), key=weight)


def _line_ends(text: str) -> list[int]:
    return [i for i, character in enumerate(text) if character == "\n"]


def _paragraphs(chunk: Passage, columns: int, *, joins: bool) -> Iterator[Span]:
    """Yield (start, end) of what is wrapped on its own: lines, or runs of lines that only a width has cut.

    joins: whether such runs are joined even if all lines fit.
    """
    text = chunk.text
    ends = _line_ends(text)
    spans = [(before + 1, end) for before, end in pairwise([-1, *ends, len(text)])]
    if joins or any(width_of(printable(text[start:end])) > columns for start, end in spans):
        layout = layout_of(chunk.document.text)
        if layout.kind in ("flow", "wide"):
            ends = layout.breaks(chunk.start, chunk.end)
            spans = [(before + 1, end) for before, end in pairwise([-1, *ends, len(text)])]
    yield from spans
