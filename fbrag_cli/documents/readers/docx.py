"""Read a Word document through the HTML that mammoth makes of it: with tables, notes, text boxes, without deletions."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import Archive, packed
from fbrag_cli.documents.readers.blocks import content_of
from fbrag_cli.documents.readers.html import read_page
from fbrag_cli.documents.readers.xml import parse, refuse_entities
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_STYLES = "word/styles.xml"
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STYLE_ID = re.compile(r"[\w-]+", re.ASCII)
_MAX_TAGS = 2_000_000  # some 5,000 pages: mammoth takes half a kilobyte of memory for each, and a minute for all
_BACK_LINK = re.compile(r'<a href="#[^"<>]{1,100}">↑</a>')  # from a note to its place
_MAX_STYLES = 100  # of headings: mammoth compares each paragraph with each
_MAX_BASES = 20
_MAX_HEADING = 6  # levels that HTML has


def read_docx(source: Source, codec: str | None = None) -> Extracted:
    """Read a Word document. Sections are titles and the paragraphs whose style has an outline level (headings).

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    archive = Archive(source, "a Word document")
    parts = {name: archive.read(name) for name in archive.names() if name.endswith((".xml", ".rels"))}
    if not any(name.startswith("word/document") for name in parts):
        raise archive.damaged("it has no word/document.xml")
    for data in parts.values():
        refuse_entities(data, archive.damaged)
    if sum(data.count(b"<") for data in parts.values()) > _MAX_TAGS:
        what = f"{source.name} is too large: a Word document of more than {_MAX_TAGS:,} tags"
        raise FbragError(
            "doc_unreadable", what, f"libreoffice --headless --convert-to odt {source.shell_path}", document=source.path
        )
    try:
        html = _to_html(
            packed(parts), [*islice(_heading_styles(parts, archive), _MAX_STYLES), "p[style-name='Title'] => h1:fresh"]
        )
    except FbragError:
        raise
    except Exception as error:  # mammoth raises all kinds of exceptions on damaged parts; RecursionError for absurd nesting
        reason = one_line(f"{type(error).__name__}: {error}".rstrip(": "), 100)
        raise archive.damaged(f"it cannot be read ({reason})") from error
    return Extracted(content_of(read_page(html).blocks), _MEDIA_TYPE)


def _to_html(package: io.BytesIO, style_map: list[str]) -> str:
    import mammoth

    def image(element: Any) -> list[Any]:
        return [mammoth.html.text(f"[{element.alt_text}]")] if element.alt_text else []

    result = mammoth.convert_to_html(package, style_map="\n".join(style_map), convert_image=image)
    return _BACK_LINK.sub("", result.value)


def _heading_styles(parts: dict[str, bytes], archive: Archive) -> Iterator[str]:
    """Return mammoth's rules for custom styles: a heading has an outline level, its own or that of a style it is based on."""
    if _STYLES not in parts:
        return
    levels: dict[str, int] = {}
    bases: dict[str, str] = {}
    for style in parse(parts[_STYLES], archive.damaged).iter(_WORD + "style"):
        name = style.get(_WORD + "styleId", "")
        if style.get(_WORD + "type") != "paragraph" or not _STYLE_ID.fullmatch(name):
            continue
        outline, base = style.find(f".//{_WORD}outlineLvl"), style.find(_WORD + "basedOn")
        if outline is not None and outline.get(_WORD + "val", "").isdecimal():
            levels[name] = int(outline.get(_WORD + "val", ""))
        elif base is not None:
            bases[name] = base.get(_WORD + "val", "")
    for name in (*levels, *bases):
        level = _inherited(name, levels, bases)
        if level is not None and level < 9:  # 9 means running text
            yield f"p.{name} => h{min(level + 1, _MAX_HEADING)}:fresh"


def _inherited(name: str, levels: dict[str, int], bases: dict[str, str]) -> int | None:
    for _ in range(_MAX_BASES):  # a limit, for styles may be based on each other in a circle
        if name in levels:
            return levels[name]
        if name not in bases:
            return None
        name = bases[name]
    return None
