"""Find the place of a document that a question names: "on page 3", "in section 4.2", "auf Seite 3", "第3页"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal

from fbrag_cli.documents.document import Document
from fbrag_cli.text.languages import codes, place_words
from fbrag_cli.text.spans import Span

_KINDS: tuple[Literal["page"], Literal["section"]] = ("page", "section")
_DIGITS, _ROMAN = r"\d{1,4}(?:\.\d{1,3}){0,5}", r"(?:[IVXLC]{1,7}|[ivx]{2,7})"
_NUMBER = rf"(?:{_DIGITS}|{_ROMAN})(?!\w|\.\d)"
_ASKED = rf"(?!I\b){_NUMBER}"  # as in "the part I like"
_TITLE = re.compile(rf"[\W_]*(?:[^\W\d_]+\.?\s+|第\s*)?({_NUMBER}|\d{{1,4}}(?=[章节節条條]))")
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_AFTER = 2000  # characters that are read from a heading that no reader has marked
_MOST = 3  # such headings: a table of contents has them too


def names_a_place(question: str) -> bool:
    """Return whether a question names a page or a section by its number."""
    return _pattern().search(question) is not None


def named_places(question: str, document: Document) -> Iterator[Span]:
    """Yield (start, end), in characters, of each page, slide, chapter or section of a document that a question names."""
    for match in _pattern().finditer(question):
        number = _value(match["number"] or match["chinese"])
        is_page = match["page"] or match["chinese_page"]
        if is_page and document.pages:
            yield from _pages(document, match["number"] or match["chinese"])
        elif document.sections:
            yield from _sections(document, number)
        elif not is_page:
            yield from _headings(document.text, number)


def _pages(document: Document, number: str) -> Iterator[Span]:
    """Yield the pages with this printed number, or else the pages of this number in the file."""
    printed = [(page.label or str(page.number)).casefold() for page in document.pages]
    sheets = [str(page.number) for page in document.pages]
    for names, wanted in ((printed, number.casefold()), (printed, _value(number)), (sheets, _value(number))):
        if wanted in names:
            yield from ((page.start, page.end) for page, name in zip(document.pages, names, strict=True) if name == wanted)
            return


def _sections(document: Document, number: str) -> Iterator[Span]:
    """Yield the sections of this number, each with those below it."""
    sections = document.sections
    for i, section in enumerate(sections):
        title = _TITLE.match(section.title)
        if title and _value(title[1]) == number:
            following = (each.start for each in sections[i + 1 :] if each.level <= section.level)
            yield section.start, next(following, document.n_chars)


def _headings(text: str, number: str) -> Iterator[Span]:
    """Yield what follows the lines that look like a heading of this number, of a text whose headings nothing marks; the last
    ones, as the first may be a table of contents."""
    word, rest = r"(?:[^\W\d_]+\.?[ \t]+|§[ \t]*)?", r"(?:[ \t:]+(?![a-z])[^\n]{0,80})?"
    lines = re.compile(rf"^[ \t]*{word}{re.escape(number)}\.?{rest}$", re.MULTILINE)
    for found in [*lines.finditer(text)][-_MOST:]:
        yield found.start(), min(found.start() + _AFTER, len(text))


def _value(number: str) -> str:
    """Return a number in digits: "4" for "IV"."""
    if number[0].isdigit():
        return number
    values = [_VALUES[letter] for letter in number.upper()]
    return str(sum(-each if each < following else each for each, following in zip(values, [*values[1:], 0], strict=True)))


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of a place in a question, in every language that has words for it."""
    page, section = ("|".join(sorted({word for each in codes() for word in place_words(each, kind)})) for kind in _KINDS)
    return re.compile(
        rf"(?<!\w)(?:(?P<page>{page})|{section})\.?\s*(?P<number>(?-i:{_ASKED}))"
        rf"|第\s*(?P<chinese>{_DIGITS})\s*(?:(?P<chinese_page>{page})|{section})",
        re.IGNORECASE,
    )
