"""Draws an `Answer` as Markdown: with a footnote for each source, or as a chat message, from which the answer can be read
again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fbrag_cli.render.answer import Answer
from fbrag_cli.render.passages import line_text, place, said_from
from fbrag_cli.render.text import Layout
from fbrag_cli.text.languages import codes, sentence
from fbrag_cli.text.markdown import escaped, escaped_line
from fbrag_cli.text.printable import one_line

_QUOTED = 300  # characters of a sentence in a footnote
_OPENS = re.compile(r"\\\[(?!\^)")  # a bracket without its other half links nothing; pages with formulas take "\\[" for one
_MARK = re.compile(r"(\\.)|\[\^[\d-]+\]", re.DOTALL)  # or an escaped character, which is none
_FOOTNOTE = re.compile(r"\[\^\d+\]: ")
_NOTE = re.compile(r"\*[^*\s].*\*", re.DOTALL)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def markdown(answer: Answer, layout: Layout, prefix: str = "") -> str:
    """Return the answer as Markdown, with every source as a footnote; without sources the answer alone.

    Each sentence refers to the sources that show it. A line refers to all others, since Markdown omits notes without a reference.
    prefix: precedes the number of each footnote, for a file with the notes of several answers.
    """
    if layout.sources == "none":
        return escaped(answer.text)

    def marks(numbers: Sequence[int | None]) -> str:
        return "".join(f"[^{prefix}{number}]" for number in numbers)

    others = [source.number for source in answer.sources if source.number not in answer.cited]
    parts = [
        escaped(answer.head) + "".join(escaped(piece) + marks(numbers) for piece, numbers in answer.pieces),
        *map(escaped_line, answer.notes(anyway="", more="") if prefix else answer.notes()),
    ]
    parts += [f"{'Other sources' if answer.cited else answer.heading}: {marks(others)}"] if others else []
    for source in answer.sources:
        lines = (escaped_line(line_text(line)) for line in layout.lines(source))
        quoted = "\n".join(f"    > {line}".rstrip() for line in lines)
        shown = layout.shown(source)
        where = escaped(place(shown) + source.remark(shown))
        parts.append(f"[^{prefix}{source.number}]: {where}\n\n{quoted}")
    return "\n\n".join(parts)


def section(answer: Answer, layout: Layout, number: int) -> str:
    """Return a question of a conversation as a heading, and its answer with its sources as footnotes.

    number: of the question in the conversation, part of the footnotes' names.
    """
    return f"## {escaped_line(one_line(answer.question))}\n\n{markdown(answer, layout, f'{number}-')}"


def questions_in(text: str) -> list[tuple[str, str]]:
    """Return the questions in a file of sections, each with the first paragraph of its answer; "" if the document had none."""
    sections = (part.partition("\n") for part in re.split("^## ", text, flags=re.MULTILINE)[1:])
    return [(_ESCAPE.sub(r"\1", heading).strip(), answer_in(rest.strip().partition("\n\n")[0])) for heading, _, rest in sections]


def chat_message(answer: Answer, folder: str = "") -> Iterator[str]:
    """Yield a message of a chat, in pieces: each sentence with the numbers of the sources that show it, the notes in emphasis,
    and for each source that is named a footnote with the sentence that shows the answer.

    If no source shows it, or the document has no answer, the nearest source is named. Some pages print footnotes as plain text:
    each is a paragraph of one line that no renderer takes for anything else, above all not for the address of a link. folder: is
    left out at the beginning of places; with a slash at its end, or "" for none.
    """
    end = 0
    for piece, numbers in answer.pieces:
        end += len(piece)
        yield markup_free(piece) + _marks(numbers, before=answer.text[end:])
    for note in filter(None, [answer.head.strip(" :："), *answer.notes(anyway="", more="")]):
        yield f"\n\n{_note(note)}"
    named = [source for source in answer.sources if source.shows]
    if named and not answer.cited:
        yield f"\n\n{_note(f'{answer.heading}:')}{_marks([named[0].number])}"
    for source in named:
        shown = source.sentence or source.passage
        where = place(shown) + source.remark(shown)
        where = markup_free(one_line(where.replace(folder, "") if folder else where))
        quoted = markup_free(said_from(source.passage, source.sentence, _QUOTED))
        yield f"\n\n[^{source.number}]: {where} — “{quoted}”"  # without the dash, a link's address and title


def answer_in(message: str) -> str:
    """Return the answer in a message of `chat_message` that a client sends back; "" if the document had no answer."""
    blocks = (block.strip() for block in message.split("\n\n"))
    unmarked = (_MARK.sub(r"\1", block).strip() for block in blocks if not _FOOTNOTE.match(block))
    said = _ESCAPE.sub(r"\1", "\n\n".join(block for block in unmarked if not _NOTE.fullmatch(block))).strip()
    return "" if said in {sentence(each, "not_found") for each in codes()} else said


def markup_free(text: str) -> str:
    """Return text of a document or a model for Markdown, so that none of it is markup, whatever is around it."""
    return _OPENS.sub("[", escaped(text))


def _note(text: str) -> str:
    return f"*{markup_free(one_line(text))}*"


def _marks(numbers: Sequence[int | None], before: str = "") -> str:
    """Return the marks of footnotes. before: the text that follows, of which nothing makes a link of a mark."""
    marks = "".join(f"[^{number}]" for number in numbers)
    return f"{marks} " if marks and before.startswith(("(", "[", ":")) else marks
