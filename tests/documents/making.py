"""Documents of each format, made of paragraphs and headings as their own programs write them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.load import load
from fbrag_cli.errors import ExitCode, FbragError

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_WORD = " ".join(
    f'xmlns:{prefix}="http://schemas.{address}"'
    for prefix, address in {
        "w": "openxmlformats.org/wordprocessingml/2006/main",
        "m": "openxmlformats.org/officeDocument/2006/math",
        "r": "openxmlformats.org/officeDocument/2006/relationships",
        "wp": "openxmlformats.org/drawingml/2006/wordprocessingDrawing",
        "c": "openxmlformats.org/drawingml/2006/chart",
        "dgm": "openxmlformats.org/drawingml/2006/diagram",
        "mc": "openxmlformats.org/markup-compatibility/2006",
    }.items()
)
_ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "manifest", "chart")
)
_ODF += ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
_ODF += ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
_ODF += ' xmlns:math="http://www.w3.org/1998/Math/MathML" xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'


@dataclass(frozen=True)
class Part:
    """A paragraph, or with a level (from 1) a heading."""

    text: str
    level: int = 0


def written(folder: Path, data: bytes | str, name: str) -> Document:
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return load(str(folder / name))


def refused(folder: Path, data: bytes | str, name: str) -> FbragError:
    """The error of reading `data`: one line that names the document, and one hint."""
    with pytest.raises(FbragError) as caught:
        written(folder, data, name)
    error = caught.value
    assert error.document == str(folder / name)
    assert error.document in error.message
    assert error.hint
    assert "\n" not in error.message + error.hint
    assert len(error.message) < 300 + len(str(folder))
    assert error.exit_code == ExitCode.DOCUMENT
    return error


def zipped(parts: dict[str, bytes | str], stored_first: bool = False) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, data) in enumerate(parts.items()):
            dated = zipfile.ZipInfo(name)  # in 1980: the same bytes every time
            archive.writestr(dated, data, zipfile.ZIP_STORED if stored_first and number == 0 else zipfile.ZIP_DEFLATED)
    return made.getvalue()


def html(parts: Sequence[Part], head: str = "") -> str:
    body = "\n".join(f"<{_tag(part)}>{escape(part.text)}</{_tag(part)}>" for part in parts)
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{body}\n</body></html>"


def _tag(part: Part) -> str:
    return f"h{part.level}" if part.level else "p"


def xhtml(body: str, title: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml" '
        f'xmlns:epub="http://www.idpf.org/2007/ops"><head><title>{escape(title)}</title></head><body>{body}</body></html>'
    )


def epub(
    chapters: dict[str, str], spine: Sequence[str] | None = None, toc: str = "", more: dict[str, bytes | str] | None = None
) -> bytes:
    """chapters: body of each page by its file name, in the zip's order. spine: names in reading order. toc: body of the nav."""
    order = list(chapters) if spine is None else list(spine)
    items = "".join(
        f'<item id="i{number}" href="{name}" media-type="application/xhtml+xml"/>' for number, name in enumerate(chapters)
    )
    refs = "".join(f'<itemref idref="i{list(chapters).index(name)}"/>' for name in order)
    if toc:
        items += '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    package = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{refs}</spine></package>'
    rootfile = '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/>'
    container = (
        f'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>{rootfile}</rootfiles></container>'
    )
    parts: dict[str, bytes | str] = {"mimetype": "application/epub+zip", "META-INF/container.xml": container}
    parts |= {f"OEBPS/{name}": xhtml(body) for name, body in chapters.items()}
    if toc:
        parts["OEBPS/nav.xhtml"] = xhtml(f'<nav epub:type="toc">{toc}</nav>')
    return zipped(parts | {"OEBPS/book.opf": package} | (more or {}), stored_first=True)


def docx(body: str, styles: str = "", more: dict[str, bytes | str] | None = None) -> bytes:
    """body: the inside of w:body. styles: the inside of w:styles. The part X.xml in `more` is named by the relation rX."""
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    types = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{word}.{kind}+xml"/>'
        for name, kind in (("document", "document.main"), ("styles", "styles"), ("footnotes", "footnotes"))
    )
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    linked = {name: f"{name}.xml" for name in ("styles", "footnotes", "numbering", "comments", "header1", "header2", "footer1")}
    linked |= {"endnotes": "endnotes.xml", "settings": "settings.xml", "theme": "theme/theme1.xml"}
    linked |= {"chart": "charts/chart1.xml", "diagramData": "diagrams/data1.xml"}
    relations = "".join(
        f'<Relationship Id="r{name}" Type="{office}/{name}" Target="{target}"/>' for name, target in linked.items()
    )
    headings = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in range(1, 7)
    )
    parts: dict[str, bytes | str] = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{office}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {_WORD}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{package}/relationships">{relations}</Relationships>',
        "word/styles.xml": f"<w:styles {_W}>{headings}{styles}</w:styles>",
        "word/footnotes.xml": f"<w:footnotes {_W}></w:footnotes>",
    }
    return zipped(parts | (more or {}))


def w_paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def odt(body: str, more: dict[str, bytes | str] | None = None, *, styles: str = "", pages: str = "") -> bytes:
    """body: the inside of office:text. styles: that of office:automatic-styles. pages: that of office:master-styles."""
    content = f"<office:body><office:text>{body}</office:text></office:body>"
    content = f"<office:automatic-styles>{styles}</office:automatic-styles>{content}" if styles else content
    parts: dict[str, bytes | str] = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": odf(content, "document-content"),
    }
    if pages:
        parts["styles.xml"] = odf(f"<office:master-styles>{pages}</office:master-styles>", "document-styles")
    return zipped(parts | (more or {}), stored_first=True)


def odf(content: str, root: str) -> str:
    """A part of an OpenDocument. root: name of its root, as "document-content"."""
    return f"<office:{root} {_ODF}>{content}</office:{root}>"


_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def relations(*targets: tuple[str, str], external: str = "") -> str:
    """targets: kind (as "worksheet") and path of each part, which gets the identity r1, r2, …"""
    found = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{path}"/>'
        for number, (kind, path) in enumerate(targets, 1)
    )
    if external:
        found += f'<Relationship Id="out" Type="{_OFFICE}/externalLink" Target="{external}" TargetMode="External"/>'
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{found}</Relationships>'


def _types(part: str, kind: str) -> str:
    return (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{part}" ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>'
    )


def xlsx(sheets: dict[str, str], strings: str = "", more: dict[str, bytes | str] | None = None) -> bytes:
    """sheets: the inside of sheetData by the sheet's name. strings: the inside of sst. Styles: 1 date, 2 with time, 3 time."""
    listed = "".join(f'<sheet name="{escape(name)}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, 1))
    styles = "".join(f'<xf numFmtId="{number}"/>' for number in (0, 14, 22, 20))
    parts: dict[str, bytes | str] = {
        "[Content_Types].xml": _types("xl/workbook.xml", "spreadsheetml.sheet"),
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook {_SHEET} xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            *(("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)),
            ("styles", "styles.xml"),
            ("sharedStrings", "sharedStrings.xml"),
        ),
        "xl/styles.xml": f"<styleSheet {_SHEET}><cellXfs>{styles}</cellXfs></styleSheet>",
        "xl/sharedStrings.xml": f"<sst {_SHEET}>{strings}</sst>",
    }
    for number, rows in enumerate(sheets.values(), 1):
        parts[f"xl/worksheets/sheet{number}.xml"] = f"<worksheet {_SHEET}><sheetData>{rows}</sheetData></worksheet>"
    return zipped(parts | (more or {}))


def x_row(*cells: str) -> str:
    """A row of text cells; one that begins with "<" is taken as it is."""
    made = (cell if cell.startswith("<") else f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>' for cell in cells)
    return f"<row>{''.join(made)}</row>"


def ods(tables: dict[str, str], more: dict[str, bytes | str] | None = None) -> bytes:
    """tables: the inside of table:table by the sheet's name."""
    body = "".join(f'<table:table table:name="{escape(name)}">{rows}</table:table>' for name, rows in tables.items())
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    entry = f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
    parts: dict[str, bytes | str] = {
        "mimetype": kind,
        "content.xml": f"<office:document-content {_ODF}><office:body><office:spreadsheet>{body}</office:spreadsheet>"
        "</office:body></office:document-content>",
        "META-INF/manifest.xml": f"<manifest:manifest {_ODF}>{entry}</manifest:manifest>",
    }
    return zipped(parts | (more or {}), stored_first=True)


def o_row(*cells: str) -> str:
    """A row of text cells; one that begins with "<" is taken as it is."""
    made = (
        cell
        if cell.startswith("<")
        else f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
        for cell in cells
    )
    return f"<table:table-row>{''.join(made)}</table:table-row>"


_SLIDE = " ".join(
    f'xmlns:{prefix}="http://schemas.openxmlformats.org/{name}/2006/main"'
    for prefix, name in (("p", "presentationml"), ("a", "drawingml"))
)


def pptx(slides: Sequence[str], more: dict[str, bytes | str] | None = None) -> bytes:
    """slides: the inside of p:spTree of each, in the order of the presentation; the parts are numbered backwards."""
    names = [f"slides/slide{number}.xml" for number in range(len(slides), 0, -1)]
    listed = "".join(f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in range(1, len(slides) + 1))
    parts: dict[str, bytes | str] = {
        "[Content_Types].xml": _types("ppt/presentation.xml", "presentationml.presentation"),
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<p:presentation {_SLIDE} xmlns:r="{_OFFICE}"><p:sldIdLst>{listed}</p:sldIdLst>'
        "</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(*(("slide", name) for name in names)),
    }
    for name, shapes in zip(names, slides, strict=True):
        parts[f"ppt/{name}"] = slide(shapes)
    return zipped(parts | (more or {}))


def slide(shapes: str, root: str = "sld") -> str:
    return f"<p:{root} {_SLIDE}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:{root}>"


def shape(*paragraphs: str, kind: str = "") -> str:
    """A shape of a slide. kind: of its placeholder, as "title"; "" for a text box."""
    placeholder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else "<p:nvPr/>"
    text = "".join(f"<a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p>" for text in paragraphs)
    return f"<p:sp><p:nvSpPr>{placeholder}</p:nvSpPr><p:txBody>{text}</p:txBody></p:sp>"


def rtf(paragraphs: Sequence[str]) -> bytes:
    r"""As Word writes it: characters beyond ASCII as \u with a question mark for older readers."""
    return (
        b"{\\rtf1\\ansi\\ansicpg1252\\deff0{\\fonttbl{\\f0\\fnil\\fcharset0 Times;}}\n"
        + b"".join(
            b"\\pard\\f0 " + "".join(_rtf_character(character) for character in text).encode() + b"\\par\n" for text in paragraphs
        )
        + b"}"
    )


def _rtf_character(character: str) -> str:
    if character in "\\{}":
        return "\\" + character
    if character < "\x80":
        return character
    units = character.encode("utf-16-le")
    numbers = (int.from_bytes(units[start : start + 2], "little", signed=True) for start in range(0, len(units), 2))
    return "".join(f"\\u{number}?" for number in numbers)
