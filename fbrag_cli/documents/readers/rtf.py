"""Read a rich text document (RTF 1.9): its groups and control words."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.document import STRUCK, Extracted, comment
from fbrag_cli.documents.hidden import UNKNOWN_COLOR, Color, Look, is_hidden
from fbrag_cli.documents.readers.blocks import Block, extracted
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.number_formats import repeated, roman, upper
from fbrag_cli.documents.readers.symbols import symbol
from fbrag_cli.documents.readers.writer import PAGE_NUMBER, Writer
from fbrag_cli.documents.source import Source

_CODE_PAGE = re.compile(rb"\\ansicpg(\d{1,5})(?!\d)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_COLOR_TABLE = re.compile(rb"\{\\colortbl([^{}]*)\}")
_MAX_COLORS = 100_000  # bytes of their table
_LEVEL = re.compile(rb"\\(red|green|blue)(\d{1,3})")
_PATTERN = -1  # number of a fill of several colors
_HEAD = 1000  # bytes in which a document names its code page
_TOKEN = re.compile(
    rb"\\'([0-9a-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})?\d* ?|\\([^a-zA-Z])|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\", re.DOTALL
)
_SKIPPED = re.compile(rb"\\bin(\d{1,10}) ?|\\[^a-zA-Z]|[{}]", re.DOTALL)
_CHARACTERS = {
    **{"emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "bullet": "•"},
    **{"tab": " ", "emspace": " ", "enspace": " ", "qmspace": " ", "nestcell": " ", "~": " ", "_": "-", "\t": " "},
}
_CODE_PAGES = {
    **{0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "big5", 161: "cp1253"},
    **{162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250"},
    **{254: "cp437", 255: "cp437"},
}
_SYMBOLS = 2  # character set of symbol fonts
# Groups whose text is not shown.
_NOT_READ = frozenset(
    "colortbl stylesheet info pict nonshppict generator listtable listoverridetable filetbl revtbl rsidtbl themedata datastore"
    " colorschememapping latentstyles xmlnstbl bkmkstart bkmkend objdata sn sv xe tc rxe template operator private ftnsep ftnsepc"
    " aftnsep aftnsepc ftncn aftncn atnid atndate atnref atnparent atntime atnicn falt panose listname leveltext levelnumbers"
    " pgdsctbl docvar mmathPr mctrlPr".split()
)
# Groups after "\*" whose text is shown, and those that are read for another reason.
_READ = frozenset(
    "footnote shpinst shptxt annotation atnauthor atrfstart atrfend fldinst objclass ud do dptxbxtext shppict pn pntext listtext"
    " moMathPara moMath header footer".split()
)
_HEADERS_FOOTERS = {
    **dict.fromkeys(("header", "headerl", "headerr", "headerf"), "header"),
    **dict.fromkeys(("footer", "footerl", "footerr", "footerf"), "footer"),
}
# Groups whose text is not said, but says something of the document.
_COLLECTED = frozenset("fldinst atnauthor listtext pntext atrfstart atrfend objclass".split())
_MAX_COLLECTED = 1000  # characters of a field's instruction, an author or a list's number
_BULLETS = frozenset("•·o▪▫-–—§■□●○◦➢❖→✓*")
_NUMERALS: tuple[tuple[str, Callable[[int], str]], ...] = (
    *(("ar", str), ("alc", repeated), ("auc", upper(repeated)), ("rlc", roman), ("ruc", upper(roman))),
)
_NOTE_FORMS = {f"{kind}n{form}": write for kind in ("ftn", "aftn") for form, write in _NUMERALS}
_PAGE_FIELDS = ("PAGE", "NUMPAGES")
_LAST_LEVEL = 9  # outline level that means running text


def read_rtf(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a rich text document. Sections are its paragraphs with an outline level (headings).

    codec: encoding of bytes where the document names no code page; None for cp1252. Any bytes are a document: nothing is raised.
    """
    codec = codec or _code_page(source.data)
    body = _RichText(_escaped(source.data, codec), codec, markup)
    blocks = [replace(each, text=without_surrogates(each.text), prefix=without_surrogates(each.prefix)) for each in body.read()]
    n_lost = sum(block.line.count("\ufffd") for block in blocks)
    warning = f"{source.name} has {n_lost} characters that its code page does not have, read as \ufffd"
    comments = map(without_surrogates, body.comments)
    return extracted(blocks, "application/rtf", body.left_out, body.markup, comments, [warning] if n_lost else [])


def _escaped(data: bytes, codec: str) -> bytes:
    """Write the characters beyond ASCII as "\\'83\\'5c": their second byte may be a backslash or a brace."""
    if data.isascii() or codec.startswith("cp125"):
        return data
    text = data.decode(codec, "surrogateescape")
    escaped = _NOT_ASCII.sub(lambda found: "".join(f"\\'{byte:02x}" for byte in found[0].encode(codec, "surrogateescape")), text)
    return escaped.encode(codec, "surrogateescape")


def _colors(data: bytes) -> dict[int, Color]:
    """Return the colors of a document by their numbers, without the automatic one."""
    table = _COLOR_TABLE.search(data)
    colors = {_PATTERN: UNKNOWN_COLOR}
    for at, entry in enumerate(table[1][:_MAX_COLORS].split(b";") if table else ()):
        levels = {name: min(int(level), 255) for name, level in _LEVEL.findall(entry)}
        if levels and at:
            colors[at] = Color(*(levels.get(name, 0) for name in (b"red", b"green", b"blue")))
    return colors


def _code_page(data: bytes) -> str:
    """Return the code page that a document names, if Python has it; otherwise cp1252."""
    match = _CODE_PAGE.search(data[:_HEAD])
    try:
        return codecs.lookup(f"cp{int(match[1])}").name if match else "cp1252"
    except LookupError:
        return "cp1252"


class _GroupState(NamedTuple):
    """What holds until the end of a group. font: number of the font. fallback: characters after each Unicode escape that stand
    for it. size: of letters, in half points. color, fill, paragraph_fill: numbers of the colors of the text, below it and below
    its paragraph; 0 for none. in_fonts: whether it is the table of fonts. equation: takes the text of the open equation.
    collected: takes text that is not said."""

    font: str = ""
    fallback: int = 1
    hidden: bool = False
    deleted: bool = False
    struck: bool = False
    double_struck: bool = False
    shift: str = ""
    in_table: bool = False
    in_object: bool = False
    outline: int = _LAST_LEVEL
    size: int | None = None
    color: int = 0
    fill: int = 0
    paragraph_fill: int = 0
    in_fonts: bool = False
    in_header_or_footer: bool = False
    equation: Equation | None = None
    collected: list[str] | None = None


@dataclass(slots=True)
class _StoryState:
    """Where the innermost text has come to. mark: number of a list that its next paragraph begins with. ground: color around it.
    fills: numbers of the colors of the cells of a row, and then of the cell that is defined. n_cells: cells of the row so far."""

    mark: str = ""
    row_is_defined: bool = False
    in_row: bool = False
    in_cell: bool = False
    ground: Color | None = None
    fills: list[int] = field(default_factory=lambda: [0])
    n_cells: int = 0


class _RichText:
    """A rich text document. data: its bytes. codec: encoding of its bytes in fonts without a character set of their own.

    markup: whether struck-out text is read. left_out: number of each thing that was not read. comments: the comments.
    """

    def __init__(self, data: bytes, codec: str, markup: bool) -> None:
        self._writer = Writer(markup)
        self.left_out, self.markup = self._writer.left_out, self._writer.markup
        self.comments: list[str] = []
        self._data, self._codec = data, codec
        self._at = 0
        self._state = _GroupState()
        self._colors = _colors(data)
        self._stories = [_StoryState(ground=UNKNOWN_COLOR if b"\\viewbksp1" in data else None)]
        self._author = self._anchor = ""  # of the next comment
        self._groups: list[tuple[_GroupState, Callable[[], object] | None]] = []
        self._end: Callable[[], object] | None = None  # what to do at the end of the open group
        self._is_first = False  # whether a group has just begun
        self._is_starred = False
        self._n_skipped = 0  # characters that mean a Unicode escape
        self._bytes = bytearray()
        self._fonts: dict[str, tuple[str, str]] = {}  # code page and name of each font
        self._field = ""
        self._default_font = ""
        self._notes = Counter[str]()
        self._note_forms: dict[str, Callable[[int], str]] = {"footnote": str, "endnote": roman}
        self._is_endnote = False  # whether the open note is one
        self._skips_next = False  # whether the next group says in another way what the one after it says

    def read(self) -> list[Block]:
        """Read the whole document, and return its blocks."""
        match, data = _TOKEN.match, self._data
        while (token := match(data, self._at)) is not None:
            self._at = token.end()
            code, word, number, sign, brace, text = token.groups()
            if text is not None:
                self._characters(text)
            elif code is not None:
                self._characters(bytes((int(code, 16),)))
            elif word is not None:
                self._word(word.decode("ascii"), None if number is None else int(number))
            elif brace is not None:
                self._flush()
                self._begin_group() if brace == b"{" else self._end_group()
            elif sign is not None:
                self._sign(sign.decode("latin-1"))
        self._flush()
        while self._groups:
            self._end_group()
        self._end_row()
        return self._writer.blocks()

    # -- groups --------------------------------------------------------------------------------------------------------------

    def _begin_group(self) -> None:
        self._groups.append((self._state, self._end))
        self._end = None
        self._is_first, self._n_skipped, self._is_starred = True, 0, False
        if self._skips_next:
            self._skips_next = False
            self._skip_group()

    def _end_group(self) -> None:
        self._is_first, self._n_skipped = False, 0
        if self._end is not None:
            self._end()
        if self._groups:
            self._state, self._end = self._groups.pop()

    def _skip_group(self) -> None:
        """Go to the end of the open group."""
        depth, at = 1, self._at
        while depth and (match := _SKIPPED.search(self._data, at)) is not None:
            at = match.end()
            if match[1] is not None:
                at += int(match[1])
            else:
                depth += {b"{": 1, b"}": -1}.get(match[0], 0)
        if depth:
            at = len(self._data)
        self._at = min(at, len(self._data))
        self._end_group()

    def _collect(self, word: str) -> None:
        """Collect the text of the open group, and take it at its end."""
        collected: list[str] = []
        self._state = self._state._replace(collected=collected)
        self._end = lambda: self._take(word, " ".join("".join(collected)[:_MAX_COLLECTED].split()))

    def _begin_story(self, end: Callable[[], object], *, is_box: bool = False) -> None:
        """Read the open group as text of its own. end: ends it. is_box: whether it is that of a shape, of any color."""
        self._stories.append(_StoryState(ground=UNKNOWN_COLOR if is_box else self._stories[0].ground))
        self._writer.begin_story()
        self._state = self._state._replace(in_table=False, hidden=False, outline=_LAST_LEVEL)

        def end_story() -> None:
            self._end_row()
            self._stories.pop()
            end()

        self._end = end_story

    # -- words ---------------------------------------------------------------------------------------------------------------

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self._is_starred = self._is_first  # in the middle of a group it means nothing
            return
        self._flush()
        self._is_first = False
        if self._n_skipped:
            self._n_skipped -= 1
        elif sign in "\r\n":
            self._end_paragraph()
        elif sign in "{}\\":
            self._write(sign)
        else:
            self._write(_CHARACTERS.get(sign, ""))

    def _word(self, word: str, number: int | None) -> None:
        self._flush()
        is_first, is_starred = self._is_first, self._is_starred
        self._is_first = self._is_starred = False
        if word == "bin":
            self._at = min(self._at + max(0, number or 0), len(self._data))
        elif is_first and (self._begins_equation(word) or self._begins_text(word)):
            pass
        elif word in _NOT_READ or (is_starred and word not in _READ):
            if word == "pict" and not self._state.in_object:
                self.left_out["picture"] += 1
            if self._groups and (is_first or word in ("pict", "objdata")):
                self._skip_group()
        elif word == "u":
            self._write(self._symbol(chr((number or 0) & 0xFFFF)))
            self._n_skipped = self._state.fallback
        elif word in _CHARACTERS:
            self._write(_CHARACTERS[word])
        elif word in _BREAKS:
            _BREAKS[word](self)
        elif word in ("plain", "pard"):
            self._reset(word)
        elif word in _PROPERTIES:
            self._state = _PROPERTIES[word](self._state, number)
        else:
            self._font_word(word, number)

    def _reset(self, word: str) -> None:
        if word == "plain":
            state = self._state._replace(hidden=False, deleted=False, struck=False, double_struck=False, shift="", size=None)
            self._state = state._replace(font=self._default_font, color=0, fill=0)
        else:
            self._state = self._state._replace(in_table=False, outline=_LAST_LEVEL, paragraph_fill=0)

    def _font_word(self, word: str, number: int | None) -> None:
        if word == "f":
            self._state = self._state._replace(font=str(number))
            if self._state.in_fonts:
                self._fonts.setdefault(str(number), (self._codec, ""))
        elif word == "deff":
            self._default_font = str(number)
            self._state = self._state._replace(font=str(number))
        elif word == "fcharset" and self._state.in_fonts:
            self._fonts[self._state.font] = ("symbol" if number == _SYMBOLS else _CODE_PAGES.get(number or 0, self._codec), "")
        elif word == "upr":
            self._skips_next = True
        elif word == "clcbpat" or (word == "clshdng" and number):
            self._stories[-1].fills[-1] = (number or 0) if word == "clcbpat" else _PATTERN
        elif word == "cellx":
            self._stories[-1].fills.append(0)
        elif word == "ftnalt":
            self._is_endnote = True
        elif word in _NOTE_FORMS:
            self._note_forms["endnote" if word.startswith("a") else "footnote"] = _NOTE_FORMS[word]
        elif word == "chpgn" and self._state.in_header_or_footer:
            self._write(PAGE_NUMBER)

    def _begins_text(self, word: str) -> bool:
        """Begin the group that a word is the first of, if it is one of its own: a header, a note, a field. Return whether it
        is."""
        if word in _HEADERS_FOOTERS:
            kind = _HEADERS_FOOTERS[word]
            self._begin_story(lambda: self._writer.add_header_or_footer(kind, self._writer.end_story()))
            self._state = self._state._replace(in_header_or_footer=True)
        elif word == "footnote":
            self._begin_paragraph()
            self._begin_story(self._end_note)
        elif word == "annotation":
            self._begin_story(self._end_comment)
        elif word in ("shptxt", "dptxbxtext"):
            self._begin_story(self._writer.end_box, is_box=True)
        elif word == "fonttbl":
            self._state = self._state._replace(in_fonts=True)
        elif word in _COLLECTED:
            self._collect(word)
        elif word == "fldrslt" and self._state.in_header_or_footer and self._field.split(" ", 1)[0].upper() in _PAGE_FIELDS:
            self._write(PAGE_NUMBER)
            self._skip_group()
        else:
            return False
        return True

    def _begins_equation(self, word: str) -> bool:
        """Begin an equation, or a part of the open one. Return whether the word does."""
        if word == "moMath":
            equation = Equation()
            self._state = self._state._replace(equation=equation)

            def end() -> None:
                self._state = self._state._replace(equation=None)
                self._write(equation.text())

            self._end = end
        elif (open_equation := self._state.equation) is not None and word.startswith("m") and word not in _NOT_READ:
            open_equation.start("t" if word == "mr" else word[1:], {})
            self._end = open_equation.end
        else:
            return False
        return True

    def _end_note(self) -> None:
        kind = "endnote" if self._is_endnote else "footnote"
        self._is_endnote = False
        self._notes[kind] += 1
        self._writer.end_note(self._note_forms[kind](self._notes[kind]))

    def _end_comment(self) -> None:
        if text := self._writer.end_comment():
            self.comments.append(comment(self._author, self._writer.quotes.found.get(self._anchor, ""), text))
        self._author = self._anchor = ""

    def _take(self, word: str, text: str) -> None:
        """Take the text of a group that begins with `word`, one of _COLLECTED."""
        match word:
            case "fldinst":
                self._field = text
            case "listtext" | "pntext":
                self._stories[-1].mark = text
            case "atnauthor":
                self._author = text
            case "atrfstart":
                self._writer.quotes.begin(text)
            case "atrfend":
                self._writer.quotes.end(text)
                self._anchor = text
            case "objclass":
                self.left_out["equation object" if text.startswith("Equation") else "embedded object"] += 1

    # -- paragraphs and tables -----------------------------------------------------------------------------------------------

    def _begin_paragraph(self) -> None:
        """Begin a paragraph, unless one is open."""
        if self._writer.in_paragraph:
            return
        place, outline = self._stories[-1], self._state.outline
        if self._state.in_table or place.row_is_defined:
            self._open_cell()
        else:
            self._leave_row()
        level = outline + 1 if outline < _LAST_LEVEL and not place.in_row else 0
        mark = "- " if place.mark in _BULLETS else f"{place.mark} " if place.mark else ""
        place.mark = ""
        self._writer.begin_paragraph(lambda: (level, mark))

    def _end_paragraph(self) -> None:
        if self._writer.in_paragraph:
            self._writer.end_paragraph()
        self._stories[-1].mark = ""

    def _define_row(self) -> None:
        self._stories[-1].row_is_defined = True
        self._stories[-1].fills = [0]

    def _open_cell(self) -> None:
        place = self._stories[-1]
        if not place.in_row:
            self._writer.builder.begin_row()
        if not place.in_cell:
            self._writer.begin_cell()
            place.n_cells += 1
        place.in_row = place.in_cell = True

    def _end_cell(self) -> None:
        if not self._writer.in_paragraph:
            self._open_cell()
        self._end_paragraph()
        if self._stories[-1].in_cell:
            self._writer.end_cell()
            self._stories[-1].in_cell = False

    def _end_row(self) -> None:
        self._end_paragraph()
        self._leave_row()
        self._stories[-1].row_is_defined = False

    def _leave_row(self) -> None:
        """End the open row, if there is one."""
        place = self._stories[-1]
        if place.in_cell:
            self._writer.end_cell()
        if place.in_row:
            self._writer.builder.end_row()
        place.in_row = place.in_cell = False
        place.n_cells = 0

    # -- characters ----------------------------------------------------------------------------------------------------------

    def _characters(self, data: bytes) -> None:
        self._is_first = False
        if self._n_skipped:
            kept = data[self._n_skipped :]
            self._n_skipped = max(0, self._n_skipped - len(data))
            data = kept
        self._bytes += data

    def _flush(self) -> None:
        """Decode the bytes before a control word: a character may have several, written as "\\'83\\'5c"."""
        if not self._bytes:
            return
        data, self._bytes = bytes(self._bytes), bytearray()
        if self._state.in_fonts:
            self._name_font(data.decode("latin-1"))
            return
        codec, name = self._fonts.get(self._state.font, (self._codec, ""))
        if codec == "symbol":
            self._write("".join(symbol(name, byte) if byte > 0x20 else " " for byte in data))
        else:
            self._write(self._symbol(data.decode(codec, "replace")))

    def _name_font(self, text: str) -> None:
        codec, name = self._fonts.get(self._state.font, (self._codec, ""))
        if not name and text.strip(" ;"):
            self._fonts[self._state.font] = (codec, text.strip(" ;"))

    def _symbol(self, text: str) -> str:
        """Return a text with the glyphs of symbol fonts as characters."""
        if len(text) == 1 and "\uf020" <= text <= "\uf0ff":
            return symbol(self._fonts.get(self._state.font, ("", ""))[1], ord(text))
        return text

    def _write(self, text: str) -> None:
        state = self._state
        if state.equation is not None:
            state.equation.data(text)
        elif state.collected is not None:
            state.collected.append(text)
        elif state.deleted and not self.markup.is_read:
            self.markup.leave_out(text, STRUCK)
        elif text and not state.in_fonts:
            hidden = self._is_hidden()
            if not ((hidden and not self.markup.is_read) or text.isspace()):
                self._begin_paragraph()
            struck = state.struck or state.double_struck or state.deleted
            self._writer.say(text, hidden=hidden, struck=struck, shift=state.shift)

    def _is_hidden(self) -> bool:
        """Return whether a person does not see the next text."""
        state, place = self._state, self._stories[-1]
        color, ground = self._colors.get(state.color), None
        if color is not None:
            at = max(0, place.n_cells - (1 if place.in_cell else 0))
            cell = place.fills[at] if state.in_table and at < len(place.fills) else 0
            fills = (self._colors.get(number) for number in (state.fill, state.paragraph_fill, cell))
            ground = next(filter(None, fills), place.ground)
        size = None if state.size is None else state.size / 2
        return is_hidden(Look(size, color, ground, hidden=state.hidden))


_PROPERTIES: dict[str, Callable[[_GroupState, int | None], _GroupState]] = {
    "uc": lambda state, number: state._replace(fallback=min(max(0, 1 if number is None else number), 9)),
    "v": lambda state, number: state._replace(hidden=number != 0),
    "fs": lambda state, number: state._replace(size=number),
    "cf": lambda state, number: state._replace(color=number or 0),
    **dict.fromkeys(("cb", "highlight", "chcbpat"), lambda state, number: state._replace(fill=number or 0)),
    "chshdng": lambda state, number: state._replace(fill=_PATTERN if number else state.fill),
    "cbpat": lambda state, number: state._replace(paragraph_fill=number or 0),
    "shading": lambda state, number: state._replace(paragraph_fill=_PATTERN if number else state.paragraph_fill),
    "object": lambda state, number: state._replace(in_object=True),
    "deleted": lambda state, number: state._replace(deleted=number != 0),
    "strike": lambda state, number: state._replace(struck=number != 0),
    "striked": lambda state, number: state._replace(double_struck=number != 0),
    "super": lambda state, number: state._replace(shift="" if number == 0 else "^"),
    "sub": lambda state, number: state._replace(shift="" if number == 0 else "_"),
    "nosupersub": lambda state, number: state._replace(shift=""),
    "intbl": lambda state, number: state._replace(in_table=number != 0),
    "outlinelevel": lambda state, number: state._replace(outline=min(max(0, number or 0), _LAST_LEVEL)),
}
_BREAKS: dict[str, Callable[[_RichText], None]] = {
    **dict.fromkeys(("par", "sect", "page"), _RichText._end_paragraph),
    **dict.fromkeys(("line", "column", "nestrow", "lbr"), lambda body: body._writer.line_break()),
    **{"cell": _RichText._end_cell, "row": _RichText._end_row, "trowd": _RichText._define_row},
}
