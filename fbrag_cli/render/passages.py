"""The lines of a chunk as they are shown: the words that support the answer, and the lines that have most of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import gt

from fbrag_cli.corpus import Chunk
from fbrag_cli.documents.lines import line_of, lines_of, pages_of, section_of
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.spans import joined
from fbrag_cli.text.table import width_of
from fbrag_cli.text.words import term_spans, terms, word_spans
from fbrag_cli.trace import Trace

#: Columns of a shown line where no terminal is narrower; a longer line of the document is shown in several.
LONGEST_LINE = 120

_LONGEST_TITLE = 60  # characters of a heading in a citation
_PASSAGES = 3  # highlighted lines a chunk, at most
_WORTH = 0.6  # of the best line's weight, for a line to be shown as well


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is shown: `chunk.text[start:end]`, on line `number` (from 1) of its document.

    marks: (start, end) of its highlighted words, in characters of the chunk's text. weight: of its distinct highlighted terms.
    """

    number: int
    start: int
    end: int
    marks: tuple[tuple[int, int], ...]
    weight: float


def place(chunk: Chunk) -> str:
    """Return where a chunk stands, for citations: `book.txt:120-148`, `book.epub:120-148 (Chapter 3)` or `book.pdf p. 12`."""
    document = chunk.document
    name = one_line(document.name)  # a line end in it would make the rest look like another source
    if pages := pages_of(document, chunk.start, chunk.end):
        first, last = pages
        return f"{name} p. {first}" if first == last else f"{name} pp. {first}-{last}"
    first, last = lines_of(document, chunk.start, chunk.end)
    section = section_of(document, chunk.start, chunk.end)
    return f"{name}:{first}-{last}" + (f" ({one_line(section.title, _LONGEST_TITLE)})" if section else "")


def supporting_terms(trace: Trace, position: int) -> dict[str, float]:
    """Return a weight for each term that supports the answer in chunk `position`.

    These are the terms of the answer, with twice the weight, and of the forward sample that raised the chunk. Terms that most
    of the selected chunks share weigh little.
    """
    language = (trace.corpus.chunks[position].document.language,)
    answer = set(terms(trace.answer or "", language))
    raised_by = int(trace.scores.best_sample[position])
    sample = set(terms(trace.samples[raised_by].said, language)) if 0 <= raised_by < len(trace.samples) else set()
    nearby = [set(terms(trace.corpus.chunks[other].text, language)) for other in trace.selected]
    weights = {}
    for term in sorted(answer | sample):
        shared = sum(term in words for words in nearby)
        weights[term] = (2.0 if term in answer else 1.0) * math.log(1 + (len(nearby) + 1) / (shared + 0.5))
    return weights


def highlights(chunk: Chunk, weights: Mapping[str, float]) -> tuple[tuple[int, int], ...]:
    """Return (start, end), in characters of the chunk's text, of each word whose term has a weight."""
    # Where terms are pairs of characters, neighbours overlap; words that only touch keep a mark each.
    return tuple(joined(((start, end) for start, end, term in _term_spans(chunk) if term in weights), gt))


def shown_lines(chunk: Chunk, weights: Mapping[str, float], columns: int = LONGEST_LINE) -> list[Line]:
    """Return the chunk's lines in order; one that is wider than `columns` is cut between words."""
    text = chunk.text
    spans = list(_term_spans(chunk))
    number = line_of(chunk.document, chunk.start)
    found: list[Line] = []
    at = 0
    for physical in text.split("\n"):
        for start, end in pieces(physical, at, columns):
            within = [span for span in spans if start <= span[0] < end and span[2] in weights]
            weight = sum(weights[term] for term in {span[2] for span in within})
            marks = joined(((first, min(last, end)) for first, last, _ in within), gt)
            found.append(Line(number, start, end, tuple(marks), weight))
        at += len(physical) + 1
        number += 1
    return found


def passages(shown: Sequence[Line], context: int) -> list[list[Line]]:
    """Return the lines with the greatest weight, each with `context` lines around it. Never empty.

    Lines that adjoin, but for blank ones, are one passage.
    """
    best = max((line.weight for line in shown), default=0.0)
    ranked = sorted(range(len(shown)), key=lambda i: -shown[i].weight)[:_PASSAGES]
    chosen = [i for i in ranked if shown[i].weight >= _WORTH * best] if best > 0 else ranked[:1]
    quoted = sorted({j for i in chosen for j in range(max(0, i - context), min(len(shown), i + context + 1))})
    quoted = [i for i in quoted if shown[i].end > shown[i].start] or quoted[:1]  # blank lines only separate
    found: list[list[Line]] = []
    last = -1
    for i in quoted:
        if found and all(line.end == line.start for line in shown[last + 1 : i]):
            found[-1] += shown[last + 1 : i + 1]
        else:
            found.append([shown[i]])
        last = i
    return found


def _term_spans(chunk: Chunk) -> Iterator[tuple[int, int, str]]:
    return term_spans(chunk.text, (chunk.document.language,))


def pieces(line: str, at: int, columns: int) -> list[tuple[int, int]]:
    """Return (start, end) of pieces of `line` that fit `columns`, in characters of the chunk. at: where the line begins."""
    safe = printable(line)
    if width_of(safe) <= columns:
        return [(at, at + len(line))]
    found: list[tuple[int, int]] = []
    for start, end in word_spans(line):
        if found and width_of(safe[found[-1][0] : end]) <= columns:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return [(at + start, at + end) for start, end in found]
