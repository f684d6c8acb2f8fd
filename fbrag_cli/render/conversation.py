"""Renders the questions of a conversation: each as a section of Markdown, and a source with what stands around it."""

from __future__ import annotations

from collections.abc import Iterator

from fbrag_cli.render import answer_text
from fbrag_cli.render.passages import LONGEST_LINE, place, shown_lines
from fbrag_cli.text.markdown import escaped_line
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.terminal import DIM
from fbrag_cli.trace import Trace


def markdown(trace: Trace, number: int, context: int, *, full: bool = False, cited: bool = True) -> str:
    """Return a question as a heading, and its answer with its sources as footnotes.

    number: of the question in the conversation, part of the footnotes' names. context, full: as of `Layout`. cited: whether
    sources are named.
    """
    layout = answer_text.Layout(context=context, full=full)
    answer = answer_text.markdown(trace, trace.citations if cited else None, layout, f"{number}-")
    return f"## {escaped_line(one_line(trace.question))}\n\n{answer}"


def surroundings(trace: Trace, number: int, columns: int | None, *, colored: bool) -> Iterator[str]:
    """Yield the lines of source `number` (from 1) of an answer, with the chunks before and after it in its document.

    columns: of the terminal, None off one. colored: whether what is around it is dim; else a margin marks the source.
    """
    source, corpus = trace.sources[number - 1], trace.corpus
    width = min(columns - 4, LONGEST_LINE) if columns else LONGEST_LINE
    yield f"[{number}] {place(source)}"
    for position in range(source.position - 1, source.position + 2):
        if not 0 <= position < len(corpus.chunks) or corpus.chunks[position].document is not source.document:
            continue
        chunk = corpus.chunks[position]
        is_source = position == source.position
        for line in shown_lines(chunk, max(1, width)):
            text = printable(chunk.text[line.start : line.end]).replace("\n", " ")
            if colored:
                yield f"    {text}" if is_source else f"    \x1b[{DIM}m{text}\x1b[0m"
            else:
                yield f"{'  > ' if is_source else '    '}{text}".rstrip()
