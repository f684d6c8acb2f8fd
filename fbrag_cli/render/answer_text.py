"""Renders the answer and its sources as terminal text and as Markdown. The text is the same with and without colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fbrag_cli.citations import Citations, Shown
from fbrag_cli.corpus import Chunk, Excerpt
from fbrag_cli.render.passages import LONGEST_LINE, Line, also_in, around, in_part, place, scored_source, shown_lines
from fbrag_cli.text.languages import detect, sentence, stop_words
from fbrag_cli.text.markdown import escaped, escaped_line
from fbrag_cli.text.printable import counted, one_line, printable
from fbrag_cli.text.spans import Span
from fbrag_cli.text.words import word_spans
from fbrag_cli.trace import Stage, Trace

#: Where no text of the document was read.
OWN_KNOWLEDGE = "from the model's own knowledge, not from the document"
#: Where an answer was given, and no sentence earns a citation.
UNPROVED = "no sentence of the sources shows this"

_MARGIN = 4  # columns before a line of a source
_LEAST = 20  # columns of such a line in the narrowest terminal
_PROPOSED = 200  # characters of an answer that the chunks do not show
_IN_FULL = 5  # sources with their lines, whether they are cited or not
_BEGINNING = 60  # characters of the sentence of another source
_SAID = 60  # characters of the answer of a sample
_NAMED = 8  # words that are named
_SCRIPT_SHOWS = ("el", "ja", "ko", "zh")  # languages that a question's script shows
_CERTAIN = 2  # function words of another language in a question, for the question to be in it
_NAME, _WORD, _BOLD, _END = "\x1b[33m", "\x1b[1;33m", "\x1b[1m", "\x1b[0m"


def answer_of(trace: Trace) -> str:
    """Return the answer as it is printed."""
    if trace.status == "not_found":
        return sentence(_asked_in(trace.question), "not_found")
    return printable(trace.answer or "")


def cited_answer(trace: Trace, cited: Citations | None) -> str:
    """Return the answer as it is printed: its head if it is unsure, each sentence with the numbers of sources that show it."""
    return head_of(trace) + _with_marks(answer_of(trace), cited, _text_marks, printable)


def notes(trace: Trace, cited: Citations | None) -> Iterator[str]:
    """Yield a line for an answer that is not from the document, one for the model's answer where the document does not say it,
    one for an answer that no sentence shows, and one for the answer's words in no source."""
    if not trace.from_document:
        yield f"The answer is {OWN_KNOWLEDGE}."
    if trace.unsure and (said := proposals(trace)):
        yield f"The looks ahead said: {said}"
    if trace.status == "not_found" and trace.answer:
        yield f"Proposed, but not shown by the chunks: {one_line(trace.answer, _PROPOSED)} (--answer-anyway gives it)"
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
    return f"{sentence(_asked_in(trace.question), 'not_sure')} " if trace.unsure else ""


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


@dataclass(frozen=True, slots=True)
class Layout:
    """How much of each source is shown, and how: `context` lines around the sentence, or the `full` chunk.

    columns: of the terminal; None off one.
    """

    context: int
    full: bool = False
    colored: bool = False
    columns: int | None = None

    @property
    def width(self) -> int:
        """Columns of a line of a source."""
        return LONGEST_LINE if self.columns is None else max(_LEAST, min(self.columns - _MARGIN, LONGEST_LINE))

    def lines(self, chunk: Chunk, shown: Shown) -> list[Line]:
        lines = shown_lines(chunk, self.width)
        return lines if self.full else around(lines, shown.sentence, self.context)

    def place(self, chunk: Chunk, shown: Shown) -> str:
        return place(chunk, None if self.full else shown.sentence)


def sources(trace: Trace, cited: Citations, layout: Layout, before: Sequence[Excerpt] = ()) -> str:
    """Return what was read, best first: place, score, and the sentence that shows the answer best.

    Those that are cited and the best five have their lines, each other one the beginning of its sentence. before: what an earlier
    answer was from, where there was one; what has no part of it is marked as new.
    """
    colored = layout.colored
    blocks = ["Closest:" if trace.status == "not_found" else "Sources:"]
    named = {number for claim in cited.claims for number in claim.sources}
    for number, (chunk, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        where = layout.place(chunk, shown)
        if number > _IN_FULL and number not in named and not layout.full:
            start, end = shown.sentence or (0, len(chunk.text))
            blocks.append(f"[{number}] {where}{_news(chunk, before)}  {one_line(chunk.text[start:end], _BEGINNING)}")
            continue
        head = f"[{number}] {_BOLD}{where}{_END}" if colored else f"[{number}] {where}"
        blocks.append(f"{head}{also_in(trace, chunk)}   {scored_source(trace, chunk)}{_news(chunk, before)}")
        for line in layout.lines(chunk, shown):
            margin = "  > " if _overlaps(line, shown.sentence) and not colored else "    "
            blocks.append((margin + (_colored(chunk, shown, line) if colored else _plain(chunk, line))).rstrip())
    return "\n".join(blocks)


def markdown(trace: Trace, cited: Citations | None, layout: Layout) -> str:
    """Return the answer as Markdown, with every selected chunk as a footnote; `cited` is None for the answer alone.

    Each sentence refers to the chunks that show it. A line refers to all others, since Markdown omits notes without a reference.
    """
    if cited is None:
        return escaped(answer_of(trace))
    named = {number for claim in cited.claims for number in claim.sources}
    others = [number for number in range(1, len(cited.shown) + 1) if number not in named]
    what = "Closest" if trace.status == "not_found" else "Other sources" if named else "Sources"
    parts = [
        *filter(None, [escaped_line(absent(trace))]),
        escaped(head_of(trace)) + _with_marks(answer_of(trace), cited, _footnote_marks, escaped),
        *map(escaped_line, notes(trace, cited)),
    ]
    parts += [f"{what}: {_footnote_marks(others)}"] if others else []
    for number, (chunk, shown) in enumerate(zip(trace.sources, cited.shown, strict=True), 1):
        lines = (_plain(chunk, line) for line in layout.lines(chunk, shown))
        quoted = "\n".join(f"    > {escaped_line(line)}".rstrip() for line in lines)
        where = escaped(layout.place(chunk, shown) + also_in(trace, chunk))
        parts.append(f"[^{number}]: {where}, {scored_source(trace, chunk)}\n\n{quoted}")
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
    if trace.agreement is not None:
        n = len(trace.samples)
        parts.append(f"{round(trace.agreement * n)} of {counted(n, 'sample')} agree")
    parts += (f"{name}: {value}" for name, value in trace.facts.items())
    if trace.answer is not None and not trace.from_document:
        parts.append(OWN_KNOWLEDGE)
    what = f"{counted(len(trace.corpus.chunks), 'chunk')}: {', '.join(parts)}"
    return f"{what} · {device}" if device else what


def _read(stage: Stage) -> str:
    return f"{stage.prompt_tokens - stage.cached_tokens:,} tokens read"


def _text_marks(numbers: Sequence[int]) -> str:
    return " " + "".join(f"[{number}]" for number in numbers) if numbers else ""


def _footnote_marks(numbers: Sequence[int]) -> str:
    return "".join(f"[^{number}]" for number in numbers)


def _with_marks(
    answer: str, cited: Citations | None, marks: Callable[[Sequence[int]], str], written: Callable[[str], str]
) -> str:
    """Return the answer, as `written` gives it, with the marks of each sentence at its end."""
    pieces, at = [], 0
    for claim in cited.claims if cited else ():
        pieces += [written(answer[at : claim.end]), marks(claim.sources)]
        at = claim.end
    return "".join([*pieces, written(answer[at:])])


def _overlaps(line: Line, span: Span | None) -> bool:
    return span is not None and line.start < span[1] and span[0] < line.end


def _news(chunk: Chunk, before: Sequence[Excerpt]) -> str:
    read = any(each.chunk.position == chunk.position and each.start < chunk.end and chunk.start < each.end for each in before)
    return " (new)" if before and not read else ""


def _plain(chunk: Chunk, line: Line) -> str:
    return printable(chunk.text[line.start : line.end]).replace("\n", " ")  # a line that only a width has cut goes on


def _colored(chunk: Chunk, shown: Shown, line: Line) -> str:
    """Return a line with the best sentence in bold and the marked words in colour."""
    text = _plain(chunk, line)
    first, last = shown.sentence or (0, 0)
    marks = [(max(start, line.start), min(end, line.end)) for start, end in shown.marks if start < line.end and line.start < end]
    within_line = [edge for edge in (first, last) if line.start < edge < line.end]
    edges = sorted({line.start, line.end, *within_line, *(edge for mark in marks for edge in mark)})
    pieces = []
    for start, end in pairwise(edges):
        within, marked = first <= start < last, any(begin <= start < stop for begin, stop in marks)
        style = (_WORD if within else _NAME) if marked else _BOLD if within else ""
        piece = text[start - line.start : end - line.start]
        pieces.append(f"{style}{piece}{_END}" if style else piece)
    return "".join(pieces)
