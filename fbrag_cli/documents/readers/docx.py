"""Read a Word document: headings and lists with their numbers, tables, notes, equations, charts, headers and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import STRUCK, Extracted, comment
from fbrag_cli.documents.hidden import PATTERN, UNKNOWN_COLOR, WHITE, Color, Look, ground_of, is_hidden, parse_color
from fbrag_cli.documents.readers.blocks import MANY_ROWS, Block, extracted
from fbrag_cli.documents.readers.charts import read_linked
from fbrag_cli.documents.readers.docx_numbering import Numbering, written_number
from fbrag_cli.documents.readers.docx_styles import Properties, Styles, Theme, is_on, level_of
from fbrag_cli.documents.readers.nested import Context, Nested, Start
from fbrag_cli.documents.readers.package import Archive, Relation, attribute, number
from fbrag_cli.documents.readers.symbols import symbol, without_glyphs
from fbrag_cli.documents.readers.writer import PAGE_NUMBER, Writer
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from lxml.etree import _Element

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_DOCUMENT = "word/document.xml"
_MAX_LINKED = 1000  # charts and diagrams; each may be named many times
_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w:",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w:",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m:",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m:",
    "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing": "wp:",
    "http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": "wp:",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a:",
    "http://purl.oclc.org/ooxml/drawingml/main": "a:",
    "http://schemas.openxmlformats.org/drawingml/2006/picture": "pic:",
    "http://purl.oclc.org/ooxml/drawingml/picture": "pic:",
    "http://schemas.microsoft.com/office/word/2010/wordprocessingShape": "wps:",
    "http://schemas.microsoft.com/office/word/2010/wordprocessingGroup": "wpg:",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c:",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c:",
    "http://schemas.openxmlformats.org/drawingml/2006/diagram": "dgm:",
    "http://purl.oclc.org/ooxml/drawingml/diagram": "dgm:",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc:",
    "urn:schemas-microsoft-com:vml": "v:",
    "urn:schemas-microsoft-com:office:office": "o:",
    "http://schemas.microsoft.com/office/drawing/2014/chartex": "cx:",
}
_TEXT = ("w:t", "w:delText")
_DELETIONS = ("w:del", "w:moveFrom")
# Former properties, readings next to characters, properties whose elements would be mistaken for text, and lines of shapes.
_SKIPPED = frozenset(
    "w:rt w:sdtPr w:rPrChange w:pPrChange w:sectPrChange w:tblPrChange w:trPrChange w:tcPrChange w:numberingChange"
    " w:tblGridChange w:tblPrExChange w:tabs a:ln a:effectLst a:effectDag a:scene3d a:sp3d a:lnRef a:effectRef a:fontRef".split()
)
_PROPERTIES = (
    "pStyle numId ilvl outlineLvl framePr vanish strike dstrike color sz highlight shd rStyle vertAlign rFonts tblStyle tblLook"
    " gridSpan vMerge numFmt numStart numRestart"
)
_FILLS = {"noFill": "auto", **dict.fromkeys(("gradFill", "blipFill", "pattFill", "grpFill"), PATTERN)}
_SHAPES = ("v:shape", "v:rect", "v:roundrect", "v:oval")
_SHIFTS = {"superscript": "^", "subscript": "_"}
_MAX_LOOKS = 1000  # of runs, that are kept
_MAX_COLUMNS = 63  # as Word allows
_MAX_INSTRUCTION = 100  # characters of each piece, and pieces: the name of a field is the first word
_PAGE_FIELDS = frozenset(("PAGE", "NUMPAGES", "SECTIONPAGES"))
_NOTES = ("footnote", "endnote")
# The place of a note's number, until the form of its section's numbers is known. XML has no such characters.
_NOTE_NUMBER = re.compile("\1(\\d+)\1")


def read_docx(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a Word document. Sections are titles and the paragraphs that have an outline level (headings), with their numbers.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    return _WordDocument(source, markup).read()


class _WordDocument:
    """A Word document.

    writer: receives its text. styles, theme: its styles and colors. page: color of its pages; None for that of paper.
    references: place, section and whether it is numbered of the first reference to each note, by kind and key. sections: what
    each says of the numbers of its notes.
    """

    def __init__(self, source: Source, markup: bool) -> None:
        self._archive = archive = Archive(source, "a Word document")
        named = (each.target for each in archive.relations("") if each.kind == "officeDocument")
        self._main = next((name for name in named if name in archive), _DOCUMENT)
        self._relations = archive.relations(self._main)
        self.theme = Theme(self._tree("theme", may_be_damaged=True))
        self.styles, self._numbers = Styles(self._tree("styles"), self.theme), self._tree("numbering")
        self.settings = self._tree("settings", may_be_damaged=True)
        self.writer = Writer(markup)
        self.page: Color | None = None
        self.references: dict[tuple[str, str], tuple[int, int, bool]] = {}
        self.sections: list[dict[str, Properties]] = []
        self._linked: set[str] = set()

    def read(self) -> Extracted:
        targets = {each.identity: each.target for each in self._relations}
        named = self._read(self._main).headers_footers.items()
        for name, kind in {targets[identity]: kind for identity, kind in named if identity in targets}.items():
            if name in self._archive:
                self.writer.begin_story()
                self._read(name, is_header_or_footer=True)
                self.writer.add_header_or_footer(kind, self.writer.end_story())
        labels = self._labels_of_notes()

        def numbered(text: str) -> str:
            return _NOTE_NUMBER.sub(lambda found: labels[int(found[1])], text)

        self._add_notes(labels)
        blocks = [replace(each, text=numbered(each.text)) if "\1" in each.text else each for each in self.writer.blocks()]
        comments = list(map(numbered, self._comments()))
        return extracted(blocks, _MEDIA_TYPE, self.writer.left_out, self.writer.markup, comments)

    def _part(self, kind: str) -> str | None:
        """Return the name of the part that the document names as its `kind`, if it is there."""
        return next((each.target for each in self._relations if each.kind == kind and each.target in self._archive), None)

    def _tree(self, kind: str, *, may_be_damaged: bool = False) -> _Element | None:
        name = self._part(kind)
        with suppress(FbragError) if may_be_damaged else nullcontext():
            return None if name is None else self._archive.tree(name)
        return None

    def _read(self, name: str, *, is_header_or_footer: bool = False) -> _WordPart:
        """Read a part, whose paragraphs are counted by themselves."""
        relations = {each.identity: each for each in self._archive.relations(name)}
        part = _WordPart(self, Numbering(self._numbers, self.styles), relations, is_header_or_footer=is_header_or_footer)
        self._archive.feed(name, part)
        return part

    def _labels_of_notes(self) -> list[str]:
        """Return the numbers of the notes in the order of their references, as Word shows them: each kind has its own."""
        general: dict[str, Properties] = {kind: {} for kind in _NOTES}
        for kind, given in general.items():
            for each in () if self.settings is None else self.settings.iterfind(f"{{*}}{kind}Pr/{{*}}*"):
                self.theme.take(given, each.tag.rpartition("}")[2], each.attrib)
        labels, counts, last = [], dict[str, int](), dict[str, int]()
        for (kind, _), (_, section, is_numbered) in self.references.items():
            if not is_numbered:
                labels.append("")
                continue
            given = general[kind] | (self.sections[section].get(kind, {}) if section < len(self.sections) else {})
            if kind not in counts or (given.get("numRestart") == "eachSect" and section != last[kind]):
                counts[kind] = number(given.get("numStart", ""), 1) - 1
            counts[kind] += 1
            last[kind] = section
            labels.append(written_number(counts[kind], given.get("numFmt", "lowerRoman" if kind == "endnote" else "decimal")))
        return labels

    def _add_notes(self, labels: list[str]) -> None:
        """Give the writer the footnotes and endnotes in the order of their references."""
        kinds = dict.fromkeys(kind for kind, _ in self.references)
        parts = {kind: self._read(name).notes for kind in kinds if (name := self._part(f"{kind}s"))}
        for (kind, key), label in zip(self.references, labels, strict=True):
            _, blocks = parts.get(kind, {}).get(key, ("", []))
            self.writer.add_note(label, blocks)

    def _comments(self) -> Iterator[str]:
        """Yield the comments in the order of the text that they are on."""
        if (name := self._part("comments")) is None:
            return
        quotes = dict(self.writer.quotes.found)
        order = {key: place for place, key in enumerate(quotes)}
        for key, (author, blocks) in sorted(self._read(name).notes.items(), key=lambda each: order.get(each[0], len(order))):
            if text := "\n".join(block.line for block in blocks):
                yield comment(author, quotes.get(key, ""), text)

    def linked(self, kind: str, relation: Relation | None, identity: str) -> list[Block]:
        """Return the text of a chart or diagram. What is shown twice is read once; what cannot be read is counted.

        kind: "chart" or "diagram". identity: what the part calls it, for one without a relation.
        """
        key = f"{kind} {relation.target if relation else identity}"
        if key in self._linked:
            return []
        readable = relation is not None and relation.target in self._archive and len(self._linked) < _MAX_LINKED
        self._linked.add(key)
        blocks = read_linked(self._archive, relation) if relation is not None and readable else []
        if not blocks and (kind == "chart" or not readable):  # a diagram may be a mere drawing
            self.writer.left_out[kind] += 1
        return blocks


@dataclass(slots=True)
class _Paragraph:
    """A paragraph. mark: properties of its end. joins: what separates it from the next one, a part of which it is; None for
    others. ends_section: whether it does."""

    properties: Properties = field(default_factory=dict)
    mark: Properties = field(default_factory=dict)
    joins: str | None = None
    ends_section: bool = False


@dataclass(slots=True)
class _Table:
    """A table. ground: color around it. row, column: place of the open cell."""

    ground: Color | None = None
    properties: Properties = field(default_factory=dict)
    row: int = -1
    column: int = 0


@dataclass(slots=True)
class _WordField:
    """An open field. shows: whether its text is shown: not before its result, and not if this is the number of a page.
    is_checked: state of a check box."""

    instruction: list[str] = field(default_factory=list)
    shows: bool = False
    is_checked: bool = False

    @property
    def name(self) -> str:
        words = "".join(self.instruction).split()
        return words[0].upper() if words else ""


@dataclass
class _Context(Context):
    """What holds in an open element. described: takes the properties in it. ground: color of the shape around. is_behind: whether
    it is drawn behind the text, for what floats; None for other things. n_seen: pieces of text before a choice
    (mc:AlternateContent)."""

    is_deleted: bool = False
    is_object: bool = False
    is_group: bool = False
    described: Properties | None = None
    paragraph: _Paragraph | None = None
    run: Properties = field(default_factory=dict)
    table: _Table | None = None
    cell: Properties | None = None
    shape: Properties | None = None
    ground: Color | None = None
    is_behind: bool | None = None
    n_seen: int | None = None


class _WordPart(Nested[_Context]):
    """The target of lxml's parser for a part: the body, a header, notes or comments.

    relations: of the part, by identity. is_header_or_footer: whether the part is one.
    headers_footers: kind ("header" or "footer") by the identity of each that the part names. notes: author and blocks of each of
    its notes or comments, by key.
    """

    def __init__(
        self, document: _WordDocument, numbering: Numbering, relations: Mapping[str, Relation], *, is_header_or_footer: bool
    ) -> None:
        self._document, self._numbering, self._relations = document, numbering, relations
        self._writer, self._styles, self._theme = document.writer, document.styles, document.theme
        self._is_header_or_footer = is_header_or_footer
        self._drawn = lru_cache(_MAX_LOOKS)(self._look_of)
        self.headers_footers: dict[str, str] = {}
        self.notes: dict[str, tuple[str, list[Block]]] = {}
        super().__init__(_Context(self._actions_at_starts()), _PREFIXES, _SKIPPED.union(_DELETIONS))
        self._fields: list[_WordField] = []  # which begin and end anywhere
        self._n_silent = 0  # open fields whose text is not shown
        self._section = 0
        self._floats = self._floats_behind = False  # whether a picture or filled shape does on the page so far

    def _actions_at_starts(self) -> dict[str, Start]:
        return {
            **dict.fromkeys(_SKIPPED, self.skip),
            **{"w:del": partial(self._delete, " "), "w:moveFrom": partial(self._delete, None)},
            **{f"w:{name}": partial(self._property, name) for name in _PROPERTIES.split()},
            **{f"a:{name}": partial(self._fill, fill) for name, fill in _FILLS.items()},
            **{f"a:{name}": self._changed_color for name in ("lumMod", "lumOff", "shade", "tint", "alpha")},
            **dict.fromkeys(_SHAPES, self._old_shape),
            **dict.fromkeys(("a:srgbClr", "a:sysClr"), self._color_of_shape),
            "a:schemeClr": partial(self._color_of_shape, is_named=True),
            "w:p": self._paragraph,
            "w:pPr": self._properties_of_paragraph,
            "w:tblPr": self._properties_of_table,
            "w:tblPrEx": self._properties_of_table,
            "w:tcPr": lambda _: self.enter(described=self.context.cell),
            "w:rPr": self._properties_of_run,
            "w:r": self._run,
            "w:tab": lambda _: self._say(" "),
            "w:ptab": lambda _: self._say(" "),
            "w:br": self._break,
            "w:cr": self._break,
            "w:lastRenderedPageBreak": lambda _: self._begin_page(),
            "w:noBreakHyphen": lambda _: self._say("-"),
            "w:sym": self._symbol,
            "w:fldChar": self._field_mark,
            "w:fldSimple": self._simple_field,
            "w:checked": self._check,
            "w:default": self._check,
            "w:ddList": lambda _: self._leave_out("drop-down choice"),
            "w:tbl": self._begin_table,
            "w:tr": self._row,
            "w:tc": self._cell,
            "w:background": self._background,
            "w:sectPr": self._end_section,
            **{f"w:{kind}Pr": partial(self._numbers, kind) for kind in _NOTES},
            **{f"w:{kind}Reference": partial(self._note_mark, kind) for kind in _NOTES},
            "w:txbxContent": self._begin_box,
            "w:footnote": self._note,
            "w:endnote": self._note,
            "w:comment": self._note,
            "w:commentRangeStart": lambda given: self._writer.quotes.begin(attribute(given, "id")),
            "w:commentRangeEnd": lambda given: self._writer.quotes.end(attribute(given, "id")),
            "w:headerReference": lambda given: self.headers_footers.setdefault(attribute(given, "id"), "header"),
            "w:footerReference": lambda given: self.headers_footers.setdefault(attribute(given, "id"), "footer"),
            "w:altChunk": lambda _: self._leave_out("embedded document"),
            "w:subDoc": lambda _: self._leave_out("subdocument"),
            "w:object": lambda _: self.enter(is_object=True),
            "m:oMath": self.begin_equation,
            "mc:AlternateContent": lambda _: self.enter(n_seen=self._n_seen()),
            "mc:Fallback": self._fallback,
            "wp:docPr": lambda given: self._describe(given.get("descr", "").strip() or given.get("title", "")),
            "wp:anchor": lambda given: self.enter(is_behind=is_on(given.get("behindDoc", "0"))),
            "wps:wsp": lambda _: self.enter(self._end_shape, shape={}),
            "a:fillRef": self._fill_of_style,
            "wpg:wgp": lambda _: self.enter(is_group=True),
            "pic:pic": lambda _: self._picture(),
            "pic:cNvPr": lambda given: self._describe(given.get("descr", "") if self.context.is_group else ""),
            "v:fill": self._old_fill,
            "v:imagedata": self._old_picture,
            "v:textpath": lambda given: self._say(given.get("string", "")),
            "c:chart": lambda given: self._link("chart", attribute(given, "id")),
            "cx:chart": lambda given: self._link("chart", attribute(given, "id")),
            "dgm:relIds": lambda given: self._link("diagram", attribute(given, "dm")),
            "o:OLEObject": self._object,
        }

    def data(self, data: str) -> None:
        context = self.context
        if context.is_skipped:
            if context.is_deleted and self.innermost in _TEXT:
                self._writer.markup.leave_out(data, STRUCK)
        elif context.equation is not None:
            context.equation.data(data)
        elif self.innermost in _TEXT:
            self._say(without_glyphs(data, context.run.get("rFonts", "")))
        elif self.innermost == "w:instrText" and self._fields:
            instruction = self._fields[-1].instruction
            if len(instruction) < _MAX_INSTRUCTION:
                instruction.append(data[:_MAX_INSTRUCTION])

    def _property(self, name: str, given: dict[str, str]) -> None:
        if self.context.described is not None:
            self._theme.take(self.context.described, name, given)

    def _delete(self, joins: str | None, _: dict[str, str]) -> None:
        """Begin a tracked deletion, which may be that of the end of a paragraph. joins: what joins this to the next one then."""
        context, is_read = self.context, self._writer.markup.is_read
        if context.paragraph is not None and context.described is context.paragraph.mark and not is_read:
            context.paragraph.joins = joins
        self.enter(is_deleted=True, is_skipped=not is_read, equation=context.equation if is_read else None)

    # -- paragraphs ----------------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        """Add text that is shown."""
        if self._n_silent:
            return
        paragraph, (hidden, struck) = self.context.paragraph, self._look()
        if paragraph is not None and paragraph.joins is not None and not hidden:
            self._writer.carry(text, struck=struck)
        else:
            shift = _SHIFTS.get(self.context.run.get("vertAlign", ""), "")
            self._writer.say(text, hidden=hidden, struck=struck, shift=shift)

    def _look(self) -> tuple[bool, bool]:
        """Return whether a person does not see the text of the open run, and whether it is struck out."""
        run, paragraph = self.context.run, self.context.paragraph
        style = "" if paragraph is None else self._style_of(paragraph)
        look, is_struck = self._drawn(style, *run.items())
        if look.color is not None:
            of_run, of_paragraph = self._styles[run.get("rStyle", "")], self._styles[style]
            own = paragraph.properties if paragraph is not None else {}
            fills = (next((each["fill"] for each in pair if "fill" in each), "") for pair in ((run, of_run), (own, of_paragraph)))
            look = look._replace(ground=ground_of(fills) or self._ground())
        return is_hidden(look), self.context.is_deleted or is_struck

    def _look_of(self, style: str, *properties: tuple[str, str]) -> tuple[Look, bool]:
        """Return how a run is drawn, but for its ground, and whether it is struck out. style: that of its paragraph."""
        run, of_paragraph = dict(properties), self._styles[style]
        of_run = self._styles[run.get("rStyle", "")]
        every = {**self._styles.defaults, **of_paragraph, **of_run, **run}

        def has(toggle: str) -> bool:
            """Return whether the run itself has a property, or else one of its two styles, but not both."""
            if toggle in run:
                return is_on(run[toggle])
            return is_on(of_run.get(toggle, "0")) != is_on(of_paragraph.get(toggle, "0"))

        size = every.get("sz", "")
        look = Look(number(size, 2) / 2 if size else None, parse_color(every.get("color", "")), hidden=has("vanish"))
        return look, has("strike") or has("dstrike")

    def _style_of(self, paragraph: _Paragraph) -> str:
        return paragraph.properties.get("pStyle", self._styles.default)

    def _ground(self) -> Color | None:
        """Return the color that the open paragraph is on; None for that of paper."""
        context = self.context
        table, cell = context.table, context.cell
        if table is None or cell is None:
            return context.ground or self._document.page or (UNKNOWN_COLOR if self._floats_behind else None)
        fill = cell.get("fill") or self._styles.fill_of_cell(table.properties, table.row, table.column)
        return ground_of((fill, table.properties.get("fill", ""))) or table.ground

    def _paragraph(self, _: dict[str, str]) -> None:
        paragraph = _Paragraph()
        self.enter(self._end_paragraph, paragraph=paragraph, run={}, described=None)
        self._writer.begin_paragraph(lambda: self._opening(paragraph))

    def _opening(self, paragraph: _Paragraph) -> tuple[int, str]:
        """Count a paragraph. Return the level of its heading, and its number with its indent."""
        name, own = self._style_of(paragraph), paragraph.properties
        style = self._styles[name]
        level = level_of(own if "outlineLvl" in own else style)
        key, depth = own.get("numId") or style.get("numId", ""), own.get("ilvl", "")
        if key in ("", "0"):
            return level, ""
        at = number(depth) if depth else self._numbering.depth_of(key, name)
        if at is None and not own.get("numId"):
            depth = style.get("ilvl", "")
            at = number(depth) if depth else self._numbering.depth_of(key, style.get("numbered by", ""))
        return level, self._numbering.label(key, min(at or 0, 8))

    def _end_paragraph(self) -> None:
        paragraph = self.context.paragraph
        assert paragraph is not None
        for opened in reversed(self._fields):  # one without a result
            if not self._n_silent:
                break
            self._n_silent -= not opened.shows
            opened.shows = True
        has_text = self._writer.end_paragraph(paragraph.joins)
        if not has_text and not is_on(paragraph.mark.get("vanish", "0")) and paragraph.joins is None:
            self._opening(paragraph)  # an empty paragraph counts
        if paragraph.ends_section:
            self._section += 1
            self._begin_page()

    def _properties_of_paragraph(self, _: dict[str, str]) -> None:
        def end() -> None:
            if paragraph is not None and paragraph.properties.get("framePr") in ("drop", "margin"):
                paragraph.joins = ""

        paragraph = self.context.paragraph
        self.enter(end, described=None if paragraph is None else paragraph.properties)

    def _properties_of_table(self, _: dict[str, str]) -> None:
        self.enter(described=None if self.context.table is None else self.context.table.properties)

    def _properties_of_run(self, _: dict[str, str]) -> None:
        context = self.context
        if context.paragraph is not None and context.described is context.paragraph.properties:
            self.enter(described=context.paragraph.mark)

    def _run(self, _: dict[str, str]) -> None:
        run: Properties = {}
        self.enter(run=run, described=run)

    def _break(self, given: dict[str, str]) -> None:
        paragraph = self.context.paragraph
        if attribute(given, "type") == "page":
            self._begin_page()
        is_read = self._writer.markup.is_read or not any(self._look())
        if not is_read or self._n_silent or (paragraph is not None and paragraph.joins is not None):
            self._say(" ")
        else:
            self._writer.line_break()

    def _begin_page(self) -> None:
        self._floats = self._floats_behind = False

    def _end_section(self, _: dict[str, str]) -> None:
        self._document.sections.append({})
        if self.context.paragraph is not None:
            self.context.paragraph.ends_section = True

    def _numbers(self, kind: str, _: dict[str, str]) -> None:
        if self._document.sections:
            self.enter(described=self._document.sections[-1].setdefault(kind, {}))

    def _note_mark(self, kind: str, given: dict[str, str]) -> None:
        is_numbered = not is_on(attribute(given, "customMarkFollows") or "0")
        references = self._document.references
        at, *_ = references.setdefault((kind, attribute(given, "id")), (len(references), self._section, is_numbered))
        if is_numbered:
            self._say(f"[\1{at}\1]")

    # -- runs, equations and fields ------------------------------------------------------------------------------------------

    def _symbol(self, given: dict[str, str]) -> None:
        try:
            self._say(symbol(attribute(given, "font"), int(attribute(given, "char"), 16)))
        except ValueError:
            pass  # no number: nothing is shown

    def end_equation(self, text: str) -> None:
        self._say(text)

    def _field_mark(self, given: dict[str, str]) -> None:
        kind = attribute(given, "fldCharType")
        if kind == "begin":
            self._begin_field(_WordField())
        elif kind == "separate":
            self._begin_result()
        elif kind == "end":
            self._end_field()

    def _simple_field(self, given: dict[str, str]) -> None:
        self._begin_field(_WordField([attribute(given, "instr")]))
        self._begin_result()
        self.enter(self._end_field)

    def _begin_field(self, begun: _WordField) -> None:
        self._fields.append(begun)
        self._n_silent += 1

    def _begin_result(self) -> None:
        if not self._fields:
            return
        opened = self._fields[-1]
        self._n_silent -= not opened.shows
        opened.shows = True
        if self._is_header_or_footer and opened.name in _PAGE_FIELDS:
            self._say(PAGE_NUMBER)
            opened.shows = False
            self._n_silent += 1

    def _end_field(self) -> None:
        if not self._fields:
            return
        ended = self._fields.pop()
        self._n_silent -= not ended.shows
        if ended.name == "FORMCHECKBOX":
            self._say("☒" if ended.is_checked else "☐")

    def _check(self, given: dict[str, str]) -> None:
        if self._fields:
            self._fields[-1].is_checked = is_on(attribute(given, "val"))

    # -- tables, notes and other parts ---------------------------------------------------------------------------------------

    def _begin_table(self, _: dict[str, str]) -> None:
        self._writer.begin_table()
        self.enter(table=_Table(self._ground()), cell=None)

    def _row(self, _: dict[str, str]) -> None:
        table = self.context.table or _Table()
        table.row, table.column = table.row + 1, 0
        self._writer.builder.begin_row()
        self.enter(lambda: self._writer.builder.end_row(), table=table, cell=None)

    def _cell(self, _: dict[str, str]) -> None:
        self._writer.begin_cell()
        self.enter(self._end_cell, cell={}, table=self.context.table or _Table(), paragraph=None)

    def _end_cell(self) -> None:
        table, cell = self.context.table, self.context.cell
        assert table is not None
        assert cell is not None
        span = max(1, min(number(cell.get("gridSpan", "")), _MAX_COLUMNS - table.column))
        table.column += span
        if (merged := cell.get("vMerge")) is not None:
            self._writer.builder.merge_cell(MANY_ROWS if merged == "restart" else 0)
        self._writer.end_cell(span)

    def _note(self, given: dict[str, str]) -> None:
        def end() -> None:
            self.notes[attribute(given, "id")] = attribute(given, "author"), self._writer.end_story()

        given = dict(given)
        self._writer.begin_story()
        self.enter(end)

    def _link(self, kind: str, identity: str) -> None:
        self._writer.add(self._document.linked(kind, self._relations.get(identity), identity))

    def _n_seen(self) -> int:
        return self._writer.n_said + self._writer.left_out.total() + self._writer.markup.left_out.total()

    def _fallback(self, _: dict[str, str]) -> None:
        before = self.context.n_seen
        if before is not None and self._n_seen() > before:
            self.enter(is_skipped=True)  # a copy for older programs

    def _describe(self, text: str) -> None:
        if text.strip():
            self._say(f"[{' '.join(text.split())}]")

    def _object(self, given: dict[str, str]) -> None:
        self._leave_out("equation object" if given.get("ProgID", "").startswith("Equation") else "embedded object")

    def _leave_out(self, thing: str) -> None:
        self._writer.left_out[thing] += 1

    # -- drawings ------------------------------------------------------------------------------------------------------------

    def _begin_box(self, _: dict[str, str]) -> None:
        """Begin the text of a shape. One without a fill shows what it floats on."""
        fill = "" if self.context.shape is None else self.context.shape.get("fill", "")
        ground = parse_color(fill) or (UNKNOWN_COLOR if self._floats else self._ground())
        self._writer.begin_story()
        self.enter(self._writer.end_box, ground=ground, table=None, cell=None, paragraph=None)

    def _picture(self) -> None:
        if not self.context.is_object:  # which a picture shows
            self._leave_out("picture")
            self._note_float(UNKNOWN_COLOR)

    def _note_float(self, fill: Color | None) -> None:
        """Remember that something filled floats on the page: it may be below text that follows."""
        is_behind = self.context.is_behind
        if is_behind is not None and fill is not None and not fill.is_near(WHITE):
            self._floats, self._floats_behind = True, self._floats_behind or is_behind

    def _end_shape(self) -> None:
        shape = self.context.shape
        self._note_float(None if shape is None else parse_color(shape.get("fill", "")))

    def _fill(self, fill: str, _: dict[str, str]) -> None:
        if (shape := self.context.shape) is not None:
            shape.setdefault("fill", fill)

    def _fill_of_style(self, given: dict[str, str]) -> None:
        if given.get("idx") == "0":
            self._fill("auto", given)

    def _color_of_shape(self, given: dict[str, str], *, is_named: bool = False) -> None:
        """Take the first color of a shape."""
        shape, value = self.context.shape, given.get("lastClr") or given.get("val", "")
        is_first = shape is not None and "fill" not in shape
        self._fill(self._theme.color("", value) if is_named else value, given)
        self.enter(described=shape if is_first else None)

    def _changed_color(self, _: dict[str, str]) -> None:
        shape = self.context.shape
        if shape is not None and self.context.described is shape:
            shape["fill"] = PATTERN

    def _background(self, given: dict[str, str]) -> None:
        """Take the color of the pages, if it is shown."""
        settings = self._document.settings
        shown = None if settings is None else settings.find("{*}displayBackgroundShape")
        if shown is not None and is_on(attribute(shown.attrib, "val")):
            self._document.page = parse_color(attribute(given, "color")) or UNKNOWN_COLOR

    def _old_shape(self, given: dict[str, str]) -> None:
        """Begin a shape of VML. It is white unless it says something else."""
        style, fill = given.get("style", ""), given.get("fillcolor", "white").split(" ")[0]
        is_behind = "z-index:-" in style if "position:absolute" in style else self.context.is_behind
        fill = "auto" if given.get("filled") in ("f", "false") else fill
        self.enter(self._end_shape, shape={"fill": fill}, is_behind=is_behind)

    def _old_fill(self, given: dict[str, str]) -> None:
        is_pattern = given.get("type", "solid") != "solid" or "opacity" in given
        if is_pattern and self.context.shape is not None:
            self.context.shape["fill"] = PATTERN
        elif is_pattern and self._document.page is not None:
            self._document.page = UNKNOWN_COLOR

    def _old_picture(self, given: dict[str, str]) -> None:
        self._describe(attribute(given, "title"))
        self._picture()
