"""Renders an answer as a message of a chat: Markdown with footnotes, in pieces. Reads the answer out of such a message again.

Pages differ: some know footnotes, others print them as they stand. So a footnote is a paragraph of one line that no renderer
takes for anything else, above all not for the address of a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fbrag_cli.corpus import Passage
from fbrag_cli.render.answer_text import absent, answer_of, head_of, notes
from fbrag_cli.render.passages import also_in, place
from fbrag_cli.text.languages import codes, sentence
from fbrag_cli.text.markdown import escaped
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.spans import Span
from fbrag_cli.trace import Trace

_QUOTED = 300  # characters of a sentence in a footnote
_SHORT = 20  # characters of a sentence, which is quoted with what follows
_OPENS = re.compile(r"\\\[(?!\^)")  # a bracket without its other half links nothing; pages with formulas take "\\[" for one
_MARK = re.compile(r"(?<!\\)\[\^\d+\]")
_BESIDE = re.compile(r"\*[^*\s].*\*|(?<!\\)\[\^\d+\]: .*", re.DOTALL)  # a note, a footnote
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def pieces(trace: Trace, folder: str = "") -> Iterator[str]:
    """Yield an answer with its sources as Markdown: each sentence with the numbers of the sources that show it, the notes in
    emphasis, and for each source that is named a footnote with the sentence that shows the answer.

    Where no source shows it, or the document does not say, the nearest source is named. folder: left out at the beginning of
    places; with a slash at its end, or "" for none.
    """
    cited, said, at = trace.citations, answer_of(trace), 0
    if above := absent(trace):
        yield f"{_note(above)}\n\n"
    yield markup_free(head_of(trace))
    for claim in cited.claims:
        yield markup_free(said[at : claim.end]) + _marks(claim.sources, before=said[claim.end :])
        at = claim.end
    yield markup_free(said[at:])
    for note in notes(trace, cited, anyway=""):
        yield f"\n\n{_note(note)}"
    named = sorted({number for claim in cited.claims for number in claim.sources})
    if not named and cited.nearest:
        named = [cited.nearest]
        yield f"\n\n{_note('Closest:' if trace.status == 'not_found' or cited.unproved else 'Source:')}{_marks(named)}"
    for number in named:
        chunk, shown = trace.sources[number - 1], cited.shown[number - 1].sentence
        where = place(chunk, shown) + also_in(trace, chunk)
        where = markup_free(one_line(where.replace(folder, "") if folder else where))
        yield f"\n\n[^{number}]: {where} — “{markup_free(_quoted(chunk, shown))}”"  # without the dash, a link's address and title


def answer_in(message: str) -> str:
    """Return the answer in a message that `pieces` made, as its client sends it back; "" where the document does not say."""
    blocks = (block.strip() for block in message.split("\n\n"))
    said = "\n\n".join(block for block in blocks if not _BESIDE.fullmatch(_closed(block)))
    said = _ESCAPE.sub(r"\1", _MARK.sub("", said)).strip()
    for head in {sentence(each, "not_sure") for each in codes()}:
        said = said.removeprefix(head).strip()
    return "" if said in {sentence(each, "not_found") for each in codes()} else said


def markup_free(text: str) -> str:
    """Return text of a document or a model for Markdown, so that nothing of it is markup, whatever stands around it."""
    return _OPENS.sub("[", escaped(text))


def _closed(block: str) -> str:
    """Return a block without the marks at its end."""
    while block.endswith("]") and (mark := _MARK.search(block, max(0, block.rfind("[")))) and mark.end() == len(block):
        block = block[: mark.start()]
    return block


def _note(text: str) -> str:
    return f"*{markup_free(one_line(text))}*"


def _marks(numbers: Sequence[int], before: str = "") -> str:
    """Return the marks of footnotes. before: the text that follows, of which nothing makes a link of a mark."""
    marks = "".join(f"[^{number}]" for number in numbers)
    return f"{marks} " if marks and before.startswith(("(", "[", ":")) else marks


def _quoted(chunk: Passage, shown: Span | None) -> str:
    start, end = shown or (0, len(chunk.text))
    return one_line(chunk.text[start : end if end - start >= _SHORT else len(chunk.text)], _QUOTED)
