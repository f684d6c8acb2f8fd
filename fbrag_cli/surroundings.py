"""What is read with a passage from elsewhere in its document: the head of its mail, the headings above it, notes, spelt-out
names.

Their terms count as terms of the passage, and not in its length. Prompts have the head once for each mail, the headings once for
each section, and a note behind the passage that has its mark.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fbrag_cli.documents.document import Content, Document, Section
from fbrag_cli.documents.lines import section_of
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.spans import Span

_LONGEST = 200  # characters of a line above a passage
_LONGEST_NOTE = 600
_MAILS = ("message/rfc822", "application/mbox")
_HEAD = re.compile(r"^(?:(?:From|To|Cc|Date|Subject): [^\n]*\n){2,}", re.MULTILINE)
_TOLD = re.compile(r"^(?:From|Date|Subject): [^\n]*", re.MULTILINE)
# A mark is behind a word or a sentence, not behind a letter of a formula. A note begins a line.
_MARK = re.compile(r"(?:(?<=\w\w)|(?<=[.,;:!?)\]”\"'’»]))\^(\d{1,3})(?!\w)|\[\^(\w{1,20})\](?!:)")
_NOTE = re.compile(r"^[ \t]*(?:\^?(\d{1,3})[.)]?|\[\^(\w{1,20})\]:)[ \t]+(\S[^\n]*)", re.MULTILINE)
_BRACKETS = re.compile(r"\(([^()\n]{2,100})\)")
_SHORT = re.compile(r"[^\W_](?:[^\W_]|[&-]){1,9}")
_MOST_NAMES = 200  # of a document
_BEFORE = 160  # characters before letters in brackets, in which the long form is


@dataclass(frozen=True, slots=True)
class Around:
    """heads: (start, end) of the heads of mails. notes: for the place of each mark, (start, end) of its note. names: letters,
    each with the words for which they are used."""

    heads: tuple[Span, ...] = ()
    notes: tuple[tuple[int, Span], ...] = ()
    names: tuple[tuple[str, str], ...] = field(default=())


def head_of(document: Document, start: int) -> str:
    """Return the sender, the date and the subject of the mail in which `start` (characters) is, below its head; else ""."""
    heads = around(document).heads
    before = bisect_right(heads, start, key=lambda head: head[0])
    if not before or start < heads[before - 1][1]:
        return ""
    return one_line(", ".join(_TOLD.findall(document.text[slice(*heads[before - 1])])), _LONGEST)


def headings_of(document: Document, start: int, end: int) -> list[str]:
    """Return the headings above `text[start:end]`, the outermost first, without one that is over half of the document."""
    last = section_of(document, start, min(start + 1, end))
    above: list[Section] = []
    for section in reversed(
        document.sections[: bisect_right(document.sections, start, key=lambda each: each.start)] if last else ()
    ):
        if not above or section.level < above[-1].level:
            above.append(section)
            if section.level <= 1:
                break
    return [one_line(each.title, _LONGEST) for each in reversed(above) if each.start < start and not _is_main(document, each)]


def notes_of(document: Document, start: int, end: int) -> list[str]:
    """Return the notes that marks in `text[start:end]` point to and that are elsewhere, each with its mark."""
    notes = around(document).notes
    own = notes[bisect_left(notes, start, key=_place) : bisect_left(notes, end, key=_place)]
    text = document.text
    return [one_line(text[slice(*note)], _LONGEST_NOTE) for _, note in own if not start <= note[0] < end]


def names_in(document: Document) -> tuple[tuple[str, str], ...]:
    """Return the letters that a document explains once, each with the words for which they are used."""
    return around(document).names


def _place(note: tuple[int, Span]) -> int:
    return note[0]


def _is_main(document: Document, section: Section) -> bool:
    at = bisect_left(document.sections, section.start, key=lambda each: each.start)
    following = (each.start for each in document.sections[at + 1 :] if each.level <= section.level)
    return 2 * (next(following, document.n_chars) - section.start) > document.n_chars


def around(document: Document) -> Around:
    """Return what is around the passages of a document, computed once."""
    return document.content().once(_around, document.media_type in _MAILS)


def _around(content: Content, is_mail: bool) -> Around:
    text = content.text
    heads = tuple(found.span() for found in _HEAD.finditer(text)) if is_mail else ()
    return Around(heads, tuple(_notes(text)) if "^" in text else (), tuple(_names(text)) if "(" in text else ())


def _notes(text: str) -> Iterator[tuple[int, Span]]:
    """Yield each mark of a note with the place of its note: there are as many notes of a number as marks, or one, or one before
    the next mark of it. Of the numbers from 1 on, a third or more are marks: "km^2" is none."""
    marks, notes = defaultdict[str, list[int]](list), defaultdict[str, list[Span]](list)
    for match in _MARK.finditer(text):
        marks[match[1] or "^" + match[2]].append(match.start())
    for match in _NOTE.finditer(text) if marks else ():
        if (number := match[1] or "^" + match[2]) in marks and match.start() > marks[number][0]:
            notes[number].append((match.start(), match.end()))
    numbers = sorted(int(number) for number in marks if number[0] != "^")
    last = max((number for i, number in enumerate(numbers, 1) if numbers[0] == 1 and 3 * i >= number), default=0)
    paired = []
    for number, places in marks.items():
        own = notes[number]
        if number[0] != "^" and int(number) > last:
            continue
        for i, place in enumerate(places):
            if len(own) == len(places):
                paired.append((place, own[i]))
            else:
                near = [note for note in own if place < note[0] < (places[i + 1] if i + 1 < len(places) else len(text))]
                if len(own) == 1 or len(near) == 1:
                    paired.append((place, (own if len(own) == 1 else near)[0]))
    yield from sorted(paired)


def _names(text: str) -> Iterator[tuple[str, str]]:
    """Yield letters, each with the words that they begin (Schwartz and Hearst, 2003): one of both is in brackets."""
    names = dict[str, str]()
    for match in _BRACKETS.finditer(text):
        before, inside = text[max(0, match.start() - _BEFORE) : match.start()], match[1].split()
        [letters] = inside if len(inside) == 1 else before.rsplit(None, 1)[-1:] or [""]
        if len(names) == _MOST_NAMES or not _SHORT.fullmatch(letters) or sum(map(str.isupper, letters)) < 2:
            continue
        long = _long_form(letters, before.split() if len(inside) == 1 else inside)
        if long and (len(inside) == 1 or long == inside):
            names.setdefault(letters, " ".join(long))
    yield from names.items()


def _long_form(letters: str, words: Sequence[str]) -> Sequence[str]:
    """Return the shortest run of words at the end of `words` that begin with the letters in their order; else none."""
    sought = [letter.casefold() for letter in letters if letter.isalnum()]
    most = min(len(sought) + 5, 2 * len(sought))  # words, as in the paper
    for at in range(len(words) - 1, max(-1, len(words) - most - 1), -1):
        for part in reversed(re.split("[-/]", words[at])):
            if part[:1].casefold() == sought[-1]:
                sought.pop()
            if not sought:
                return words[at:]
    return []
