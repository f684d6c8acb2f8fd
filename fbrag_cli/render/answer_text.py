"""Renders the answer and its sources as terminal text and as Markdown. The text is the same with and without colour."""

from __future__ import annotations

from collections.abc import Iterator

from fbrag_cli.corpus import Chunk
from fbrag_cli.render.passages import LONGEST_LINE, Line, also_in, passages, place, shown_lines, supporting_terms
from fbrag_cli.text.printable import counted, printable
from fbrag_cli.text.words import terms
from fbrag_cli.trace import Stage, Trace

NOT_FOUND = "The document does not say."

_MARGIN = 4  # columns before a line of a source
_LEAST = 20  # columns of such a line in the narrowest terminal
_MARK, _PLACE, _END = "\x1b[1;33m", "\x1b[1m", "\x1b[0m"


def answer_of(trace: Trace) -> str:
    """Return the answer as it is printed."""
    return NOT_FOUND if trace.status == "not_found" else printable(trace.answer or "")


def sources(trace: Trace, *, context: int, full: bool, colored: bool, columns: int | None = None) -> str:
    """Return the selected chunks, best first: place, score, and the lines that support the answer (all lines if `full`).

    context: lines around each supporting line. columns: of the terminal; None off one.
    """
    width = LONGEST_LINE if columns is None else max(_LEAST, min(columns - _MARGIN, LONGEST_LINE))
    heading = "Closest:" if trace.status == "not_found" else "Sources:"
    blocks = [heading]
    for number, chunk in enumerate(trace.sources, 1):
        head = f"[{number}] {_PLACE}{place(chunk)}{_END}" if colored else f"[{number}] {place(chunk)}"
        blocks.append(f"{head}{also_in(trace, chunk)}   {trace.scores.combined[chunk.position]:.2f}")
        blocks += _block(trace, chunk, context, full, colored, width)
    return "\n".join(blocks)


def markdown(trace: Trace, *, context: int, full: bool, with_sources: bool) -> str:
    """Return the answer as Markdown, with every selected chunk as a footnote.

    The answer refers to the chunks that hold all of its words, or to all where none does.
    """
    if not with_sources:
        return _escaped(answer_of(trace))
    chunks = trace.sources
    cited = [i for i, chunk in enumerate(chunks, 1) if _holds_answer(trace, chunk)]
    marks = "".join(f"[^{i}]" for i in (cited or range(1, len(chunks) + 1)))
    notes = []
    for number, chunk in enumerate(chunks, 1):
        quoted = "\n".join(f"    > {_escaped(line)}".rstrip() for line in _plain_lines(trace, chunk, context, full))
        where = _escaped(place(chunk) + also_in(trace, chunk))
        notes.append(f"[^{number}]: {where} ({trace.scores.combined[chunk.position]:.2f})\n\n{quoted}")
    return f"{_escaped(answer_of(trace))}{marks}\n\n" + "\n\n".join(notes)


def summary(trace: Trace, device: str) -> str:
    """Return what happened, on one line. device: where the models ran, "" where none did."""
    stages = {stage.name: stage for stage in trace.stages}
    parts = [f"{len(trace.recalled)} recalled"] if trace.recalled else []
    if forward := stages.get("forward"):
        cost = "from the cache" if "samples" in trace.cached else f"in {forward.seconds:.1f} s ({_read(forward)})"
        parts.append(f"{counted(len(trace.samples), 'sample')} {cost}")
    parts.append(f"{len(trace.selected)} selected")
    if answer := stages.get("answer"):
        cached = "answer" in trace.cached
        parts.append("answer from the cache" if cached else f"answered in {answer.seconds:.1f} s ({_read(answer)})")
    if trace.route:
        parts.append(f"route: {trace.route}")
    what = f"{counted(len(trace.corpus.chunks), 'chunk')}: {', '.join(parts)}"
    return f"{what} · {device}" if device else what


def _read(stage: Stage) -> str:
    return f"{stage.prompt_tokens - stage.cached_tokens:,} tokens read"


def _block(trace: Trace, chunk: Chunk, context: int, full: bool, colored: bool, width: int) -> Iterator[str]:
    weights = supporting_terms(trace, chunk.position)
    shown = shown_lines(chunk, weights, width)
    marked = {id(line) for passage in passages(shown, 0) for line in passage if line.marks}
    for i, passage in enumerate([shown] if full else passages(shown, context)):
        if i:
            yield "    …"
        for line in passage:
            margin = "  > " if id(line) in marked and not colored else "    "
            yield (margin + _line(chunk, line, colored and (full or id(line) in marked))).rstrip()


def _plain_lines(trace: Trace, chunk: Chunk, context: int, full: bool) -> Iterator[str]:
    shown = shown_lines(chunk, supporting_terms(trace, chunk.position))
    for i, passage in enumerate([shown] if full else passages(shown, context)):
        if i:
            yield "…"
        for line in passage:
            yield printable(chunk.text[line.start : line.end])


def _line(chunk: Chunk, line: Line, colored: bool) -> str:
    text = printable(chunk.text[line.start : line.end])
    if not colored:
        return text
    pieces, at = [], 0
    for start, end in ((first - line.start, last - line.start) for first, last in line.marks):
        pieces += [text[at:start], _MARK, text[start:end], _END]
        at = end
    return "".join([*pieces, text[at:]])


def _holds_answer(trace: Trace, chunk: Chunk) -> bool:
    language = (chunk.document.language,)
    sought = set(terms(trace.answer or "", language))
    return bool(sought) and sought <= set(terms(chunk.text, language))


def _escaped(text: str) -> str:
    """Return text of a document or a model as Markdown that shows it unchanged."""
    shown = printable(text).replace("\\", "\\\\")
    for character in "`*_[]<>#|~&":
        shown = shown.replace(character, f"\\{character}")
    return shown
