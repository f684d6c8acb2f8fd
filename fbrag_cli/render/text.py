"""Draws an `Answer` and its sources as terminal text. The text is the same with and without color."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fbrag_cli.corpus import Passage
from fbrag_cli.render.answer import ANYWAY, OWN_KNOWLEDGE, Answer, Source, agreement
from fbrag_cli.render.passages import LONGEST_LINE, by_ocr, in_part, line_text, link, location, place, shown_lines, surrounded
from fbrag_cli.text.printable import plural
from fbrag_cli.text.terminal import ACCENT, BOLD, DIM, Styled
from fbrag_cli.trace import Stage, Trace

_MARGIN = "    "  # before a line of a source
_LEAST = 20  # columns of such a line in the narrowest terminal
_NEW = " (added)"
_LONG = 10  # seconds that are told without a fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How much of each source is shown, and how.

    context: lines before and after the sentence; None for the whole chunk. sources: "cited": lines of the cited ones, and the
    locations of the others; "all": lines of all; "none". columns: of the terminal; None off one. linked: whether places are
    links.
    """

    context: int | None
    sources: Literal["cited", "all", "none"] = "cited"
    colored: bool = False
    linked: bool = False
    columns: int | None = None

    def printed(self, styled: Styled, margin: str = "") -> str:
        """Return a text as it is printed, in lines that fit."""
        return "\n".join(styled.lines(self.columns, margin=margin, colored=self.colored, linked=self.linked))

    def lines(self, source: Source) -> list[Passage]:
        width = LONGEST_LINE if self.columns is None else max(_LEAST, min(self.columns - len(_MARGIN), LONGEST_LINE))
        within = None if self.context is None else surrounded(source.passage, source.sentence, self.context)
        return shown_lines(source.passage, width, within)

    def shown(self, source: Source) -> Passage:
        """Return the shown part of a source: its sentence, or all of it."""
        return source.passage if self.context is None else source.sentence or source.passage


def text(answer: Answer, layout: Layout, before: Sequence[Passage] = (), *, anyway: str = ANYWAY, more: str | None = None) -> str:
    """Return the answer, the cited sources, the reasons to doubt it, and the places of the other sources, with a blank line
    between them.

    Without an answer, what is missing comes first. before: the passages of an earlier answer, if any. anyway, more: as of
    `Answer.notes`.
    """
    with_sources = layout.sources != "none"
    notes = layout.printed(Styled("\n".join(answer.notes(anyway=anyway, more=more, sources=with_sources))))
    shown = [*sources(answer, layout, before)] if with_sources else []
    others = [also_read(answer, layout, before)] if with_sources else []
    found = [notes, *shown] if answer.declined else [*shown, notes]
    return "\n\n".join(filter(None, [layout.printed(cited_answer(answer, sources=with_sources)), *found, *others]))


def cited_answer(answer: Answer, *, sources: bool = True) -> Styled:
    """Return the answer, bold: its head if confidence is low, then each sentence with the numbers of its sources."""
    styled = Styled().add(answer.head, BOLD)
    for piece, numbers in answer.pieces:
        styled.add(piece, BOLD).add(" " + "".join(f"[{number}]" for number in numbers) if sources and numbers else "")
    return styled


def sources(answer: Answer, layout: Layout, before: Sequence[Passage] = ()) -> Iterator[str]:
    """Yield the sources that are shown with their lines: those that the answer cites, or the closest passage, or all.

    The sentence that supports the answer is marked, and the words of it. before: as for `text`; other passages are marked as new.
    """
    for source in answer.sources:
        if not _is_shown(source, layout):
            continue
        named = layout.shown(source)
        is_closest = (
            source.shows in ("closest", "near") and answer.answered and layout.sources == "cited" and layout.context is not None
        )
        head = Styled(f"{answer.heading}: " if is_closest else f"[{source.number}] " if source.number else "")
        head.add(place(named), link=link(named) if layout.linked else "").add(source.remark(named))
        head.add(_NEW if _is_new(source.passage, before) else "")
        yield "\n".join([layout.printed(head, _MARGIN), *(_line(source, line, layout) for line in layout.lines(source))])


def also_read(answer: Answer, layout: Layout, before: Sequence[Passage] = ()) -> str:
    """Return the locations of the other sources, best first, on one line, and those of new passages on another; "" without
    any."""
    several = len({id(source.passage.document) for source in answer.sources}) > 1
    read: dict[bool, dict[str, Passage]] = {}
    for source in answer.sources:
        if not _is_shown(source, layout):
            name, unit, numbers = location(passage := layout.shown(source))
            of_one = f"{name}{' p. ' if unit.startswith('page') else ':'}{numbers}" if several else numbers
            read.setdefault(_is_new(source.passage, before), {}).setdefault(of_one, passage)
    lines = []
    for is_new, places in sorted(read.items()):
        units = "" if several else f"{unit.removesuffix('s')}s " if len(places) > 1 else f"{unit} "
        told = Styled().add(f"{'added' if is_new else 'also read'}: {units}", DIM)
        for i, (where, passage) in enumerate(places.items()):
            told.add(" · " if i else "", DIM).add(where, DIM, link=link(passage) if layout.linked else "")
        lines.append(layout.printed(told, _MARGIN))
    return "\n".join(lines)


def last_line(trace: Trace, device: str) -> str:
    """Return the last line: seconds, and how many samples agree.

    device: where the models ran, "" if none did.
    """
    seconds = sum(stage.seconds for stage in trace.stages)
    waited = f"{seconds:.0f} s" if seconds >= _LONG else f"{seconds:.1f} s"
    on = f" on {device}" if device else ""
    parts = ["cached answer (--refresh to ask again)" if "answer" in trace.cached else f"{waited}{on}", agreement(trace)]
    return " · ".join(filter(None, parts))


def summary(trace: Trace, device: str) -> str:
    """Return what each stage did, on one line. device: where the models ran, in detail, "" if none did."""
    stages = {stage.name: stage for stage in trace.stages}
    parts = [f"{len(trace.retrieved)} retrieved"] if trace.retrieved else []
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
    yield f"[{source.number}] {place(passage)}{by_ocr(passage)}"
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
    thought = f", {stage.reasoning_tokens:,} for reasoning" if stage.reasoning_tokens else ""
    return f"{stage.prompt_tokens - stage.cached_tokens:,} tokens read{thought}"


def _is_shown(source: Source, layout: Layout) -> bool:
    return bool(source.shows) or layout.sources == "all" or layout.context is None


def _is_new(passage: Passage, before: Sequence[Passage]) -> bool:
    read = any(each.position == passage.position and each.start < passage.end and passage.start < each.end for each in before)
    return bool(before) and not read


def _line(source: Source, line: Passage, layout: Layout) -> str:
    """Return a line of a source with its margin: the sentence bold or pointed at, if more is shown, and its words in color."""
    shown, points = Styled().add(line_text(line)), False
    if source.sentence and source.shows in ("best", "closest") and layout.context != 0:
        start, end = max(source.sentence.start, line.start), min(source.sentence.end, line.end)
        shown.style(start - line.start, end - line.start, BOLD)
        points = start < end and not layout.colored
    for start, end in source.marks if source.shows == "best" else ():
        shown.style(max(start, line.start) - line.start, min(end, line.end) - line.start, ACCENT)
    return (("  > " if points else _MARGIN) + shown.painted(colored=layout.colored)).rstrip()
