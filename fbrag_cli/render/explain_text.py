"""Renders why chunks were selected as terminal text: the table of scores, what is read, one chunk, the samples."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os.path import commonprefix

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.documents.document import Document
from fbrag_cli.documents.lines import line_of, page_name
from fbrag_cli.render.passages import (
    by_ocr,
    cut,
    digits,
    in_part,
    line_text,
    location,
    parts,
    place,
    read_of,
    scored_samples,
    shown_lines,
)
from fbrag_cli.render.tables import cells_by_chunk, chunk_table, first_words, fitted, lines_of, own_tables
from fbrag_cli.retrieval.ranking import best, ranks
from fbrag_cli.text.printable import one_line, plural, printable
from fbrag_cli.text.terminal import BOLD, DIM, Styled, wrap_lines
from fbrag_cli.trace import Trace

_SPARE = ("tok", "words", "chunk")  # columns that make room for the first words, in this order

TermMatches = Callable[[str, Passage], Sequence[tuple[str, str, float]]]


def table(
    trace: Trace,
    *,
    limit: int | None,
    by_position: bool,
    count_tokens: Callable[[str], int] | None,
    columns: int | None = None,
    colored: bool = False,
) -> Iterator[str]:
    """Yield the header, a line for each of the `limit` best chunks (None: all), by rank or by position, and a legend. Selected
    chunks have a `*`, duplicates of these a `=`. A chunk has its rank by the question, and its rank by the forward samples.

    count_tokens: of the small model; None if no model is loaded: the column then has words. columns: of the terminal, to
    which the table is fitted; None off one. colored: whether selected rows are bold and the others dim.
    """
    scores = trace.scores
    combined, backward, forward = map(ranks, (scores.combined, scores.backward, scores.forward))
    shown = sorted(best(scores.combined, limit), key=lambda position: position if by_position else combined[position])
    selected, copies, own = set(trace.selected), trace.selection.duplicate_of, chunk_table(trace)
    heads = [column.header or column.name for column in own.columns] if own else ["samples"] if trace.samples else []
    cells = cells_by_chunk(own) if own else {}
    none = ("-",) * len(heads)
    where, located = _locations(trace)
    rows = []
    for position in shown:
        chunk = trace.corpus.chunks[position]
        rows.append(
            (
                f"{combined[position]}",
                "*" if position in selected else "=" if position in copies else "",
                "-" if scores.relative is None else f"{scores.relative[position]:.2f}",
                f"#{backward[position]}",
                *(cells.get(position, none) if own else [f"#{forward[position]}"] if heads else ()),
                f"{count_tokens(chunk.text) if count_tokens else chunk.n_words}",
                f"{position + 1}",
                located(chunk),
                first_words(chunk),
            )
        )
    length = "tok" if count_tokens else "words"
    header = ("", "", "score", "question", *heads, length, "chunk", where, "starts with")
    lines = fitted([header, *rows], columns, _common(trace), _SPARE)
    yield next(lines)
    for position, line in zip(shown, lines, strict=True):
        yield _painted(line, BOLD if position in selected else DIM, colored)
    ranks_by = "the question, and by the forward samples" if trace.samples and not own else "the question"
    equal = "; = copy, or near copy, of a selected chunk" if copies else ""
    yield from wrap_lines(f"* selected{equal}. #: rank by {ranks_by}.", columns)


def excerpts(trace: Trace, columns: int | None = None) -> Iterator[str]:
    """Yield a header, a line for each excerpt that the large model reads, in reading order, and their number.

    columns: of the terminal; None off one.
    """
    where, located = _locations(trace)
    rows = [(f"{each.n_words}", located(each), first_words(each)) for each in trace.context]
    yield from fitted([("words", where, "starts with"), *rows], columns, _common(trace))
    words = sum(each.n_words for each in trace.context)
    yield f"{plural(len(rows), 'excerpt')}, {plural(words, 'word')} for the large model"


def own_lines(trace: Trace, columns: int | None = None) -> Iterator[str]:
    """Yield the tables of the method that are shown apart from the chunks, each after an empty line. columns: as for
    `excerpts`."""
    for told in own_tables(trace):
        yield ""
        yield from lines_of(told, columns, _common(trace))


def _locations(trace: Trace) -> tuple[str, Callable[[Passage], str]]:
    """Return the head of a column of locations, and what returns the location of a passage: of one document without its name."""
    if len(trace.corpus.documents) > 1:
        return "location", place
    return ("pages" if trace.corpus.documents[0].pages else "lines"), lambda passage: location(passage)[2]


def _common(trace: Trace) -> str:
    """Return what all places begin with: the name of the only document, the folder of several."""
    names = [one_line(document.name) for document in trace.corpus.documents]
    return names[0] if len(names) == 1 else commonprefix(names).rpartition("/")[0] + "/"  # noqa: RUF071 cut at a "/"


def holders(trace: Trace, sought: str) -> dict[int, set[bool]]:
    """Return the chunks that hold `sought` (see `held_in`), each with whether the large model reads that part of it; both values
    if it reads some of it."""
    read, held = read_of(trace), dict[int, set[bool]]()
    for document in range(len(trace.corpus.documents)):
        held |= held_in(trace.corpus, document, sought, read)
    return held


def held_in(
    corpus: Corpus, document: int, sought: str, read: Mapping[int, Sequence[Passage]] | None = None
) -> dict[int, set[bool]]:
    """Return the positions of the chunks of a document that hold `sought` or a part of it, ignoring case and white space.

    A text that crosses a chunk's end is in both chunks. read: from `read_of`. Each position comes with whether that text is read.
    """
    needle, read = _folded(sought), read or {}
    held: dict[int, set[bool]] = {}
    chunks = (corpus.chunks[position] for position in corpus.chunks_of(document))
    pieces = [part for chunk in chunks for part in parts(chunk, read.get(chunk.position, ()))]
    text, starts = _joined(piece for piece, _ in pieces)
    at, end = text.find(needle), 0
    while at >= 0:
        first, before = bisect_right(starts, at) - 1, end
        end = bisect_left(starts, at + len(needle), first + 1)
        for piece, is_read in pieces[max(first, before) : end]:
            held.setdefault(piece.position, set()).add(is_read)
        # What does not reach into the next piece is in no other one.
        at = text.find(needle, max(at, starts[end] - len(needle)) + 1) if end < len(pieces) else -1
    return held


def _joined(pieces: Iterable[Passage]) -> tuple[str, list[int]]:
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


def found(trace: Trace, held: Mapping[int, set[bool]], columns: int | None = None) -> Iterator[str]:
    """Yield a line for each chunk: its location, whether it is selected and its text read, and its ranks.

    held: as of `holders`. columns: as for `wrap_lines`.
    """
    scores = trace.scores
    combined, backward, forward = map(ranks, (scores.combined, scores.backward, scores.forward))
    selected, retrieved, copies, partly = set(trace.selected), set(trace.retrieved), trace.selection.duplicate_of, in_part(trace)
    for position, is_read in held.items():
        fate = "selected" if position in selected else "not selected"
        if partly and position in selected:
            fate += ", read in part" if len(is_read) == 2 else ", read" if True in is_read else ", not read"
        if position in copies:
            chunks = trace.corpus.chunks
            near = "" if chunks[position].words == chunks[copies[position]].words else "near "
            fate = f"{near}duplicate of the selected chunk {copies[position] + 1}"
        if position in retrieved:
            fate += ", retrieved"
        by_samples = f", samples #{forward[position]}" if trace.samples else ""
        chunk = trace.corpus.chunks[position]
        rank = f"rank {combined[position]} of {len(trace.corpus.chunks)}; question #{backward[position]}{by_samples}"
        yield from wrap_lines(f"{place(chunk)}{by_ocr(chunk)}: {fate} ({rank})", columns)


def one_chunk(trace: Trace, position: int, matches: TermMatches | None, columns: int | None = None) -> Iterator[str]:
    """Yield a chunk in full, and what each term of the question and of the sample that matches it best adds to its scores.

    matches: as `BM25.matches`; None for a retriever without terms. columns: as for `wrap_lines`.
    """
    chunk = trace.corpus.chunks[position]
    said = [f"chunk {position + 1} of {len(trace.corpus.chunks)}  {place(chunk)}{by_ocr(chunk)}"]
    said.append(f"question {digits(trace, trace.scores.backward[position])}{_added(matches, trace.question, chunk)}")
    raised_by = int(trace.scores.best_sample[position])
    if trace.samples and trace.scores.forward[position]:
        added = _added(matches, trace.samples[raised_by].scored_text, chunk)
        said.append(f"sample {raised_by + 1} {digits(trace, trace.scores.forward[position])}{added}")
    if in_part(trace) and (read := read_of(trace).get(position)):
        words = sum(each.n_words for each in read)
        said.append(f"read {words:,} of {plural(chunk.n_words, 'word')}: {', '.join(place(each) for each in read)}")
    yield from wrap_lines("\n".join([*said, ""]), columns)
    if columns is None:
        yield printable(chunk.text)
    else:  # lines of prose that only a width has cut are joined
        yield from map(line_text, shown_lines(chunk, columns))


def _added(matches: TermMatches | None, text: str, chunk: Passage) -> str:
    if matches is None:
        return ""
    met = ((asked if asked == held else f"{asked} ↔ {held}", score) for asked, held, score in matches(text, chunk))
    return ": " + (", ".join(f"{printable(words)} {score:.1f}" for words, score in met) or "no term")


def samples(trace: Trace, columns: int | None = None, *, colored: bool = False) -> Iterator[str]:
    """Yield each forward sample, equal ones once, with its best match. columns: as for `wrap_lines`. colored: as for `table`."""
    numbers: dict[str, list[str]] = {}
    for sample in trace.samples:
        numbers.setdefault(sample.text, []).append(str(sample.index + 1))
    where, located = _locations(trace)
    for sample, scores in scored_samples(trace):
        if (same := numbers.pop(sample.text, None)) is None:
            continue
        best_match = located(trace.corpus.chunks[int(scores.argmax())])
        unit = "" if where == "location" else f"{where} " if "-" in best_match else f"{where[:-1]} "
        matched = f"best match: {unit}{best_match}" if scores.any() else "matches no chunk"
        title = f"forward sample{'s' if len(same) > 1 else ''} {', '.join(same)}{cut(sample)} · {matched}"
        for line in wrap_lines(title, columns):
            yield _painted(line, BOLD, colored)
        yield from wrap_lines(printable(sample.text), columns, "    ")


def _painted(line: str, style: str, colored: bool) -> str:
    return Styled().add(line, style).painted(colored=colored)


def prompt(written: str, title: str, columns: int | None = None) -> Iterator[str]:
    """Yield a prompt as the model reads it, with its markers. columns: as for `wrap_lines`."""
    yield f"--- {title}"
    yield from wrap_lines(printable(written), columns)


def numbered(document: Document, columns: int | None = None) -> Iterator[str]:
    """Yield the decoded text, each line with its number, and a heading for each page of a PDF. columns: as for `wrap_lines`."""
    pages = {line_of(document, page.start): page for page in reversed(document.pages)}
    lines = document.text.split("\n")
    width = len(str(len(lines)))
    margin = " " * (width + 2)
    for number, line in enumerate(lines, 1):
        if number in pages:
            page = pages[number]
            yield f"--- page {page_name((page.number, page.number), page.label or None)}"
        first, *rest = wrap_lines(printable(line), None if columns is None else max(20, columns - len(margin)))
        yield f"{number:>{width}}  {first}".rstrip()
        yield from (margin + each for each in rest)
