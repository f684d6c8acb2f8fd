"""Draws an `Answer` and its sources as terminal text. The text is the same with and without color."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fbrag_cli.corpus import Passage
from fbrag_cli.render.answer import OWN_KNOWLEDGE, Answer, Source, agreement
from fbrag_cli.render.passages import LONGEST_LINE, in_part, line_text, link, place, said_from, shown_lines, surrounded
from fbrag_cli.text.printable import plural
from fbrag_cli.text.table import width_of
from fbrag_cli.text.terminal import ACCENT, BOLD, DIM, Styled, truncate
from fbrag_cli.trace import Stage, Trace

_MARGIN = "    "  # before a line of a source
_LEAST = 20  # columns of such a line in the narrowest terminal
_ONE_LINE = 60  # columns of a source that is not shown in full: a line on a narrow terminal
_BEGINNING = 30  # columns at least of the beginning of its sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How much of each source is shown, and how: `context` lines around the sentence, or the `full` chunk.

    sources: "cited": lines of the cited ones, and a line for each other one; "all": lines of all; "none". columns: of the
    terminal; None off one. linked: whether places are links.
    """

    context: int
    full: bool = False
    sources: Literal["cited", "all", "none"] = "cited"
    colored: bool = False
    linked: bool = False
    columns: int | None = None

    def printed(self, styled: Styled, margin: str = "") -> str:
        """Return a text as it is printed, in lines that fit."""
        return "\n".join(styled.lines(self.columns, margin=margin, colored=self.colored, linked=self.linked))

    def lines(self, source: Source) -> list[Passage]:
        width = LONGEST_LINE if self.columns is None else max(_LEAST, min(self.columns - len(_MARGIN), LONGEST_LINE))
        within = None if self.full else surrounded(source.passage, source.sentence, self.context)
        return shown_lines(source.passage, width, within)

    def shown(self, source: Source) -> Passage:
        """Return what a source is named by: its sentence, or all of it."""
        return source.passage if self.full else source.sentence or source.passage


def text(answer: Answer, layout: Layout, before: Sequence[Passage] = ()) -> str:
    """Return the answer with its notes and its sources, a blank line between them.

    The words that no chunk has come first. before: what an earlier answer was from, where there was one.
    """
    with_sources = layout.sources != "none"
    notes = "\n".join(answer.notes(sources=with_sources))
    parts = Styled(answer.missing_terms), cited_answer(answer, sources=with_sources), Styled(notes)
    blocks = [layout.printed(part) for part in parts if part.text]
    return "\n\n".join([*blocks, *([sources(answer, layout, before)] if with_sources and answer.sources else [])])


def cited_answer(answer: Answer, *, sources: bool = True) -> Styled:
    """Return the answer, bold: its head if it is unsure, then each sentence with the numbers of the sources that show it."""
    styled = Styled().add(answer.head, BOLD)
    for piece, numbers in answer.pieces:
        styled.add(piece, BOLD).add(" " + "".join(f"[{number}]" for number in numbers) if sources and numbers else "")
    return styled


def sources(answer: Answer, layout: Layout, before: Sequence[Passage] = ()) -> str:
    """Return what was read: the sources that are shown with their lines, then a line for each other one, best first.

    The sentence of a cited source is marked, and what shows the answer in it; where the document does not say, the sentence that
    is nearest. before: as for `text`; what has no part of it is marked as new.
    """
    in_full, others = [], []
    for source in answer.sources:
        named, news = layout.shown(source), _news(source.passage, before)
        head = Styled().add(f"[{source.number}] ").add(place(named), link=link(named) if layout.linked else "")
        if source.shows or layout.sources == "all" or layout.full:
            head.add(source.also_in).add(f"   {source.score}", DIM).add(news)
            lines = [_line(source, line, layout) for line in layout.lines(source)]
            in_full.append("\n".join([layout.printed(head, _MARGIN), *lines]))
        else:
            room = max(_BEGINNING, _ONE_LINE - width_of(head.text) - len(news) - 2)
            head.add(f"{news}  {truncate(said_from(source.passage, source.sentence), room)}")
            head.style(0, len(head.text), DIM)
            others.append(layout.printed(head, _MARGIN))
    in_full[:1] = [f"{answer.heading}:\n{in_full[0]}"]
    return "\n\n".join([*in_full, *(["\n".join(others)] if others else [])])


def summary(trace: Trace, device: str) -> str:
    """Return what happened, on one line. device: where the models ran, "" where none did."""
    stages = {stage.name: stage for stage in trace.stages}
    parts = [f"{len(trace.retrieved)} recalled"] if trace.retrieved else []
    if forward := stages.get("forward"):
        cost = "from the cache" if "samples" in trace.cached else f"in {forward.seconds:.1f} s ({_read(forward)})"
        parts.append(f"{plural(len(trace.samples), 'sample')} {cost}")
    if in_part(trace):
        words = plural(sum(passage.n_words for passage in trace.context), "word")
        parts.append(f"{words} of {plural(len(trace.selected), 'chunk')} read")
    else:
        parts.append(f"{len(trace.selected) or 'none'} selected")
    if answer := stages.get("answer"):
        cached = "answer" in trace.cached
        parts.append("answer from the cache" if cached else f"answered in {answer.seconds:.1f} s ({_read(answer)})")
    parts += filter(None, [agreement(trace)])
    parts += (f"{name}: {value}" for name, value in trace.method_notes.items())
    if trace.answer is not None and not trace.from_document:
        parts.append(OWN_KNOWLEDGE)
    what = f"{plural(len(trace.corpus.chunks), 'chunk')}: {', '.join(parts)}"
    return f"{what} · {device}" if device else what


def surroundings(trace: Trace, source: Source, columns: int | None, *, colored: bool) -> Iterator[str]:
    """Yield the lines of a source of an answer, with the chunks before and after it in its document.

    columns: of the terminal, None off one. colored: whether what is around it is dim; else a margin marks the source.
    """
    chunks, passage = trace.corpus.chunks, source.passage
    width = min(columns - 4, LONGEST_LINE) if columns else LONGEST_LINE
    yield f"[{source.number}] {place(passage)}"
    for position in range(max(0, passage.position - 1), min(passage.position + 2, len(chunks))):
        if (chunk := chunks[position]).document is not passage.document:
            continue
        is_source = position == passage.position
        for line in shown_lines(chunk, max(1, width)):
            shown = line_text(line)
            if colored:
                yield f"    {shown}" if is_source else f"    \x1b[{DIM}m{shown}\x1b[0m"
            else:
                yield f"{'  > ' if is_source else '    '}{shown}".rstrip()


def _read(stage: Stage) -> str:
    thought = f", {stage.reasoning_tokens:,} of thought" if stage.reasoning_tokens else ""
    return f"{stage.prompt_tokens - stage.cached_tokens:,} tokens read{thought}"


def _news(passage: Passage, before: Sequence[Passage]) -> str:
    read = any(each.position == passage.position and each.start < passage.end and passage.start < each.end for each in before)
    return " (new)" if before and not read else ""


def _line(source: Source, line: Passage, layout: Layout) -> str:
    """Return a line of a source with its margin: the sentence bold, or pointed at, and the words that show it in color."""
    shown, points = Styled().add(line_text(line)), False
    if source.sentence and source.shows in ("best", "closest"):
        start, end = max(source.sentence.start, line.start), min(source.sentence.end, line.end)
        shown.style(start - line.start, end - line.start, BOLD)
        points = start < end and not layout.colored
    for start, end in source.marks if source.shows == "best" else ():
        shown.style(max(start, line.start) - line.start, min(end, line.end) - line.start, ACCENT)
    return (("  > " if points else _MARGIN) + shown.painted(colored=layout.colored)).rstrip()
