"""A passage as it is shown: its place, its score, its parts, and its lines around the sentence that shows the answer.

All places are in characters of the document.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Passage
from fbrag_cli.documents.document import Content, Document
from fbrag_cli.documents.lines import line_of, lines_of, page_label, page_name, pages_of, section_of
from fbrag_cli.documents.tables import separator_of
from fbrag_cli.text.printable import one_line, plural, printable
from fbrag_cli.text.sentences import sentence_spans
from fbrag_cli.text.spans import Span
from fbrag_cli.text.table import width_of
from fbrag_cli.text.terminal import wrap_spans
from fbrag_cli.text.words import terms
from fbrag_cli.trace import ForwardSample, Scores, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Columns of a shown line if no terminal is narrower; a longer line of the document is shown in several.
LONGEST_LINE = 120

_LONGEST_TITLE = 60  # characters of a heading in a citation
_COPIES = 3  # places of copies that a citation names
_SHORT = 20  # characters of a sentence, which is shown with what follows
_LONGEST_SENTENCE = 400  # characters; of a longer one, a line is shown
_NEAR = 160  # characters that a passage continues to begin or end with a sentence
_INDENTED = 0.25  # of the lines, for columns to mean something
_WIDTHS = range(40, 121)  # characters at which people and programs cut lines of prose
_FULL = 0.8  # of the width: a line was cut if it and the next one's first word are at least this long
_INK = re.compile(r"\S")


def location(passage: Passage) -> tuple[str, str, str]:
    """Return the name of a passage's document, "page", "pages", "line" or "lines", and its numbers: `12` or `39-41`."""
    document, start, end = passage.document, passage.start, passage.end
    pages = pages_of(document, start, end)
    first, last = pages or lines_of(document, start, end)
    numbers = page_name((first, last), one_line(page_label(document, pages) or "") or None if pages else None)
    unit = ("page" if pages else "line") + ("s" if first < last else "")
    return one_line(document.name), unit, numbers  # a line end in the name would make the rest look like another source


def place(passage: Passage) -> str:
    """Return the location of a passage, for citations: `book.txt:120-148`, `book.epub:123 (Chapter 3)` or `book.pdf p. 12`."""
    name, unit, numbers = location(passage)
    if unit.startswith("page"):
        return f"{name} {'p.' if unit == 'page' else 'pp.'} {numbers}"
    section = section_of(passage.document, passage.start, passage.end)
    return f"{name}:{numbers}" + (f" ({one_line(section.title, _LONGEST_TITLE)})" if section else "")


def place_within(passage: Passage) -> str:
    """Return where a passage is in its document: `lines 120-148`, `line 123 (Chapter 3)` or `p. 12`."""
    rest = place(passage).removeprefix(one_line(passage.document.name))
    unit = "lines" if "-" in rest.partition(" ")[0] else "line"
    return f"{unit} {rest[1:]}" if rest.startswith(":") else rest.strip()


def has_pictures(document: Document) -> bool:
    """Return whether the pages of a document can be shown as pictures: those of a PDF, and pictures themselves."""
    return document.media_type == "application/pdf" or document.media_type.startswith("image/")


def picture_pages(passage: Passage) -> range:
    """Return the pages of a passage that can be shown as pictures."""
    pages = pages_of(passage.document, passage.start, passage.end) if has_pictures(passage.document) else None
    return range(pages[0], pages[1] + 1) if pages else range(0)


def link(passage: Passage) -> str:
    """Return the address of the file at a passage's place, as `file:///home/ann/book.txt#123`; "" without a file."""
    document, start = passage.document, passage.start
    path = os.path.abspath(document.path)
    if not os.path.isfile(path):
        return ""
    pages = pages_of(document, start, passage.end)
    return f"{Path(path).as_uri()}#{f'page={pages[0]}' if pages else line_of(document, start)}"


def duplicates(trace: Trace, source: Passage) -> Iterator[Passage]:
    """Yield the other places of a source's text: the copies of its chunk, each narrowed as the source is."""
    chunk = trace.corpus.chunks[source.position]
    before = len(_INK.findall(chunk.document.text, chunk.start, source.start))
    length = len(_INK.findall(source.text))
    for position in trace.selection.duplicates.get(source.position, ()):
        copy = trace.corpus.chunks[position]
        if copy.words != chunk.words:  # a near copy
            continue
        ink = [found.start() for found in _INK.finditer(copy.document.text, copy.start, copy.end)]
        yield copy.part(ink[before], ink[before + length - 1] + 1)


def near_copies(trace: Trace, source: Passage) -> list[Passage]:
    """Return the unread chunks with nearly the same text as the chunk of a source."""
    chunks = trace.corpus.chunks
    words = chunks[source.position].words
    copies = (chunks[position] for position in trace.selection.duplicates.get(source.position, ()))
    return [copy for copy in copies if copy.words != words]


def by_ocr(passage: Passage) -> str:
    """Return `, read by OCR` to print after the place of a passage; "" if it was not."""
    return ", read by OCR" if passage.by_ocr else ""


def also_in(trace: Trace, source: Passage) -> str:
    """Return where the text of a source is repeated, to print after its place: `, repeated at b.txt:1-9, and 6 near copies`; ""
    if it is not."""
    near = near_copies(trace, source)
    named = [place(copy) for copy in islice(duplicates(trace, source), _COPIES)]
    if (more := len(trace.selection.duplicates.get(source.position, ())) - len(near) - _COPIES) > 0:
        named.append(plural(more, "other place"))
    told = f", repeated at {', '.join(named)}" if named else ""
    return f"{told}, and {len(near):,} near {'copy' if len(near) == 1 else 'copies'}" if near else told


def in_part(trace: Trace) -> bool:
    """Return whether the large model reads parts of chunks, not only whole ones."""
    chunks = trace.corpus.chunks
    return any(each.start > chunks[each.position].start or each.end < chunks[each.position].end for each in trace.context)


def read_of(trace: Trace) -> dict[int, list[Passage]]:
    """Return what the large model reads of each selected chunk, in document order, by the position of the chunk."""
    passages: dict[int, list[Passage]] = {}
    for passage in sorted(trace.context, key=lambda each: (each.position, each.start)):
        passages.setdefault(passage.position, []).append(passage)
    return passages


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


def digits(trace: Trace, score: float) -> str:
    """Return a score of the retriever with the digits that matter: one for BM25's sums, three for cosines."""
    return f"{score:.1f}" if trace.retriever == "bm25" else f"{score:.3f}"


def scored_samples(trace: Trace) -> Iterator[tuple[ForwardSample, NDArray[np.float32]]]:
    """Return each forward sample with its scores (n_chunks,)."""
    return zip(trace.samples, trace.scores.per_sample, strict=True)


def cut(sample: ForwardSample) -> str:
    """Return why a sample was cut, to print after its seed; "" if it was not."""
    return {"length": ", cut off at its length limit", "repeat": ", cut off: it repeats itself"}.get(sample.finish, "")


def shown_lines(passage: Passage, columns: int = LONGEST_LINE, within: Passage | None = None) -> list[Passage]:
    """Return the passage's lines in order; one that is wider than `columns` is cut between words.

    The lines of a paragraph of prose are joined before, if it is cut at a greater width than `columns`, or shown from within a
    line on. within: the part of the passage that is shown; None for all.
    """
    text, shown = passage.document.text, within or passage
    joins, lines = text[max(0, shown.start - 1) : shown.start] not in ("", "\n"), list[Passage]()
    for first, end in _paragraphs(passage, columns, joins=joins):
        if end >= shown.start and first <= shown.end:
            first, end = max(first, shown.start), min(end, shown.end)
            lines += [passage.part(*span) for span in wrap_spans(text[first:end], first, columns)]
    return lines


def line_text(line: Passage) -> str:
    """Return a line of `shown_lines`, printable; one that only a width has cut continues."""
    return printable(line.text).replace("\n", " ")


def around(shown: Sequence[Passage], sentence: Passage | None, context: int) -> list[Passage]:
    """Return the lines of a sentence with `context` lines before and after, without blank lines at either end. Never empty.

    sentence: None for the first line.
    """
    text = [i for i, line in enumerate(shown) if line.start < line.end] or [0]
    within = [i for i in text if sentence and shown[i].start < sentence.end and sentence.start < shown[i].end] or text[:1]
    first, last = max(0, within[0] - context), within[-1] + context
    kept = [i for i in text if first <= i <= last] or text[:1]
    return list(shown[kept[0] : kept[-1] + 1])


def surrounded(passage: Passage, sentence: Passage | None, context: int) -> Passage:
    """Return the part of a passage with a sentence and `context` lines before and after it.

    In prose it begins and ends with sentences, if these begin and end near. It is the same on every terminal. sentence: as of
    `around`.
    """
    if sentence and not context:
        return sentence
    lines = around(shown_lines(passage), sentence, context)
    start, end = lines[0].start, lines[-1].end
    if sentence is None:
        return passage.part(start, end)
    sentences = [(passage.start + first, passage.start + last) for first, last in sentence_spans(passage.text)]
    layout = layout_of(passage.document)
    breaks = layout.breaks(passage.start, passage.end) if layout.flows else _line_ends(passage)
    starts = {*(first for first, _ in sentences), *(at + 1 for at in breaks), passage.start}
    ends = {*(last for _, last in sentences), *breaks, passage.end}
    # What begins or ends within the lines comes first: then a passage is not longer than it was asked for.
    first = min((at for at in starts if start <= at < sentence.start), default=-1)
    if first < 0:
        first = max((at for at in starts if start - _NEAR <= at <= sentence.start), default=start)
    last = max((at for at in ends if sentence.end < at <= end), default=-1)
    if last < 0:
        last = min((at for at in ends if max(sentence.end, end) <= at <= end + _NEAR), default=sentence.end)
    shown = passage.document.text[first:last]
    return passage.part(first + len(shown) - len(shown.lstrip("\n")), last - len(shown) + len(shown.rstrip()))


def said_from(passage: Passage, sentence: Passage | None, width: int | None = None) -> str:
    """Return a sentence of a passage as one line, with the text after it if it says too little alone, such as "9."; without a
    sentence the whole passage. width: as of `one_line`."""
    sentence = sentence or passage
    return one_line((sentence if len(sentence.text) >= _SHORT else passage.part(sentence.start, passage.end)).text, width)


def nearest_sentence(chunk: Passage, weights: Mapping[str, float]) -> Passage:
    """Return the sentence of a chunk that shares most with a question; of a long one, the best line.

    weights: the score of each term of the question in this chunk.
    """
    text, words, language = chunk.text, chunk.cells_apart, (chunk.document.language,)

    def weight(span: Span) -> float:
        return sum(weights.get(term, 0.0) for term in {*terms(words[slice(*span)], language)})

    start, end = max(sentence_spans(text), key=weight)
    if end - start > _LONGEST_SENTENCE:  # a table, or a text without punctuation
        ends = accumulate(len(line) + 1 for line in text[start:end].split("\n"))
        start, end = max(pairwise([start, *(min(end, start + each) for each in ends)]), key=weight)
    return chunk.part(chunk.start + start, chunk.start + end)


def _line_ends(passage: Passage) -> list[int]:
    return [i for i, character in enumerate(passage.text, passage.start) if character == "\n"]


def _paragraphs(passage: Passage, columns: int, *, joins: bool) -> Iterator[Span]:
    """Yield (start, end) of what is wrapped on its own: lines, or runs of lines that only a width has cut.

    joins: whether such runs are joined even if all lines fit.
    """
    ends, text = _line_ends(passage), passage.document.text

    def between(ends: Sequence[int]) -> list[Span]:
        return [(before + 1, end) for before, end in pairwise([passage.start - 1, *ends, passage.end])]

    if joins or any(width_of(printable(text[start:end])) > columns for start, end in between(ends)):
        layout = layout_of(passage.document)
        ends = layout.breaks(passage.start, passage.end) if layout.flows else ends
    return iter(between(ends))


class LineLayout:
    """The layout of one text, judged by the lengths and the beginnings of its lines.

    kind: "lines" (line ends have a meaning), "columns" (columns too), "flow" (prose that was cut at a width). in_rows: whether
    each line is a row of a table.
    """

    def __init__(self, text: str, *, in_rows: bool = False) -> None:
        lines = text.split("\n")
        filled = [line for line in lines if line.strip()]
        width = sorted(map(len, filled))[len(filled) * 9 // 10] if filled else 0
        if sum(line[0] in " \t" for line in filled) > _INDENTED * len(filled):
            self.kind = "columns"
        else:
            self.kind = "lines" if in_rows or width not in _WIDTHS else "flow"
        self._ends = _meant_ends(lines, _FULL * width) if self.flows else []

    @property
    def flows(self) -> bool:
        """Whether the text is prose that was cut at a width."""
        return self.kind == "flow"

    def breaks(self, start: int, end: int) -> list[int]:
        """Return where lines in `text[start:end]` end on purpose, not because they were full. Empty unless the text flows."""
        return self._ends[bisect_left(self._ends, start) : bisect_left(self._ends, end)]


def layout_of(document: Document) -> LineLayout:
    """Return the layout of a document's text, judged once."""
    return document.content().once(_layout, bool(separator_of(document)))


def _layout(content: Content, in_rows: bool) -> LineLayout:
    return LineLayout(content.text, in_rows=in_rows)


def _meant_ends(lines: list[str], full: float) -> list[int]:
    ends, at = [], 0
    for line, following in pairwise(lines):
        at += len(line)
        word = following.partition(" ")[0]  # empty where the line is blank or indented
        if not line or not word or len(line) + 1 + len(word) < full:
            ends.append(at)
        at += 1
    return ends
