"""An EPUB becomes text in the order of its spine, with the chapters of its table of contents as sections."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from fbrag_cli.documents.decoding import decode
from fbrag_cli.documents.document import Content, Extracted, Section
from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import joined
from fbrag_cli.documents.readers.html import declared_encoding, read_page
from fbrag_cli.documents.readers.xml import parse
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document")
_OPS = "{http://www.idpf.org/2007/ops}"
_MAX_WARNINGS = 3  # of guesses at encodings: hundreds of pages may share one fault
_GAP = "\n\n"  # between the files of the spine


@dataclass(frozen=True, slots=True)
class _Item:
    """A file of the book. name: in the zip. properties: words of EPUB 3, as "nav"."""

    name: str
    media_type: str
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the table of contents. name: of the file in the zip. anchor: "" for its beginning."""

    title: str
    level: int
    name: str
    anchor: str


def read_epub(source: Source, codec: str | None = None) -> Extracted:
    """Sections are the entries of the table of contents; without one, the headings. codec: of all its pages.

    Raises FbragError doc_unreadable: damaged, protected (DRM), a bomb, without a spine.
    """
    archive = Archive(source, "an EPUB book")
    package_name = _package_name(archive)
    package = parse(archive.read(package_name), archive.damaged)
    items = _manifest(package, package_name)
    spine = [items[ref] for ref in _spine(package) if ref in items and items[ref].media_type in _PAGES]
    if not spine:
        raise archive.damaged("its package names no pages to read (no spine)")
    _refuse_protected(source, archive, {item.name for item in spine})

    # 1. The text of each page in the order of the spine, and where in it pages and anchors begin.
    texts: list[str] = []
    places: dict[tuple[str, str], int] = {}
    headings: list[Section] = []
    missing: list[str] = []
    guesses: list[str] = []
    encodings: list[str] = []
    length = 0
    for item in spine:
        if item.name not in archive:
            missing.append(item.name)
            continue
        data = archive.read(item.name)
        decoded = decode(Source(source.path, f"{source.name}: {item.name}", data), codec, declared=declared_encoding(data))
        encodings.append(decoded.encoding)
        guesses += decoded.warnings
        laid_out = joined(read_page(decoded.text).blocks)
        start = length + len(_GAP) if texts and laid_out.text else length
        places.setdefault((item.name, ""), start)
        for anchor, offset in laid_out.anchors.items():
            places.setdefault((item.name, anchor), start + offset)
        headings += (Section(section.title, section.level, start + section.start) for section in laid_out.sections)
        if laid_out.text:
            texts.append(laid_out.text)
            length = start + len(laid_out.text)

    # 2. What the table of contents says of these places.
    text = _GAP.join(texts)
    chapters = _chapters(_contents(archive, package, items), places, len(text))
    warnings = guesses[:_MAX_WARNINGS]
    if missing:
        warnings.append(f"{source.name}: {len(missing)} of its {len(spine)} files are missing, as {missing[0]}")
    encoding = max(set(encodings), key=encodings.count, default="utf-8")
    return Extracted(
        Content(text, sections=chapters or tuple(headings)), "application/epub+zip", encoding, warnings=tuple(warnings)
    )


def _package_name(archive: Archive) -> str:
    if _CONTAINER in archive:
        for rootfile in parse(archive.read(_CONTAINER), archive.damaged).iter("{*}rootfile"):
            if path := rootfile.get("full-path"):
                return unquote(path) if path not in archive else path
    for name in archive.names():
        if name.lower().endswith(".opf"):
            return name
    raise archive.damaged("it has no package document (opf)")


def _manifest(package: _Element, package_name: str) -> dict[str, _Item]:
    return {
        item.get("id", ""): _Item(
            _resolved(package_name, item.get("href", ""))[0],
            item.get("media-type", "").lower(),
            tuple(item.get("properties", "").split()),
        )
        for item in package.iter("{*}item")
    }


def _spine(package: _Element) -> list[str]:
    return [itemref.get("idref", "") for itemref in package.iter("{*}itemref")]


def _resolved(base: str, link: str) -> tuple[str, str]:
    """The file's name in the zip and the anchor of `link`, which stands in the file `base`."""
    path, _, anchor = link.partition("#")
    if not path:
        return base, unquote(anchor)
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(path))), unquote(anchor)


def _refuse_protected(source: Source, archive: Archive, pages: set[str]) -> None:
    """Fonts may be obfuscated in a book without protection; where pages are encrypted, only their seller's reader opens them."""
    if _ENCRYPTION not in archive:
        return
    for reference in parse(archive.read(_ENCRYPTION), archive.damaged).iter("{*}CipherReference"):
        if unquote(reference.get("URI", "")) in pages:
            what = f"{source.name} is protected (DRM): its text is encrypted for the reader that it was bought with"
            raise FbragError("doc_unreadable", what, "name an edition without protection", document=source.path)


def _contents(archive: Archive, package: _Element, items: dict[str, _Item]) -> list[_Entry]:
    """The table of contents, of EPUB 3 (nav) or 2 (ncx). A damaged one is none: the book can be read without."""
    nav = next((item.name for item in items.values() if "nav" in item.properties), None)
    ncx = next((item.name for item in items.values() if item.media_type == "application/x-dtbncx+xml"), None)
    for name, entries in ((nav, _nav_entries), (ncx, _ncx_entries)):
        if name is None or name not in archive:
            continue
        data = archive.read(name)
        try:
            if found := list(entries(parse(data, archive.damaged), name)):
                return found
        except FbragError:
            pass
    return []


def _nav_entries(root: _Element, name: str) -> Iterator[_Entry]:
    for nav in root.iter("{*}nav"):
        if nav.get(_OPS + "type", "toc") != "toc":
            continue
        for link in nav.iter("{*}a"):
            level = sum(1 for _ in link.iterancestors("{*}ol"))
            yield _Entry(_words(link), max(1, level), *_resolved(name, link.get("href", "")))


def _ncx_entries(root: _Element, name: str) -> Iterator[_Entry]:
    for point in root.iter("{*}navPoint"):
        label, content = point.find("{*}navLabel"), point.find("{*}content")
        if label is not None and content is not None:
            level = 1 + sum(1 for _ in point.iterancestors("{*}navPoint"))
            yield _Entry(_words(label), level, *_resolved(name, content.get("src", "")))


def _words(element: _Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _chapters(entries: list[_Entry], places: dict[tuple[str, str], int], n_chars: int) -> tuple[Section, ...]:
    """Entries whose place is in the text. An anchor that is not there counts as its file's beginning."""
    chapters = []
    for entry in entries:
        start = places.get((entry.name, entry.anchor), places.get((entry.name, "")))
        if entry.title and start is not None and start < n_chars:
            chapters.append(Section(entry.title, entry.level, start))
    return tuple(sorted(chapters, key=lambda chapter: chapter.start))
