"""Read the text of a part of a Word document: body, header, notes or comments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.docx_styles import is_on
from fbrag_cli.documents.readers.docx_text import Found, Text, number_of, of
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.margins import PAGE_NUMBER
from fbrag_cli.documents.readers.symbols import symbol, without_glyphs

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
_MAX_INSTRUCTION = 100  # characters of each piece, and pieces: the name of a field is the first word
_MARGIN_FIELDS = frozenset(("PAGE", "NUMPAGES", "SECTIONPAGES"))


@dataclass(slots=True)
class Story:
    """Text of its own: a section of the body, a header, a note or a comment. key: that of a note or comment. author: that of a
    comment. margins: kind ("header", "footer") and identity of the headers and footers of a section."""

    blocks: list[Block]
    key: str = ""
    author: str = ""
    margins: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Field:
    """An open field. is_silent: whether its result is the number of a page. checked: state of a check box. choices: entries of a
    list, `chosen` of them. said_before: pieces of text before it."""

    instruction: list[str] = field(default_factory=list)
    is_silent: bool = False
    checked: bool = False
    choices: list[str] = field(default_factory=list)
    chosen: int = 0
    said_before: int = 0

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


class Body(Text):
    """The target of lxml's parser for a part. found: receives notes and what is left out. is_margin: whether it is a header or
    footer.

    stories: the parts of its text: sections of the body, or the notes or comments of their parts. anchors: text that each comment
    is on.
    """

    def __init__(self, found: Found, *, is_margin: bool = False) -> None:
        super().__init__(found)
        self.stories: list[Story] = []
        self.anchors: dict[str, str] = {}
        self._is_margin = is_margin
        self._names = _Names()
        self._skipped = 0
        self._in_text = self._in_instruction = False
        self._fields: list[_Field] = []
        self._equation: Equation | None = None
        self._choices: list[int] = []  # pieces of text before each open mc:AlternateContent
        self._references: list[tuple[str, str, str]] = []  # kind, type and identity of each header and footer of a section
        self._has_title_page = self._section_ends = False
        self._key = self._author = ""
        self._starts, self._ends = self._actions_at_starts(), self._actions_at_ends()

    def _actions_at_starts(self) -> dict[str, Callable[[dict[str, str]], None]]:
        properties = ("pStyle", "numId", "ilvl", "outlineLvl", "framePr", "vanish", "rStyle", "vertAlign", "rFonts")
        return {
            **{f"w:{name}": getattr(self, f"_on_{name}") for name in properties},
            "w:p": self._paragraph,
            "w:pPr": self._properties,
            "w:r": self._run,
            "w:t": self._letters,
            "w:tab": self._space,
            "w:ptab": self._space,
            "w:br": self._break,
            "w:cr": self._break,
            "w:noBreakHyphen": lambda _: self._say("-"),
            "w:sym": self._symbol,
            "w:fldChar": self._field_mark,
            "w:fldSimple": self._simple_field,
            "w:instrText": self._instruction,
            "w:checked": self._check,
            "w:default": self._check,
            "w:listEntry": self._choice,
            "w:result": self._chosen,
            "w:tbl": self._table,
            "w:tr": self._row,
            "w:tc": self._cell,
            "w:gridSpan": self._span,
            "w:txbxContent": self._box,
            "w:footnoteReference": lambda given: self._note("footnote", given),
            "w:endnoteReference": lambda given: self._note("endnote", given),
            "w:footnote": self._begin_story,
            "w:endnote": self._begin_story,
            "w:comment": self._begin_story,
            "w:commentRangeStart": self._begin_anchor,
            "w:commentRangeEnd": self._end_anchor,
            "w:headerReference": lambda given: self._margin("header", given),
            "w:footerReference": lambda given: self._margin("footer", given),
            "w:titlePg": self._title_page,
            "w:altChunk": lambda given: self._link("altChunk", of(given, "id")),
            "w:subDoc": lambda _: self._leave_out("subdocument"),
            "m:oMath": self._begin_equation,
            "mc:AlternateContent": lambda _: self._choices.append(self._n_said),
            "mc:Fallback": self._fallback,
            "wp:docPr": self._drawing,
            "v:imagedata": self._picture,
            "v:textpath": lambda given: self._say(given.get("string", "")),
            "c:chart": lambda given: self._link("chart", of(given, "id")),
            "cx:chart": lambda given: self._link("chartex", of(given, "id")),
            "dgm:relIds": lambda given: self._link("diagram", of(given, "dm")),
            "o:OLEObject": self._object,
        }

    def _actions_at_ends(self) -> dict[str, Callable[[], None]]:
        return {
            "w:p": self._end_paragraph_or_section,
            "w:pPr": self._end_properties,
            "w:t": self._end_letters,
            "w:instrText": self._end_letters,
            "w:fldSimple": self._end_field,
            "w:tbl": self._end_table,
            "w:tr": self._end_row,
            "w:tc": self._end_cell,
            "w:txbxContent": self._end_box,
            "w:footnote": self._end_story,
            "w:endnote": self._end_story,
            "w:comment": self._end_story,
            "w:sectPr": self._section,
            "mc:AlternateContent": self._end_choice,
        }

    # -- the parser's calls --------------------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped:
            self._skipped += 1
            return
        name = self._names[tag]
        if name in _SKIPPED:
            self._skipped = 1
            if name == "w:del" and self._in_properties and self._paragraphs:
                self._paragraphs[-1].joins = " "
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
            self._say(without_glyphs(data.replace("\u00ad", ""), self._font))
        elif self._in_instruction and self._fields:
            instruction = self._fields[-1].instruction
            if len(instruction) < _MAX_INSTRUCTION:
                instruction.append(data[:_MAX_INSTRUCTION])

    def close(self) -> None:
        self._end_story()

    # -- runs and fields -----------------------------------------------------------------------------------------------------

    def _letters(self, _: dict[str, str]) -> None:
        self._in_text = True

    def _instruction(self, _: dict[str, str]) -> None:
        self._in_instruction = True

    def _end_letters(self) -> None:
        self._in_text = self._in_instruction = False

    def _symbol(self, given: dict[str, str]) -> None:
        try:
            self._say(symbol(of(given, "font"), int(of(given, "char"), 16)))
        except ValueError:
            pass  # no number: nothing is shown

    def _begin_equation(self, _: dict[str, str]) -> None:
        self._equation = Equation()

    def _field_mark(self, given: dict[str, str]) -> None:
        kind = of(given, "fldCharType")
        if kind == "begin":
            self._fields.append(_Field(said_before=self._n_said))
        elif kind == "separate":
            self._begin_result()
        elif kind == "end":
            self._end_field()

    def _simple_field(self, given: dict[str, str]) -> None:
        self._fields.append(_Field([of(given, "instr")]))
        self._begin_result()

    def _begin_result(self) -> None:
        opened = self._fields[-1] if self._fields and self._is_margin else None
        if opened is not None and not opened.is_silent and opened.name in _MARGIN_FIELDS:
            self._say(PAGE_NUMBER)
            opened.is_silent = True
            self._silent += 1

    def _end_field(self) -> None:
        if not self._fields:
            return
        ended = self._fields.pop()
        self._silent -= ended.is_silent
        if ended.name == "FORMCHECKBOX":
            self._say("☒" if ended.checked else "☐")
        elif ended.name == "FORMDROPDOWN" and self._n_said == ended.said_before:
            self._say("".join(ended.choices[ended.chosen : ended.chosen + 1]))

    def _check(self, given: dict[str, str]) -> None:
        if self._fields:
            self._fields[-1].checked = is_on(of(given, "val"))

    def _choice(self, given: dict[str, str]) -> None:
        if self._fields:
            self._fields[-1].choices.append(of(given, "val"))

    def _chosen(self, given: dict[str, str]) -> None:
        if self._fields:
            self._fields[-1].chosen = number_of(given)

    # -- sections, notes and comments ----------------------------------------------------------------------------------------

    def _end_paragraph_or_section(self) -> None:
        self._end_paragraph()
        if self._section_ends:
            self._end_story()

    def _begin_story(self, given: dict[str, str]) -> None:
        self._key, self._author = of(given, "id"), of(given, "author")

    def _end_story(self) -> None:
        """Finish a section of the body, a note or a comment. Within a paragraph, table or box, where none ends, do nothing."""
        if self._paragraphs or self._outer or self._builder.in_row:
            return
        self._flush()
        shown = [(kind, identity) for kind, which, identity in self._references if which != "first" or self._has_title_page]
        self.stories.append(Story(self._builder.blocks(), self._key, self._author, shown))
        self._builder = BlockBuilder()
        self._in_list = self._section_ends = self._has_title_page = False
        self._references = []
        self._key = self._author = ""

    def _margin(self, kind: str, given: dict[str, str]) -> None:
        self._references.append((kind, of(given, "type"), of(given, "id")))

    def _title_page(self, given: dict[str, str]) -> None:
        self._has_title_page = is_on(of(given, "val"))

    def _section(self) -> None:
        if self._paragraphs:
            self._section_ends = not self._outer and not self._builder.in_row
        else:
            self._end_story()

    def _begin_anchor(self, given: dict[str, str]) -> None:
        self._quotes.begin(of(given, "id"))

    def _end_anchor(self, given: dict[str, str]) -> None:
        key = of(given, "id")
        if (quote := self._quotes.end(key)) is not None:
            self.anchors[key] = quote

    # -- drawings and other parts --------------------------------------------------------------------------------------------

    def _end_choice(self) -> None:
        self._choices.pop()

    def _fallback(self, _: dict[str, str]) -> None:
        if self._choices and self._n_said > self._choices[-1]:
            self._skipped = 1  # a copy for older programs

    def _drawing(self, given: dict[str, str]) -> None:
        self._describe(given.get("descr", "").strip() or given.get("title", ""))

    def _picture(self, given: dict[str, str]) -> None:
        self._describe(of(given, "title"))

    def _describe(self, text: str) -> None:
        if text.strip():
            self._say(f"[{' '.join(text.split())}]")

    def _object(self, given: dict[str, str]) -> None:
        self._leave_out("equation object" if given.get("ProgID", "").startswith("Equation") else "embedded object")

    def _link(self, kind: str, identity: str) -> None:
        self._add(self._found.links(kind, identity))
