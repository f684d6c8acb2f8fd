"""Read an EPUB book in the order of its spine. Its table of contents and the headings within chapters are the sections."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from fbrag_cli.documents.decoding.encoding import Decoded, decode
from fbrag_cli.documents.document import Content, Extracted, Section
from fbrag_cli.documents.readers.blocks import content_of
from fbrag_cli.documents.readers.html import declared_encoding, read_page
from fbrag_cli.documents.readers.package import Archive, resolved
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document")
_OPS = "{http://www.idpf.org/2007/ops}"
_MAX_PAGES = 20_000  # a spine of a few bytes a page could name millions
_MAX_WARNINGS = 3  # about guessed encodings: hundreds of pages may have the same fault
_ABOUT = {"title": "Title", "creator": "Author", "publisher": "Publisher", "date": "Date", "description": "Description"}
_MAX_ABOUT = 5_000  # characters of one of them
_MAX_VALUES = 20  # authors
_MAX_BLANK = 100  # characters between the place of a chapter and its heading
_WORD = re.compile(r"\w+")
_GAP = "\n\n"  # between the files of the spine


@dataclass(frozen=True, slots=True)
class _Item:
    """A file of the book. name: name in the zip. properties: properties of EPUB 3, as "nav"."""

    name: str
    media_type: str
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ContentsLine:
    """A line of the table of contents. name: name of a file in the zip. anchor: a place in it; "" for its beginning."""

    title: str
    level: int
    name: str
    anchor: str


@dataclass(slots=True)
class _Spine:
    """The text of the spine so far. markup: whether struck-out text is read. places: where pages and anchors begin in it, by file
    and anchor (characters). left_out: number of passages of each kind that only
    `--markup` reads."""

    markup: bool
    texts: list[str] = field(default_factory=list)
    length: int = 0
    places: dict[tuple[str, str], int] = field(default_factory=dict)
    headings: list[Section] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    encodings: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, decoded: Decoded) -> None:
        self.encodings.append(decoded.encoding)
        self.guesses += decoded.warnings
        anchors: dict[str, int] = {}
        page = read_page(decoded.text, self.markup)
        content = content_of(page.blocks, anchors)
        self.left_out += page.left_out
        start = self.length + len(_GAP) if self.texts and content.text else self.length
        self.places.setdefault((name, ""), start)
        for anchor, offset in anchors.items():
            self.places.setdefault((name, anchor), start + offset)
        self.headings += (Section(section.title, section.level, start + section.start) for section in content.sections)
        if content.text:
            self.texts.append(content.text)
            self.length = start + len(content.text)


def read_epub(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read an EPUB book: what its package says of it, then its pages. Sections are the entries of the table of contents, with the
    headings that these do not name. codec: encoding of all pages; None to detect it.

    Raises FbragError doc_unreadable: damaged, protected (DRM), a bomb, without a spine.
    """
    archive = Archive(source, "an EPUB book")
    package_name = _package_name(archive)
    package = archive.tree(package_name)
    items = {
        item.get("id", ""): _Item(
            _resolved(package_name, item.get("href", ""))[0],
            item.get("media-type", "").lower(),
            tuple(item.get("properties", "").split()),
        )
        for item in package.iter("{*}item")
    }
    refs = (items.get(itemref.get("idref", "")) for itemref in package.iter("{*}itemref"))
    named = list(dict.fromkeys(item.name for item in refs if item is not None and item.media_type in _PAGES))  # each once
    pages = named[:_MAX_PAGES]
    if not pages:
        raise archive.damaged("its package names no pages to read (no spine)")
    _refuse_protected(source, archive, set(pages))

    # 1. Read the pages in the order of the spine.
    spine = _Spine(markup)
    if about := _about(package):
        spine.texts.append(about)
        spine.length = len(about)
    for page in pages:
        if page not in archive:
            spine.missing.append(page)
            continue
        data = archive.read(page)
        file = Source(source.path, f"{source.name}: {page}", data)
        spine.add(page, decode(file, codec, declared=declared_encoding(data)))

    # 2. Find the chapters of the table of contents in their text.
    text = _GAP.join(spine.texts) if len(spine.texts) > bool(about) else ""
    chapters = _chapters(_contents(archive, items), spine.places, len(text))
    warnings = spine.guesses[:_MAX_WARNINGS]
    if spine.missing:
        warnings.append(f"{source.name}: {len(spine.missing)} of its {len(pages)} files are missing, as {spine.missing[0]}")
    if len(named) > len(pages):
        warnings.append(f"{source.name}: of its {len(named)} files only the first {len(pages)} are read")
    encoding = Counter(spine.encodings).most_common(1)[0][0] if spine.encodings else "utf-8"
    content = Content(text, sections=_with_headings(chapters, spine.headings, text))
    return Extracted(content, "application/epub+zip", encoding, warnings=tuple(warnings), markup=spine.left_out)


def _package_name(archive: Archive) -> str:
    if _CONTAINER in archive:
        for rootfile in archive.tree(_CONTAINER).iter("{*}rootfile"):
            if path := rootfile.get("full-path"):
                return unquote(path) if path not in archive else path
    for name in archive.names():
        if name.lower().endswith(".opf"):
            return name
    raise archive.damaged("it has no package document (opf)")


def _about(package: _Element) -> str:
    """Return what the package says of the book, a line each: title, authors, publisher, date, description."""
    lines = []
    for name, label in _ABOUT.items():
        values = islice((text for element in package.iter(f"{{*}}{name}") if (text := _words(element))), _MAX_VALUES)
        if value := ", ".join(dict.fromkeys(values)):
            if "<" in value:  # descriptions are often HTML
                value = " ".join(content_of(read_page(value).blocks).text.split())
            lines.append(f"{label}: {value[:_MAX_ABOUT]}")
    return "\n".join(lines)


def _resolved(base: str, link: str) -> tuple[str, str]:
    """Return the file's name in the zip and the anchor of a `link` in the file `base`."""
    path, _, anchor = link.partition("#")
    return resolved(posixpath.dirname(base), unquote(path)) if path else base, unquote(anchor)


def _refuse_protected(source: Source, archive: Archive, pages: set[str]) -> None:
    """Raise doc_unreadable if pages are encrypted (DRM). Encrypted fonts are no hindrance."""
    if _ENCRYPTION not in archive:
        return
    for reference in archive.tree(_ENCRYPTION).iter("{*}CipherReference"):
        if unquote(reference.get("URI", "")) in pages:
            what = f"{source.name} is protected (DRM): its text is encrypted for the seller's reader"
            raise FbragError("doc_unreadable", what, "name an edition without protection", document=source.path)


def _contents(archive: Archive, items: dict[str, _Item]) -> list[_ContentsLine]:
    """Return the table of contents, of EPUB 3 (nav) or 2 (ncx). A damaged one is ignored: the book can be read without it."""
    nav = next((item.name for item in items.values() if "nav" in item.properties), "")
    ncx = next((item.name for item in items.values() if item.media_type == "application/x-dtbncx+xml"), "")
    for name, entries in ((nav, _nav_entries), (ncx, _ncx_entries)):
        if name in archive:
            with suppress(FbragError):
                if found := list(entries(archive.tree(name), name)):
                    return found
    return []


def _nav_entries(root: _Element, name: str) -> Iterator[_ContentsLine]:
    for nav in root.iter("{*}nav"):
        if nav.get(_OPS + "type", "toc") != "toc":
            continue
        for link in nav.iter("{*}a"):
            level = sum(1 for _ in link.iterancestors("{*}ol"))
            yield _ContentsLine(_words(link), max(1, level), *_resolved(name, link.get("href", "")))


def _ncx_entries(root: _Element, name: str) -> Iterator[_ContentsLine]:
    for point in root.iter("{*}navPoint"):
        label, content = point.find("{*}navLabel"), point.find("{*}content")
        if label is not None and content is not None:
            level = 1 + sum(1 for _ in point.iterancestors("{*}navPoint"))
            yield _ContentsLine(_words(label), level, *_resolved(name, content.get("src", "")))


def _words(element: _Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _chapters(entries: list[_ContentsLine], places: dict[tuple[str, str], int], n_chars: int) -> tuple[Section, ...]:
    """Return the entries whose place is in the text. A missing anchor counts as the beginning of its file."""
    chapters = []
    for entry in entries:
        start = places.get((entry.name, entry.anchor), places.get((entry.name, "")))
        if entry.title and start is not None and start < n_chars:
            chapters.append(Section(entry.title, entry.level, start))
    return tuple(sorted(chapters, key=lambda chapter: chapter.start))


def _with_headings(chapters: Sequence[Section], headings: Sequence[Section], text: str) -> tuple[Section, ...]:
    """Return the chapters with the headings of the pages that do not repeat them, at their levels within the chapter."""
    if not chapters:
        return tuple(headings)
    starts = [chapter.start for chapter in chapters]
    sections = list(chapters)
    named = dict[int, list[str]]()  # index of a chapter -> words of the headings that repeat it, as "Chapter 1" and "The Harbor"
    own_level = dict[int, int]()  # index of a chapter -> level of the heading that repeats it
    for heading in headings:
        index = bisect_right(starts, heading.start) - 1
        chapter = chapters[max(0, index)]
        first = heading.start - chapter.start < _MAX_BLANK and not text[chapter.start : heading.start].strip()
        words, said = _WORD.findall(heading.title.casefold()), named.get(index, [])
        if index >= 0 and (first or _WORD.findall(chapter.title.casefold()) in (words, said + words)):
            own_level.setdefault(index, heading.level)
            named[index] = said + words
        else:
            level = chapter.level + heading.level - own_level.get(index, heading.level - 1)
            sections.append(Section(heading.title, max(1, level), heading.start))
    return tuple(sorted(sections, key=lambda section: section.start))
