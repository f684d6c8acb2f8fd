"""Renders why chunks were selected as terminal text: the table of scores, what is read, one chunk, the samples, the map."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from fbrag_cli.corpus import Excerpt
from fbrag_cli.documents.document import Document
from fbrag_cli.documents.lines import line_of
from fbrag_cli.render.passages import cut, digits, in_part, parts, place, read_of, scored, scored_samples
from fbrag_cli.render.tables import beside, cells_by_chunk
from fbrag_cli.retrieval.ranking import best, ranks
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.table import aligned, shortened, width_of
from fbrag_cli.trace import Trace

_SHADES = " ▁▂▃▄▅▆▇█"
_SCALE = "scale"  # the column of scores relative to the best chunk
_FIRST_WORDS = 44  # characters of a chunk's beginning
_LEAST = 12  # columns of the place and of the first words in a narrow terminal
_PLACE = 16  # columns of a longer place, if the first words have no room otherwise
_SECTION = re.compile(r"(:\d+-\d+) \(.*\)$")  # of a place, after its lines

TermScores = Callable[[str, int], Sequence[tuple[str, float]]]


def table(
    trace: Trace,
    *,
    limit: int | None,
    by_position: bool,
    count_tokens: Callable[[str], int] | None,
    columns: int | None = None,
) -> Iterator[str]:
    """Yield the header, then a line for each of the `limit` best chunks (None: all), by rank or by position. Selected
    ones have a `*`, copies of these a `=`.

    count_tokens: of the small model; None where no model is loaded: the column then has words. columns: of the terminal, to
    which the last columns are shortened; None off one.
    """
    scores = trace.scores
    combined, backward, forward = map(ranks, (scores.combined, scores.backward, scores.forward))
    shown = best(scores.combined, limit)
    selected, copies, own = set(trace.selected), trace.copy_of, beside(trace)
    heads = [column.header or column.name for column in own.columns] if own else ["forward", "by"]
    cells = cells_by_chunk(own) if own else {}
    none = ("-",) * len(heads)
    rows = []
    for position in sorted(shown) if by_position else shown:
        chunk = trace.corpus.chunks[position]
        rows.append(
            (
                f"{combined[position]}",
                "*" if position in selected else "=" if position in copies else "",
                "-" if scores.relative is None else f"{scores.relative[position]:.2f}",
                f"{scores.combined[position]:.2f}",
                f"{digits(trace, scores.backward[position])} (#{backward[position]})",
                *(cells.get(position, none) if own else _forward(trace, position, forward[position])),
                f"{count_tokens(chunk.text) if count_tokens else chunk.n_words}",
                f"{position + 1}",
                place(chunk),
                one_line(chunk.text[: 8 * _FIRST_WORDS], _FIRST_WORDS),
            )
        )
    length = "tok" if count_tokens else "words"
    header = ("rank", "", _SCALE, "score", "backward", *heads, length, "chunk", "place", "first words")
    return _fitted([header, *rows], columns)


def excerpts(trace: Trace, columns: int | None = None) -> Iterator[str]:
    """Yield a header, a line for each excerpt that the large model reads, in reading order, and their number.

    columns: of the terminal; None off one.
    """
    rows = [
        (f"{each.n_words}", place(each.narrowed), one_line(each.text[: 8 * _FIRST_WORDS], _FIRST_WORDS)) for each in trace.context
    ]
    yield from _fitted([("words", "place", "first words"), *rows], columns)
    words = sum(each.n_words for each in trace.context)
    yield f"{counted(len(rows), 'excerpt')}, {counted(words, 'word')} for the large model"


def _fitted(rows: Sequence[tuple[str, ...]], columns: int | None) -> Iterator[str]:
    """Yield the lines of the table: its place (at its start) and its first words are shortened to fit `columns`.

    Where both have no room, columns stand closer; where they have none then, the scale and then the first words are left out.
    """
    right = {0, *range(2, len(rows[0]) - 2)}
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    gap, others = 2, sum(widths[:-2])
    if columns is None or others + sum(widths[-2:]) + gap * (len(widths) - 1) <= columns:
        return aligned(rows, right)
    wanted = min(widths[-2], _PLACE) + _LEAST
    if columns - others - gap * (len(widths) - 1) < wanted:
        gap = 1
    room = columns - others - gap * (len(widths) - 1)
    if room < wanted and _SCALE in rows[0]:
        scale = rows[0].index(_SCALE)
        return _fitted([(*row[:scale], *row[scale + 1 :]) for row in rows], columns)
    if room < wanted:
        where = max(_LEAST, room + gap)
        return aligned([(*row[:-2], _short_place(row[-2], where)) for row in rows], right, gap=gap)
    where = min(widths[-2], room - _LEAST)
    narrow = [(*row[:-2], _short_place(row[-2], where), shortened(row[-1], room - where)) for row in rows]
    return aligned(narrow, right, gap=gap)


def _short_place(where: str, columns: int) -> str:
    """Return a place cut to `columns`: without its section, then without the beginning of its path."""
    if width_of(where) > columns:
        where = _SECTION.sub(r"\1", where)
    return shortened(where, columns, at_start=True)


def holders(trace: Trace, sought: str) -> dict[int, set[bool]]:
    """Return the positions of the chunks that hold `sought` or a part of it, ignoring case and white space.

    Each is given with whether the large model reads what it holds there; both values where it reads a part. A text that goes on
    over a chunk's end is in both chunks.
    """
    needle, read = _folded(sought), read_of(trace)
    held: dict[int, set[bool]] = {}
    for document in range(len(trace.corpus.documents)):
        chunks = (trace.corpus.chunks[position] for position in trace.corpus.chunks_of(document))
        pieces = [part for chunk in chunks for part in parts(chunk, read.get(chunk.position, ()))]
        text, starts = _joined(piece for piece, _ in pieces)
        at, end = text.find(needle), 0
        while at >= 0:
            first, before = bisect_right(starts, at) - 1, end
            end = bisect_left(starts, at + len(needle), first + 1)
            for piece, is_read in pieces[max(first, before) : end]:
                held.setdefault(piece.chunk.position, set()).add(is_read)
            # What does not reach into the next piece is in no other one.
            at = text.find(needle, max(at, starts[end] - len(needle)) + 1) if end < len(pieces) else -1
    return held


def _joined(pieces: Iterable[Excerpt]) -> tuple[str, list[int]]:
    """Return the folded text of the pieces of a document, and where each of them starts in it."""
    texts: list[str] = []
    starts: list[int] = []
    length, end = 0, None
    for piece in pieces:
        text = _folded(piece.text)
        if end is not None and piece.start > end:
            texts.append(" ")
            length += 1
        starts.append(length)
        texts.append(text)
        length, end = length + len(text), piece.end
    return "".join(texts), starts


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def found(trace: Trace, held: Mapping[int, set[bool]]) -> Iterator[str]:
    """Yield a line for each chunk: rank, scores, place, whether it is selected, and if in part, whether what it holds is read.

    held: as of `holders`.
    """
    scores = trace.scores
    combined, backward, forward = map(ranks, (scores.combined, scores.backward, scores.forward))
    selected, recalled, copies, partly = set(trace.selected), set(trace.recalled), trace.copy_of, in_part(trace)
    for position, is_read in held.items():
        fate = "selected" if position in selected else "not selected"
        if partly and position in selected:
            fate += ", read in part" if len(is_read) == 2 else ", read" if True in is_read else ", not read"
        if position in copies:
            fate = f"a copy of chunk {copies[position] + 1}, which is selected"
        if position in recalled:
            fate += ", recalled"
        yield (
            f"rank {combined[position]}/{len(trace.corpus.chunks)}  score {scored(scores, position)}  "
            f"backward {digits(trace, scores.backward[position])} (#{backward[position]})  "
            f"forward {digits(trace, scores.forward[position])} (#{forward[position]})  "
            f"{place(trace.corpus.chunks[position])}  {fate}"
        )


def one_chunk(trace: Trace, position: int, term_scores: TermScores | None) -> Iterator[str]:
    """Yield a chunk in full, and what each term of the question and of the sample that raised it adds to its scores.

    term_scores: of a text and a chunk's position; None for a retriever without terms.
    """
    chunk = trace.corpus.chunks[position]
    yield f"chunk {position + 1} of {len(trace.corpus.chunks)}  {place(chunk)}"
    yield f"backward {digits(trace, trace.scores.backward[position])}{_added(term_scores, trace.question, position)}"
    raised_by = int(trace.scores.best_sample[position])
    if trace.samples and trace.scores.forward[position] != 0:
        added = _added(term_scores, trace.samples[raised_by].said, position)
        yield f"forward {digits(trace, trace.scores.forward[position])}, by sample {raised_by + 1}{added}"
    if in_part(trace) and (read := read_of(trace).get(position)):
        words = sum(each.n_words for each in read)
        yield f"read {words:,} of {counted(chunk.n_words, 'word')}: {', '.join(place(each.narrowed) for each in read)}"
    yield ""
    yield printable(chunk.text)


def _added(term_scores: TermScores | None, text: str, position: int) -> str:
    if term_scores is None:
        return ""
    return ": " + (", ".join(f"{printable(term)} {score:.1f}" for term, score in term_scores(text, position)) or "no term")


def samples(trace: Trace) -> Iterator[str]:
    """Yield each forward sample, with the chunk that it raised most."""
    for sample, scores in scored_samples(trace):
        chunk = trace.corpus.chunks[int(scores.argmax())]
        raised = f"raises {place(chunk)} most ({digits(trace, scores.max())})" if scores.any() else "raises no chunk"
        yield f"sample {sample.index + 1} (seed {sample.seed}{cut(sample)}) {raised}"
        yield from (f"    {line}".rstrip() for line in printable(sample.text).split("\n"))


def heat(trace: Trace, width: int) -> Iterator[str]:
    """Yield lines of `width` cells, one for each chunk: the darker, the higher its combined score. Selected ones are marked."""
    combined = trace.scores.combined
    low, high = float(combined.min()), float(combined.max())
    scaled = (combined - low) / (high - low) if high > low else np.zeros_like(combined)
    cells = [_SHADES[round(float(value) * (len(_SHADES) - 1))] for value in scaled]
    selected = set(trace.selected)
    marks = ["^" if position in selected else " " for position in range(len(cells))]
    for start in range(0, len(cells), width):
        yield f"|{''.join(cells[start : start + width])}|"
        if below := "".join(marks[start : start + width]).rstrip():
            yield f" {below}"


def prompt(written: str, title: str) -> Iterator[str]:
    """Yield a prompt as the model reads it, with its markers."""
    yield f"--- {title}"
    yield printable(written)


def numbered(document: Document) -> Iterator[str]:
    """Yield the decoded text, each line with its number, and a heading for each page of a PDF."""
    pages = {line_of(document, page.start): page.number for page in reversed(document.pages)}
    lines = document.text.split("\n")
    width = len(str(len(lines)))
    for number, line in enumerate(lines, 1):
        if number in pages:
            yield f"--- page {pages[number]}"
        yield f"{number:>{width}}  {printable(line)}".rstrip()


def _forward(trace: Trace, position: int, rank: int) -> tuple[str, str]:
    score, sample = trace.scores.forward[position], int(trace.scores.best_sample[position])
    return f"{digits(trace, score)} (#{rank})", f"#{sample + 1}" if score > 0 else "-"
