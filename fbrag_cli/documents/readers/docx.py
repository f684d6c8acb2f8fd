"""Read a Word document: headings and lists with their numbers, tables, notes, equations, charts, headers and comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import STRUCK, Extracted, comment
from fbrag_cli.documents.readers.blocks import MANY_ROWS, Block, extracted
from fbrag_cli.documents.readers.charts import read_linked
from fbrag_cli.documents.readers.docx_numbering import TOGGLES, Numbering, Style, Styles, is_on
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.package import Archive, Names, Relation, attribute, number
from fbrag_cli.documents.readers.symbols import symbol, without_glyphs
from fbrag_cli.documents.readers.writer import PAGE_NUMBER, Writer
from fbrag_cli.documents.source import Source

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
_DELETIONS = frozenset(("w:del", "w:moveFrom"))
# Former properties, readings next to characters, and properties whose elements would be mistaken for text.
_SKIPPED = frozenset(
    "w:rt w:sdtPr w:rPrChange w:pPrChange w:sectPrChange w:tblPrChange w:trPrChange w:tcPrChange"
    " w:numberingChange w:tblGridChange w:tblPrExChange w:tblPr w:tabs".split()
)
_PROPERTIES = ("pStyle", "numId", "ilvl", "outlineLvl", "framePr", *TOGGLES, "rStyle", "vertAlign", "rFonts")
_SHIFTS = {"superscript": "^", "subscript": "_"}
_MAX_COLUMNS = 63  # as Word allows
_MAX_INSTRUCTION = 100  # characters of each piece, and pieces: the name of a field is the first word
_PAGE_FIELDS = frozenset(("PAGE", "NUMPAGES", "SECTIONPAGES"))


def read_docx(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a Word document. Sections are titles and the paragraphs that have an outline level (headings), with their numbers.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    return _WordDocument(source, markup).read()


class _WordDocument:
    """A Word document.

    writer: receives its text. styles: its styles. note_numbers: numbers of the notes by kind and key, in the order of their
    references.
    """

    def __init__(self, source: Source, markup: bool) -> None:
        self._archive = archive = Archive(source, "a Word document")
        named = (each.target for each in archive.relations("") if each.kind == "officeDocument")
        self._main = next((name for name in named if name in archive), _DOCUMENT)
        self._relations = archive.relations(self._main)
        self.styles, self._numbers = Styles(self._tree("styles")), self._tree("numbering")
        self.writer = Writer(markup)
        self.note_numbers: dict[tuple[str, str], int] = {}
        self._linked: set[str] = set()

    def read(self) -> Extracted:
        targets = {each.identity: each.target for each in self._relations}
        named = self._read(self._main).headers_footers.items()
        for name, kind in {targets[identity]: kind for identity, kind in named if identity in targets}.items():
            if name in self._archive:
                self.writer.begin_story()
                self._read(name, is_header_or_footer=True)
                self.writer.add_header_or_footer(kind, self.writer.end_story())
        blocks = [*self.writer.blocks(), *self._notes()]
        comments = list(self._comments())
        return extracted(blocks, _MEDIA_TYPE, self.writer.left_out, self.writer.markup, comments)

    def _part(self, kind: str) -> str | None:
        """Return the name of the part that the document names as its `kind`, if it is there."""
        return next((each.target for each in self._relations if each.kind == kind and each.target in self._archive), None)

    def _tree(self, kind: str) -> _Element | None:
        name = self._part(kind)
        return None if name is None else self._archive.tree(name)

    def _read(self, name: str, *, is_header_or_footer: bool = False) -> _WordPart:
        """Read a part, whose paragraphs are counted by themselves."""
        relations = {each.identity: each for each in self._archive.relations(name)}
        part = _WordPart(self, Numbering(self._numbers, self.styles), relations, is_header_or_footer=is_header_or_footer)
        self._archive.feed(name, part)
        return part

    def _notes(self) -> Iterator[Block]:
        """Yield the footnotes and endnotes in the order of their references, as "1. TEXT"."""
        kinds = dict.fromkeys(kind for kind, _ in self.note_numbers)
        parts = {kind: self._read(name).notes for kind in kinds if (name := self._part(f"{kind}s"))}
        for (kind, key), at in self.note_numbers.items():
            _, blocks = parts.get(kind, {}).get(key, ("", []))
            yield from (Block(f"{'' if place else f'{at}. '}{each.line}", group="notes") for place, each in enumerate(blocks))

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
class _WordParagraph:
    """An open paragraph. number, depth: its numbering and the level in it, if it has its own. joins: what separates it from the
    next one, a part of which it is; None for others. hidden: whether its end is."""

    style: str
    number: str = ""
    depth: int | None = None
    outline: int | None = None
    joins: str | None = None
    hidden: bool = False


@dataclass(slots=True)
class _WordField:
    """An open field. is_silent: whether its result is the number of a page. is_checked: state of a check box."""

    instruction: list[str] = field(default_factory=list)
    is_silent: bool = False
    is_checked: bool = False

    @property
    def name(self) -> str:
        words = "".join(self.instruction).split()
        return words[0].upper() if words else ""


class _WordPart:
    """The target of lxml's parser for a part: the body, a header, notes or comments.

    relations: of the part, by identity. is_header_or_footer: whether the part is one.
    headers_footers: kind ("header" or "footer") by the identity of each that the part names. notes: author and blocks of each of
    its notes or comments, by key.
    """

    def __init__(
        self, document: _WordDocument, numbering: Numbering, relations: Mapping[str, Relation], *, is_header_or_footer: bool
    ) -> None:
        self._document, self._numbering, self._relations = document, numbering, relations
        self._writer, self._styles, self._is_header_or_footer = document.writer, document.styles, is_header_or_footer
        self.headers_footers: dict[str, str] = {}
        self.notes: dict[str, tuple[str, list[Block]]] = {}
        self._names = Names(_PREFIXES)
        self._innermost = ""  # name of the open element, if no other has begun or ended in it
        self._skipped = 0
        self._paragraphs: list[_WordParagraph] = []
        self._described: _WordParagraph | None = None  # paragraph whose properties are read
        self._toggles: dict[str, bool] = {}  # those of the open run itself
        self._run_style = Style()
        self._shift = self._font = ""
        self._deletions = 0  # open ones
        self._fields: list[_WordField] = []
        self._silent = 0  # open fields that show the number of a page
        self._equation: Equation | None = None
        self._choices: list[int] = []  # pieces of text before each open mc:AlternateContent
        self._columns = 0  # of the open row
        self._spans: list[int] = []  # columns of each open cell
        self._open_notes: list[tuple[str, str]] = []  # key and author of each
        self._starts, self._ends = self._actions_at_starts(), self._actions_at_ends()

    def _actions_at_starts(self) -> dict[str, Callable[[dict[str, str]], object]]:
        return {
            **{f"w:{name}": partial(self._property, name) for name in _PROPERTIES},
            "w:p": self._paragraph,
            "w:pPr": self._properties,
            "w:r": self._run,
            "w:tab": lambda _: self._say(" "),
            "w:ptab": lambda _: self._say(" "),
            "w:br": self._break,
            "w:cr": self._break,
            "w:noBreakHyphen": lambda _: self._say("-"),
            "w:sym": self._symbol,
            "w:fldChar": self._field_mark,
            "w:fldSimple": self._simple_field,
            "w:checked": self._check,
            "w:default": self._check,
            "w:ddList": lambda _: self._leave_out("drop-down choice"),
            "w:tbl": lambda _: self._writer.begin_table(),
            "w:tr": self._row,
            "w:tc": self._cell,
            "w:gridSpan": self._span,
            "w:vMerge": self._merge,
            "w:txbxContent": lambda _: self._writer.begin_story(),
            "w:footnoteReference": lambda given: self._note_mark("footnote", given),
            "w:endnoteReference": lambda given: self._note_mark("endnote", given),
            "w:footnote": self._note,
            "w:endnote": self._note,
            "w:comment": self._note,
            "w:commentRangeStart": lambda given: self._writer.quotes.begin(attribute(given, "id")),
            "w:commentRangeEnd": lambda given: self._writer.quotes.end(attribute(given, "id")),
            "w:headerReference": lambda given: self.headers_footers.setdefault(attribute(given, "id"), "header"),
            "w:footerReference": lambda given: self.headers_footers.setdefault(attribute(given, "id"), "footer"),
            "w:altChunk": lambda _: self._leave_out("embedded document"),
            "w:subDoc": lambda _: self._leave_out("subdocument"),
            "m:oMath": self._begin_equation,
            "mc:AlternateContent": lambda _: self._choices.append(self._writer.n_said),
            "mc:Fallback": self._fallback,
            "wp:docPr": lambda given: self._describe(given.get("descr", "").strip() or given.get("title", "")),
            "v:imagedata": lambda given: self._describe(attribute(given, "title")),
            "v:textpath": lambda given: self._say(given.get("string", "")),
            "c:chart": lambda given: self._link("chart", attribute(given, "id")),
            "cx:chart": lambda given: self._link("chart", attribute(given, "id")),
            "dgm:relIds": lambda given: self._link("diagram", attribute(given, "dm")),
            "o:OLEObject": self._object,
        }

    def _actions_at_ends(self) -> dict[str, Callable[[], object]]:
        return {
            "w:p": self._end_paragraph,
            "w:pPr": self._end_properties,
            "w:fldSimple": self._end_field,
            "w:r": lambda: self._run({}),  # what follows is not in it, as an equation
            "w:tr": lambda: self._writer.builder.end_row(),
            "w:tc": self._end_cell,
            "w:txbxContent": self._writer.end_box,
            "w:footnote": self._end_note,
            "w:endnote": self._end_note,
            "w:comment": self._end_note,
            "mc:AlternateContent": self._choices.pop,
        }

    # -- the parser's calls --------------------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = self._innermost = self._names[tag]
        if self._skipped:
            self._skipped += 1
            return
        if name in _DELETIONS:
            self._deletions += 1
            if not self._writer.markup.is_read:
                self._skipped = 1
                if name == "w:del" and self._described is not None:
                    self._described.joins = " "
        elif name in _SKIPPED:
            self._skipped = 1
        elif self._equation is not None:
            self._equation.start(name.partition(":")[2], attributes)
        elif name in self._starts:
            self._starts[name](attributes)

    def end(self, tag: str) -> None:
        name, self._innermost = self._names[tag], ""
        if self._skipped:
            self._skipped -= 1
        if self._skipped:
            return
        if name in _DELETIONS:
            self._deletions -= 1
        elif name in _SKIPPED:
            pass
        elif self._equation is not None:
            if self._equation.end():
                text, self._equation = self._equation.text(), None
                self._say(text)
        elif name in self._ends:
            self._ends[name]()

    def data(self, data: str) -> None:
        if self._skipped:
            if self._deletions and self._innermost in _TEXT:
                self._writer.markup.leave_out(data, STRUCK)
        elif self._equation is not None:
            self._equation.data(data)
        elif self._innermost in _TEXT:
            self._say(without_glyphs(data, self._font))
        elif self._innermost == "w:instrText" and self._fields:
            instruction = self._fields[-1].instruction
            if len(instruction) < _MAX_INSTRUCTION:
                instruction.append(data[:_MAX_INSTRUCTION])

    def close(self) -> None:
        pass

    # -- paragraphs ----------------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        """Add text that is shown."""
        if self._silent:
            return
        hidden, struck = self._is_on("vanish"), self._is_struck
        if self._paragraphs and self._paragraphs[-1].joins is not None and not hidden:
            self._writer.carry(text, struck=struck)
        else:
            self._writer.say(text, hidden=hidden, struck=struck, shift=self._shift)

    @property
    def _is_struck(self) -> bool:
        return self._deletions > 0 or self._is_on("strike") or self._is_on("dstrike")

    def _is_on(self, toggle: str) -> bool:
        """Return whether a property of the open run is on: its own, or else that of one of its two styles, but not of both."""
        if toggle in self._toggles:
            return self._toggles[toggle]
        style = self._styles[self._paragraphs[-1].style] if self._paragraphs else Style()
        return style.toggles.get(toggle, False) != self._run_style.toggles.get(toggle, False)

    def _paragraph(self, _: dict[str, str]) -> None:
        paragraph = _WordParagraph(self._styles.default)
        self._paragraphs.append(paragraph)
        self._described = None
        self._writer.begin_paragraph(lambda: self._opening(paragraph))

    def _opening(self, paragraph: _WordParagraph) -> tuple[int, str]:
        """Count a paragraph. Return the level of its heading, and its number with its indent."""
        style = self._styles[paragraph.style]
        level = style.outline if paragraph.outline is None else paragraph.outline
        key, depth = paragraph.number or style.number, paragraph.depth
        if key in ("", "0"):
            return level or 0, ""
        if depth is None:
            depth = self._numbering.depth_of(key, paragraph.style)
        if depth is None and not paragraph.number:
            depth = self._numbering.depth_of(key, style.numbered_by) if style.depth is None else style.depth
        return level, self._numbering.label(key, depth or 0)

    def _end_paragraph(self) -> None:
        paragraph = self._paragraphs.pop()
        has_text = self._writer.end_paragraph(paragraph.joins)
        if not has_text and not paragraph.hidden and paragraph.joins is None:
            self._opening(paragraph)  # an empty paragraph counts

    def _run(self, _: dict[str, str]) -> None:
        self._toggles, self._run_style = {}, Style()
        self._shift = self._font = ""

    def _break(self, _: dict[str, str]) -> None:
        is_left_out = self._is_on("vanish") or (self._is_struck and not self._writer.markup.is_read)
        if is_left_out or (self._paragraphs and self._paragraphs[-1].joins is not None):
            self._say(" ")
        else:
            self._writer.line_break()

    def _note_mark(self, kind: str, given: dict[str, str]) -> None:
        numbers = self._document.note_numbers
        self._say(f"[{numbers.setdefault((kind, attribute(given, 'id')), len(numbers) + 1)}]")

    # -- properties ----------------------------------------------------------------------------------------------------------

    def _properties(self, _: dict[str, str]) -> None:
        self._described = self._paragraphs[-1] if self._paragraphs else None

    def _end_properties(self) -> None:
        self._described = None

    def _property(self, name: str, given: dict[str, str]) -> None:
        """Take a property of the paragraph whose properties are read, or of the open run."""
        value, paragraph = attribute(given, "val"), self._described
        if paragraph is None:
            match name:
                case _ if name in TOGGLES:
                    self._toggles[name] = is_on(value)
                case "rStyle":
                    self._run_style = self._styles[value]
                case "vertAlign":
                    self._shift = _SHIFTS.get(value, "")
                case "rFonts":
                    self._font = attribute(given, "ascii")
            return
        match name:
            case "pStyle":
                paragraph.style = value
            case "numId":
                paragraph.number = value
            case "ilvl":
                paragraph.depth = min(number(attribute(given, "val")), 8)
            case "outlineLvl":
                level = number(attribute(given, "val"))
                paragraph.outline = level + 1 if level < 9 else 0
            case "framePr" if attribute(given, "dropCap") in ("drop", "margin"):
                paragraph.joins = ""
            case "vanish":
                paragraph.hidden = is_on(value)

    # -- runs, equations and fields ------------------------------------------------------------------------------------------

    def _symbol(self, given: dict[str, str]) -> None:
        try:
            self._say(symbol(attribute(given, "font"), int(attribute(given, "char"), 16)))
        except ValueError:
            pass  # no number: nothing is shown

    def _begin_equation(self, _: dict[str, str]) -> None:
        self._equation = Equation()

    def _field_mark(self, given: dict[str, str]) -> None:
        kind = attribute(given, "fldCharType")
        if kind == "begin":
            self._fields.append(_WordField())
        elif kind == "separate":
            self._begin_result()
        elif kind == "end":
            self._end_field()

    def _simple_field(self, given: dict[str, str]) -> None:
        self._fields.append(_WordField([attribute(given, "instr")]))
        self._begin_result()

    def _begin_result(self) -> None:
        opened = self._fields[-1] if self._fields and self._is_header_or_footer else None
        if opened is not None and not opened.is_silent and opened.name in _PAGE_FIELDS:
            self._say(PAGE_NUMBER)
            opened.is_silent = True
            self._silent += 1

    def _end_field(self) -> None:
        if not self._fields:
            return
        ended = self._fields.pop()
        self._silent -= ended.is_silent
        if ended.name == "FORMCHECKBOX":
            self._say("☒" if ended.is_checked else "☐")

    def _check(self, given: dict[str, str]) -> None:
        if self._fields:
            self._fields[-1].is_checked = is_on(attribute(given, "val"))

    # -- tables, notes, drawings and other parts -----------------------------------------------------------------------------

    def _row(self, _: dict[str, str]) -> None:
        self._columns = 0
        self._writer.builder.begin_row()

    def _cell(self, _: dict[str, str]) -> None:
        self._spans.append(1)
        self._writer.begin_cell()

    def _span(self, given: dict[str, str]) -> None:
        if self._spans:
            self._spans[-1] = number(attribute(given, "val"))

    def _merge(self, given: dict[str, str]) -> None:
        if self._spans:
            self._writer.builder.merge_cell(MANY_ROWS if attribute(given, "val") == "restart" else 0)

    def _end_cell(self) -> None:
        span = max(1, min(self._spans.pop(), _MAX_COLUMNS - self._columns))
        self._columns += span
        self._writer.end_cell(span)

    def _note(self, given: dict[str, str]) -> None:
        self._open_notes.append((attribute(given, "id"), attribute(given, "author")))
        self._writer.begin_story()

    def _end_note(self) -> None:
        key, author = self._open_notes.pop()
        self.notes[key] = author, self._writer.end_story()

    def _link(self, kind: str, identity: str) -> None:
        self._writer.add(self._document.linked(kind, self._relations.get(identity), identity))

    def _fallback(self, _: dict[str, str]) -> None:
        if self._choices and self._writer.n_said > self._choices[-1]:
            self._skipped = 1  # a copy for older programs

    def _describe(self, text: str) -> None:
        if text.strip():
            self._say(f"[{' '.join(text.split())}]")

    def _object(self, given: dict[str, str]) -> None:
        self._leave_out("equation object" if given.get("ProgID", "").startswith("Equation") else "embedded object")

    def _leave_out(self, thing: str) -> None:
        self._writer.left_out[thing] += 1
