"""Renders the answer and its sources as terminal text and as Markdown. The text is the same with and without colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fbrag_cli.citations import Citations, Shown
from fbrag_cli.corpus import Passage
from fbrag_cli.render.passages import (
    LONGEST_LINE,
    Line,
    also_in,
    in_part,
    link,
    passage,
    place,
    said_from,
    scored_source,
    shown_lines,
)
from fbrag_cli.text.languages import detect, sentence, stop_words
from fbrag_cli.text.markdown import escaped, escaped_line
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.table import width_of
from fbrag_cli.text.terminal import ACCENT, BOLD, DIM, Styled, beginning
from fbrag_cli.text.words import word_spans
from fbrag_cli.trace import Stage, Trace

#: Where no text of the document was read.
OWN_KNOWLEDGE = "from the model's own knowledge, not from the document"
#: How the command line gives an answer that the chunks do not show.
ANYWAY = " (--answer-anyway gives it)"
#: Where an answer was given, and no sentence earns a citation.
UNPROVED = "no sentence of the sources shows this"

_MARGIN = "    "  # before a line of a source
_LEAST = 20  # columns of such a line in the narrowest terminal
_PROPOSED = 200  # characters of an answer that the chunks do not show
_ONE_LINE = 60  # columns of a source that is not shown in full: a line on a narrow terminal
_BEGINNING = 30  # columns at least of the beginning of its sentence
_SAID = 60  # characters of the answer of a sample
_NAMED = 8  # words that are named
_SCRIPT_SHOWS = ("el", "ja", "ko", "zh")  # languages that a question's script shows
_CERTAIN = 2  # function words of another language in a question, for the question to be in it


def answer_of(trace: Trace) -> str:
    """Return the answer as it is printed."""
    if trace.status == "not_found":
        return sentence(_asked_in(trace.question), "not_found")
    return printable(trace.answer or "")


def text(trace: Trace, cited: Citations | None, layout: Layout, before: Sequence[Passage] = ()) -> str:
    """Return the answer with its notes and its sources, a blank line between them; `cited` is None for no sources.

    The words that stand nowhere come first. before: what an earlier answer was from, where there was one.
    """
    parts = Styled(absent(trace)), cited_answer(trace, cited), Styled("\n".join(notes(trace, cited)))
    blocks = [layout.printed(part) for part in parts if part.text]
    return "\n\n".join([*blocks, *([sources(trace, cited, layout, before)] if cited and cited.shown else [])])


def cited_answer(trace: Trace, cited: Citations | None) -> Styled:
    """Return the answer, bold: its head if it is unsure, then each sentence with the numbers of the sources that show it."""
    answer, said, at = Styled().add(head_of(trace), BOLD), answer_of(trace), 0
    for claim in cited.claims if cited else ():
        answer.add(printable(said[at : claim.end]), BOLD).add(_text_marks(claim.sources))
        at = claim.end
    return answer.add(printable(said[at:]), BOLD)


def notes(trace: Trace, cited: Citations | None, anyway: str = ANYWAY) -> Iterator[str]:
    """Yield a line for an answer that is not from the document, one for the model's answer where the document does not say it,
    one for an answer that no sentence shows, and one for the answer's words in no source.

    anyway: follows an answer that the document does not say.
    """
    if not trace.from_document:
        yield f"The answer is {OWN_KNOWLEDGE}."
    if trace.verdict.unsure and (said := proposals(trace)):
        yield f"The looks ahead said: {said}"
    if trace.status == "not_found" and trace.answer:
        yield f"Proposed, but not shown by the chunks: {one_line(trace.answer, _PROPOSED)}{anyway}"
    if cited and cited.unproved:
        yield UNPROVED
    if cited and cited.unseen:
        yield f"in no source: {_first(cited.unseen)}"


def absent(trace: Trace) -> str:
    """Return the words of the question that stand nowhere in what was read, in a sentence to print above the answer; "" without
    any."""
    where = "document" if len(trace.corpus.documents) == 1 else "documents"
    verb = "stands" if len(trace.absent) == 1 else "stand"
    return f"{_first(trace.absent)} {verb} nowhere in the {where}" if trace.absent else ""


def _first(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return one_line(", ".join(words[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def head_of(trace: Trace) -> str:
    """Return what stands before an unsure answer; "" before another one."""
    return f"{sentence(_asked_in(trace.question), 'not_sure')} " if trace.verdict.unsure else ""


def _asked_in(question: str) -> str:
    """Return the language of a question; "en" where another one is uncertain."""
    language = detect(question)
    if language in _SCRIPT_SHOWS:
        return language
    words = [question[start:end].strip(".,;:!?¿¡«»“”\"'()؟।").casefold() for start, end in word_spans(question)]
    found, english = (sum(word in stop_words(each) for word in words) for each in (language, "en"))
    return language if found >= _CERTAIN and found > english else "en"


def proposals(trace: Trace) -> str:
    """Return the answers of the forward samples, each once, in a line; "" without any."""
    said = dict.fromkeys(one_line(sample.answer, _SAID).rstrip(".") for sample in trace.samples if sample.answer)
    return "; ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How much of each source is shown, and how: `context` lines around the sentence, or the `full` chunk.

    every: whether all sources have their lines, not the cited ones alone. columns: of the terminal; None off one. linked: whether
    places are links.
    """

    context: int
    full: bool = False
    every: bool = False
    colored: bool = False
    linked: bool = False
    columns: int | None = None

    def printed(self, styled: Styled, margin: str = "") -> str:
        """Return a text as it is printed, in lines that fit."""
        return "\n".join(styled.lines(self.columns, margin=margin, colored=self.colored, linked=self.linked))

    def lines(self, chunk: Passage, shown: Shown) -> list[Line]:
        width = LONGEST_LINE if self.columns is None else max(_LEAST, min(self.columns - len(_MARGIN), LONGEST_LINE))
        return shown_lines(chunk, width, None if self.full else passage(chunk, shown.sentence, self.context))

    def place(self, chunk: Passage, shown: Shown) -> str:
        return place(chunk, None if self.full else shown.sentence)

    def link(self, chunk: Passage, shown: Shown) -> str:
        return link(chunk, None if self.full else shown.sentence) if self.linked else ""


def sources(trace: Trace, cited: Citations, layout: Layout, before: Sequence[Passage] = ()) -> str:
    """Return what was read: the cited sources with their lines, then a line for each other one, best first.

    Where none is cited, the one that is nearest has its lines. The sentence of a cited source is marked, and what shows the
    answer in it; where the document does not say, the sentence that is nearest. before: as for `text`; what has no part of it is
    marked as new.
    """
    named = {number for claim in cited.claims for number in claim.sources}
    declined = trace.status == "not_found"
    with_lines = named or {cited.nearest}
    evidence = with_lines if named or declined else set()
    in_full, others = [], []
    for number, (chunk, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        head = Styled().add(f"[{number}] ").add(layout.place(chunk, shown), link=layout.link(chunk, shown))
        news = _news(chunk, before)
        if number in with_lines or layout.every or layout.full:
            head.add(also_in(trace, chunk)).add(f"   {scored_source(trace, chunk)}", DIM).add(news)
            marked = Shown(shown.sentence if number in evidence else None, shown.marks if number in named else ())
            lines = [_line(chunk, marked, line, layout) for line in layout.lines(chunk, shown)]
            in_full.append("\n".join([layout.printed(head, _MARGIN), *lines]))
        else:
            room = max(_BEGINNING, _ONE_LINE - width_of(head.text) - len(news) - 2)
            head.add(f"{news}  {beginning(said_from(chunk, shown.sentence), room)}")
            head.style(0, len(head.text), DIM)
            others.append(layout.printed(head, _MARGIN))
    in_full[:1] = [f"{'Closest' if declined or cited.unproved else 'Sources'}:\n{in_full[0]}"]
    return "\n\n".join([*in_full, *(["\n".join(others)] if others else [])])


def markdown(trace: Trace, cited: Citations | None, layout: Layout, mark: str = "") -> str:
    """Return the answer as Markdown, with every selected chunk as a footnote; `cited` is None for the answer alone.

    Each sentence refers to the chunks that show it. A line refers to all others, since Markdown omits notes without a reference.
    mark: stands before the number of each footnote, where a file has the notes of several answers.
    """
    if cited is None:
        return escaped(answer_of(trace))
    named = {number for claim in cited.claims for number in claim.sources}
    others = [number for number in range(1, len(cited.shown) + 1) if number not in named]
    what = "Closest" if trace.status == "not_found" else "Other sources" if named else "Sources"
    parts = [
        *filter(None, [escaped_line(absent(trace))]),
        escaped(head_of(trace)) + _with_marks(answer_of(trace), cited, partial(_footnote_marks, mark), escaped),
        *map(escaped_line, notes(trace, cited)),
    ]
    parts += [f"{what}: {_footnote_marks(mark, others)}"] if others else []
    for number, (chunk, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        lines = (_plain(chunk, line) for line in layout.lines(chunk, shown))
        quoted = "\n".join(f"    > {escaped_line(line)}".rstrip() for line in lines)
        where = escaped(layout.place(chunk, shown) + also_in(trace, chunk))
        parts.append(f"[^{mark}{number}]: {where}, {scored_source(trace, chunk)}\n\n{quoted}")
    return "\n\n".join(parts)


def summary(trace: Trace, device: str) -> str:
    """Return what happened, on one line. device: where the models ran, "" where none did."""
    stages = {stage.name: stage for stage in trace.stages}
    parts = [f"{len(trace.recalled)} recalled"] if trace.recalled else []
    if forward := stages.get("forward"):
        cost = "from the cache" if "samples" in trace.cached else f"in {forward.seconds:.1f} s ({_read(forward)})"
        parts.append(f"{counted(len(trace.samples), 'sample')} {cost}")
    if in_part(trace):
        words = counted(sum(excerpt.n_words for excerpt in trace.context), "word")
        parts.append(f"{words} of {counted(len(trace.selected), 'chunk')} read")
    else:
        parts.append(f"{len(trace.selected) or 'none'} selected")
    if answer := stages.get("answer"):
        cached = "answer" in trace.cached
        parts.append("answer from the cache" if cached else f"answered in {answer.seconds:.1f} s ({_read(answer)})")
    if trace.verdict.agreement is not None:
        n = len(trace.samples)
        parts.append(f"{round(trace.verdict.agreement * n)} of {counted(n, 'sample')} agree")
    parts += (f"{name}: {value}" for name, value in trace.facts.items())
    if trace.answer is not None and not trace.from_document:
        parts.append(OWN_KNOWLEDGE)
    what = f"{counted(len(trace.corpus.chunks), 'chunk')}: {', '.join(parts)}"
    return f"{what} · {device}" if device else what


def _read(stage: Stage) -> str:
    thought = f", {stage.thought_tokens:,} of thought" if stage.thought_tokens else ""
    return f"{stage.prompt_tokens - stage.cached_tokens:,} tokens read{thought}"


def _text_marks(numbers: Sequence[int]) -> str:
    return " " + "".join(f"[{number}]" for number in numbers) if numbers else ""


def _footnote_marks(mark: str, numbers: Sequence[int]) -> str:
    return "".join(f"[^{mark}{number}]" for number in numbers)


def _with_marks(
    answer: str, cited: Citations | None, marks: Callable[[Sequence[int]], str], written: Callable[[str], str]
) -> str:
    """Return the answer, as `written` gives it, with the marks of each sentence at its end."""
    pieces, at = [], 0
    for claim in cited.claims if cited else ():
        pieces += [written(answer[at : claim.end]), marks(claim.sources)]
        at = claim.end
    return "".join([*pieces, written(answer[at:])])


def _news(chunk: Passage, before: Sequence[Passage]) -> str:
    read = any(each.position == chunk.position and each.start < chunk.end and chunk.start < each.end for each in before)
    return " (new)" if before and not read else ""


def _plain(chunk: Passage, line: Line) -> str:
    return printable(chunk.text[line.start : line.end]).replace("\n", " ")  # a line that only a width has cut goes on


def _line(chunk: Passage, marked: Shown, line: Line, layout: Layout) -> str:
    """Return a line of a source with its margin: the marked sentence bold, or pointed at, and the marked words in colour."""
    shown = Styled().add(_plain(chunk, line))
    within = [(max(start, line.start), min(end, line.end)) for start, end in (marked.sentence or (0, 0), *marked.marks)]
    for (start, end), style in zip(within, [BOLD, *(ACCENT for _ in marked.marks)], strict=True):
        shown.style(start - line.start, end - line.start, style)
    points = within[0][0] < within[0][1] and not layout.colored
    return (("  > " if points else _MARGIN) + shown.painted(colored=layout.colored)).rstrip()
