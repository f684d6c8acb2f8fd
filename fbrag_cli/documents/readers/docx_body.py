"""Read the elements of a part of a Word document: of its body, its headers, its notes or its comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from fbrag_cli.documents.readers.blocks import Block
from fbrag_cli.documents.readers.docx_numbering import Numbering
from fbrag_cli.documents.readers.docx_styles import Styles, is_on
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.headers_footers import PAGE_NUMBER
from fbrag_cli.documents.readers.symbols import symbol, without_glyphs
from fbrag_cli.documents.readers.writer import Writer
from fbrag_cli.documents.readers.xml import attribute

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
# Deleted text, former properties, readings beside characters, and properties whose elements would be mistaken for text.
_SKIPPED = frozenset(
    "w:del w:moveFrom w:rt w:sdtPr w:rPrChange w:pPrChange w:sectPrChange w:tblPrChange w:trPrChange w:tcPrChange"
    " w:numberingChange w:tblGridChange w:tblPrExChange w:tblPr w:tabs".split()
)
_PROPERTIES = ("pStyle", "numId", "ilvl", "outlineLvl", "framePr", "vanish", "rStyle", "vertAlign", "rFonts")
_MAX_COLUMNS = 63  # as Word allows
_MAX_INSTRUCTION = 100  # characters of each piece, and pieces: the name of a field is the first word
_PAGE_FIELDS = frozenset(("PAGE", "NUMPAGES", "SECTIONPAGES"))


@dataclass(slots=True)
class Note:
    """A footnote, an endnote or a comment. author: that of a comment."""

    author: str
    blocks: list[Block]


@dataclass(slots=True)
class _Paragraph:
    """An open paragraph. number, depth: its numbering and the level in it, if it has its own. joins: what separates it from the
    next one, a part of which it is; None for others. hidden: whether its end is."""

    style: str
    number: str = ""
    depth: int | None = None
    outline: int | None = None
    joins: str | None = None
    hidden: bool = False


@dataclass(slots=True)
class _Field:
    """An open field. is_silent: whether its result is the number of a page. is_checked: state of a check box."""

    instruction: list[str] = field(default_factory=list)
    is_silent: bool = False
    is_checked: bool = False

    @property
    def name(self) -> str:
        words = "".join(self.instruction).split()
        return words[0].upper() if words else ""


class _Names(dict[str, str]):
    """Names of elements with the usual prefix of their namespace, as "w:p", by their names in lxml."""

    def __missing__(self, tag: str) -> str:
        namespace, _, name = tag[1:].rpartition("}")
        self[tag] = found = _PREFIXES.get(namespace, "?:") + name
        return found


class Part:
    """The target of lxml's parser for a part.

    writer: receives its text. links: returns the blocks of a part by kind and identity (r:id) of its relation. note_numbers:
    receives the numbers of the notes by kind and key, in the order of their references. is_header_or_footer: whether the part is
    one.

    headers_footers: kind ("header" or "footer") by the identity of each that the part names. notes: its notes or comments by key.
    """

    def __init__(
        self,
        writer: Writer,
        styles: Styles,
        numbering: Numbering,
        links: Callable[[str, str], list[Block]],
        note_numbers: dict[tuple[str, str], int],
        *,
        is_header_or_footer: bool = False,
    ) -> None:
        self._writer, self._styles, self._numbering, self._links = writer, styles, numbering, links
        self._note_numbers, self._is_header_or_footer = note_numbers, is_header_or_footer
        self.headers_footers: dict[str, str] = {}
        self.notes: dict[str, Note] = {}
        self._names = _Names()
        self._skipped = 0
        self._paragraphs: list[_Paragraph] = []
        self._in_properties = False  # of the innermost paragraph
        self._in_text = self._in_instruction = False
        self._run_is_hidden = self._is_raised = False
        self._font = ""
        self._fields: list[_Field] = []
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
            "w:t": self._letters,
            "w:tab": lambda _: self._say(" "),
            "w:ptab": lambda _: self._say(" "),
            "w:br": self._break,
            "w:cr": self._break,
            "w:noBreakHyphen": lambda _: self._say("-"),
            "w:sym": self._symbol,
            "w:fldChar": self._field_mark,
            "w:fldSimple": self._simple_field,
            "w:instrText": self._instruction,
            "w:checked": self._check,
            "w:default": self._check,
            "w:ddList": lambda _: self._leave_out("drop-down choice"),
            "w:tbl": lambda _: self._writer.begin_table(),
            "w:tr": self._row,
            "w:tc": self._cell,
            "w:gridSpan": self._span,
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
            "c:chart": lambda given: self._writer.add(self._links("chart", attribute(given, "id"))),
            "cx:chart": lambda given: self._writer.add(self._links("chartex", attribute(given, "id"))),
            "dgm:relIds": lambda given: self._writer.add(self._links("diagram", attribute(given, "dm"))),
            "o:OLEObject": self._object,
        }

    def _actions_at_ends(self) -> dict[str, Callable[[], object]]:
        return {
            "w:p": self._end_paragraph,
            "w:pPr": self._end_properties,
            "w:t": self._end_letters,
            "w:instrText": self._end_letters,
            "w:fldSimple": self._end_field,
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
        if self._skipped:
            self._skipped += 1
            return
        name = self._names[tag]
        if name in _SKIPPED:
            self._skipped = 1
            if name == "w:del" and (paragraph := self._described) is not None:
                paragraph.joins = " "
        elif self._equation is not None:
            self._equation.start(name.partition(":")[2], attributes)
        elif name in self._starts:
            self._starts[name](attributes)

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        name = self._names[tag]
        if self._equation is not None:
            if self._equation.is_open:
                self._equation.end()
            else:
                text, self._equation = self._equation.text(), None
                self._say(text)
        elif name in self._ends:
            self._ends[name]()

    def data(self, data: str) -> None:
        if self._skipped:
            return
        if self._equation is not None:
            self._equation.data(data)
        elif self._in_text:
            self._say(without_glyphs(data, self._font))
        elif self._in_instruction and self._fields:
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
        if self._paragraphs and self._paragraphs[-1].joins is not None and not self._run_is_hidden:
            self._writer.carry(text)
        else:
            self._writer.say(text, hidden=self._run_is_hidden, raised=self._is_raised)

    def _paragraph(self, _: dict[str, str]) -> None:
        paragraph = _Paragraph(self._styles.default)
        self._paragraphs.append(paragraph)
        self._in_properties = False
        self._writer.begin_paragraph(lambda: self._opening(paragraph))

    def _opening(self, paragraph: _Paragraph) -> tuple[int, str]:
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
        label = self._numbering.label(key, depth or 0)
        return level, label.text if label.is_outline or not label.text else "  " * (depth or 0) + label.text

    def _end_paragraph(self) -> None:
        paragraph = self._paragraphs.pop()
        has_text = self._writer.end_paragraph(paragraph.joins)
        if not has_text and not paragraph.hidden and paragraph.joins is None:
            self._opening(paragraph)  # an empty paragraph counts

    def _run(self, _: dict[str, str]) -> None:
        self._run_is_hidden = bool(self._paragraphs) and self._styles[self._paragraphs[-1].style].hidden
        self._is_raised, self._font = False, ""

    def _break(self, _: dict[str, str]) -> None:
        if self._run_is_hidden or (self._paragraphs and self._paragraphs[-1].joins is not None):
            self._say(" ")
        else:
            self._writer.line_break()

    def _note_mark(self, kind: str, given: dict[str, str]) -> None:
        numbers = self._note_numbers
        self._say(f"[{numbers.setdefault((kind, attribute(given, 'id')), len(numbers) + 1)}]")

    # -- properties ----------------------------------------------------------------------------------------------------------

    def _properties(self, _: dict[str, str]) -> None:
        self._in_properties = True

    def _end_properties(self) -> None:
        self._in_properties = False

    @property
    def _described(self) -> _Paragraph | None:
        """Return the paragraph whose properties are read."""
        return self._paragraphs[-1] if self._in_properties and self._paragraphs else None

    def _property(self, name: str, given: dict[str, str]) -> None:
        """Take a property of the paragraph whose properties are read, or of the open run."""
        value, paragraph = attribute(given, "val"), self._described
        if paragraph is None:
            match name:
                case "vanish":
                    self._run_is_hidden = is_on(value)
                case "rStyle" if self._styles[value].hidden:
                    self._run_is_hidden = True
                case "vertAlign":
                    self._is_raised = value == "superscript"
                case "rFonts":
                    self._font = attribute(given, "ascii")
            return
        match name:
            case "pStyle":
                paragraph.style = value
            case "numId":
                paragraph.number = value
            case "ilvl":
                paragraph.depth = min(_number_of(given), 8)
            case "outlineLvl":
                level = _number_of(given)
                paragraph.outline = level + 1 if level < 9 else 0
            case "framePr" if attribute(given, "dropCap") in ("drop", "margin"):
                paragraph.joins = ""
            case "vanish":
                paragraph.hidden = is_on(value)

    # -- runs, equations and fields ------------------------------------------------------------------------------------------

    def _letters(self, _: dict[str, str]) -> None:
        self._in_text = True

    def _instruction(self, _: dict[str, str]) -> None:
        self._in_instruction = True

    def _end_letters(self) -> None:
        self._in_text = self._in_instruction = False

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
            self._fields.append(_Field())
        elif kind == "separate":
            self._begin_result()
        elif kind == "end":
            self._end_field()

    def _simple_field(self, given: dict[str, str]) -> None:
        self._fields.append(_Field([attribute(given, "instr")]))
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
            self._spans[-1] = _number_of(given)

    def _end_cell(self) -> None:
        span = max(1, min(self._spans.pop(), _MAX_COLUMNS - self._columns))
        self._columns += span
        self._writer.end_cell(span)

    def _note(self, given: dict[str, str]) -> None:
        self._open_notes.append((attribute(given, "id"), attribute(given, "author")))
        self._writer.begin_story()

    def _end_note(self) -> None:
        key, author = self._open_notes.pop()
        self.notes[key] = Note(author, self._writer.end_story())

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


def _number_of(given: Mapping[str, str]) -> int:
    """Return the attribute "val" as a number; 0 if it is none."""
    value = attribute(given, "val")
    return int(value) if value.isdecimal() and len(value) < 10 else 0
