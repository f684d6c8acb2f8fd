"""Read the elements of an OpenDocument text: of its styles and its body, or of a formula or chart in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fbrag_cli.documents.readers.blocks import Block
from fbrag_cli.documents.readers.comments import comment
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.headers_footers import PAGE_NUMBER
from fbrag_cli.documents.readers.odt_styles import OUTLINE, Level, Styles, label
from fbrag_cli.documents.readers.writer import Writer

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_TEXT = f"{{{_NAMESPACE}text:1.0}}"
_TABLE = f"{{{_NAMESPACE}table:1.0}}"
_OFFICE = f"{{{_NAMESPACE}office:1.0}}"
_DRAW = f"{{{_NAMESPACE}drawing:1.0}}"
_STYLE = f"{{{_NAMESPACE}style:1.0}}"
_SVG = f"{{{_NAMESPACE}svg-compatible:1.0}}"
# Deleted passages, and copies of what is shown elsewhere.
_SKIPPED = frozenset(
    {
        *(_TEXT + name for name in ("tracked-changes", "ruby-text", "table-of-content-source", "alphabetical-index-source")),
        _TEXT + "number",
        *(_OFFICE + name for name in ("forms", "meta", "scripts", "settings", "font-face-decls", "binary-data")),
        _OFFICE + "spreadsheet",  # of an embedded object, which shows a part of it
    }
)
_STYLES = frozenset(_OFFICE + name for name in ("styles", "automatic-styles", "master-styles"))
_CELLS = frozenset((_TABLE + "table-cell", _TABLE + "covered-table-cell"))
_PAGES = frozenset((_TEXT + "page-number", _TEXT + "page-count"))
_HEADERS_FOOTERS = {
    **dict.fromkeys((_STYLE + name for name in ("header", "header-left", "header-first")), "header"),
    **dict.fromkeys((_STYLE + name for name in ("footer", "footer-left", "footer-first")), "footer"),
}
_DESCRIPTIONS = frozenset((_SVG + "title", _SVG + "desc"))
_CREATOR = "{http://purl.org/dc/elements/1.1/}creator"
_HREF = "{http://www.w3.org/1999/xlink}href"
_ID = "{http://www.w3.org/XML/1998/namespace}id"

_DEFAULT_PAGE = "Standard"
_BULLET = "- "
_PLAIN = Level(is_bullet=True)
_MAX_LEVEL = 10
_MAX_SPACES = 100


@dataclass(slots=True)
class _List:
    """An open list. style: key of its style. counts: last number by level. begun: whether its open item has begun. start: number
    that its open item begins with. is_header: whether that item has no number."""

    style: str
    counts: dict[int, int]
    begun: bool = False
    start: int | None = None
    is_header: bool = False


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment. name: that of its place in the text."""

    name: str
    author: str
    said: str


class Body:
    """The target of lxml's parser for the styles and then the content of a document, or for both in one file.

    read_object: reads the formula or chart in a folder of the document. left_out: number of each thing that was not read.
    """

    def __init__(self, read_object: Callable[[str], list[Block]]) -> None:
        self._writer = Writer()
        self.left_out = self._writer.left_out
        self._read_object = read_object
        self._styles = Styles()
        self._in_styles = 0
        self._in_header_or_footer = False
        self._page = ""
        self._headers_footers: dict[str, list[tuple[str, list[Block]]]] = {}  # kinds and blocks, by their page
        self._next_pages: dict[str, str] = {}
        self._skipped_depth = 0
        self._is_hidden = False  # whether what is skipped is hidden text
        self._is_muted = False  # whether the rest of the paragraph is hidden
        self._lists: list[_List] = []  # of the innermost text
        self._outer_lists: list[list[_List]] = []
        self._outline: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}  # numbers of lists by key, and of the last list of a style
        self._equation: Equation | None = None
        self._description: list[str] | None = None
        self._is_read = False  # whether the open frame holds what is read, so that its descriptions are not needed
        self._names: list[str] = []  # of the open comments
        self._author: list[str] = []
        self._in_creator = False
        self._comments: list[_Comment] = []
        self._starts, self._ends = self._actions_at_starts(), self._actions_at_ends()

    def blocks(self) -> list[Block]:
        """Return all blocks, with the headers and footers of the pages that a style names, or that follow one of these."""
        shown = {_DEFAULT_PAGE: None, **self._styles.pages}
        pages = list(shown)
        for page in pages:
            for kind, blocks in self._headers_footers.get(page, ()):
                self._writer.add_header_or_footer(kind, blocks)
            following = self._next_pages.get(page, "")
            if following not in shown:
                shown[following] = None
                pages.append(following)
        return self._writer.blocks()

    @property
    def comments(self) -> list[str]:
        """Return the comments in the order of their places."""
        quotes = self._writer.quotes.found
        return [comment(each.author, quotes.get(each.name, ""), each.said) for each in self._comments]

    def _actions_at_starts(self) -> dict[str, Callable[[dict[str, str]], None]]:
        return {
            **dict.fromkeys((*_SKIPPED, *_HEADERS_FOOTERS), self._skip),  # a header belongs to the styles
            **dict.fromkeys(_STYLES, self._begin_styles),
            **{_TEXT + "p": self._paragraph, _TEXT + "h": self._heading, _TEXT + "span": self._span},
            **{_TEXT + "section": self._hideable, _TEXT + "hidden-text": self._hideable},
            **{_TEXT + "s": self._spaces, _TEXT + "tab": lambda _: self._say(" ")},
            **{_TEXT + "line-break": lambda _: self._writer.line_break()},
            **{_TEXT + "note": self._begin_story, _TEXT + "note-citation": self._citation},
            **{_TEXT + "list": self._list, _TEXT + "list-item": self._item},
            **{_TEXT + "list-header": lambda _: self._item({}, is_header=True)},
            **{_TEXT + "hidden-paragraph": self._hidden_paragraph},
            **dict.fromkeys(_PAGES, self._page_number),
            **{_TABLE + "table": lambda _: self._writer.begin_table()},
            **{_TABLE + "table-row": lambda _: self._writer.builder.begin_row()},
            **dict.fromkeys(_CELLS, lambda _: self._writer.begin_cell()),
            **{_DRAW + "text-box": self._begin_story, _DRAW + "frame": self._frame, _DRAW + "object": self._object},
            **{_DRAW + "object-ole": lambda _: self._leave_out("embedded object")},
            **dict.fromkeys(_DESCRIPTIONS, self._describe),
            **{_OFFICE + "annotation": self._begin_comment, _OFFICE + "annotation-end": self._end_anchor},
            **{_CREATOR: self._creator, _MATH + "math": self._formula},
        }

    def _actions_at_ends(self) -> dict[str, Callable[[], object]]:
        return {
            **dict.fromkeys(_STYLES, self._end_styles),
            **{tag: partial(self._end_header_or_footer, kind) for tag, kind in _HEADERS_FOOTERS.items()},
            **{_TEXT + "p": self._end_paragraph, _TEXT + "h": self._end_paragraph},
            **{_TEXT + "note": self._end_note, _TEXT + "note-citation": self._writer.end_paragraph},
            **{_TEXT + "list": self._end_list, _TEXT + "list-item": self._end_item, _TEXT + "list-header": self._end_item},
            **{_TABLE + "table-row": lambda: self._writer.builder.end_row()},
            **dict.fromkeys(_CELLS, self._writer.end_cell),
            **{_DRAW + "text-box": self._end_box},
            **dict.fromkeys(_DESCRIPTIONS, self._end_description),
            **{_OFFICE + "annotation": self._end_comment, _CREATOR: self._end_creator},
        }

    # -- the parser's calls --------------------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped_depth:
            self._skipped_depth += 1
        elif self._equation is not None:
            self._equation.start(tag.rpartition("}")[2], attributes)
        elif self._in_styles and not self._in_header_or_footer:
            self._style(tag, attributes)
        elif (action := self._starts.get(tag)) is not None:
            action(attributes)

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            self._is_hidden = self._is_hidden and self._skipped_depth > 0
        elif self._equation is not None:
            if self._equation.is_open:
                self._equation.end()
            else:
                text, self._equation = self._equation.text(), None
                self._say(text)
        elif (action := self._ends.get(tag)) is not None and (not self._in_styles or self._in_header_or_footer or tag in _STYLES):
            action()

    def data(self, data: str) -> None:
        if self._skipped_depth:
            if self._is_hidden and not data.isspace():
                self._is_hidden = False
                self._leave_out("hidden passage")
        elif self._equation is not None:
            self._equation.data(data)
        elif self._description is not None:
            self._description.append(data)
        elif self._writer.in_paragraph:
            self._say(data)
        elif self._in_creator:
            self._author.append(data)

    def close(self) -> None:
        pass

    # -- styles, headers and footers -----------------------------------------------------------------------------------------

    def _begin_styles(self, _: dict[str, str]) -> None:
        self._in_styles += 1

    def _end_styles(self) -> None:
        self._in_styles -= 1

    def _style(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _STYLES:
            self._in_styles += 1
        elif tag == _STYLE + "master-page":
            self._page = attributes.get(_STYLE + "name", "")
            self._next_pages[self._page] = attributes.get(_STYLE + "next-style-name", "")
        elif tag not in _HEADERS_FOOTERS:
            self._styles.add(tag, attributes)
        elif attributes.get(_STYLE + "display") == "false":
            self._skipped_depth = 1
        else:
            self._in_header_or_footer = True
            self._begin_story()

    def _end_header_or_footer(self, kind: str) -> None:
        self._in_header_or_footer = False
        self._lists = self._outer_lists.pop()
        self._headers_footers.setdefault(self._page, []).append((kind, self._writer.end_story()))

    def _page_number(self, attributes: dict[str, str]) -> None:
        if self._in_header_or_footer:
            self._say(PAGE_NUMBER)
            self._skip(attributes)

    # -- what is not read ----------------------------------------------------------------------------------------------------

    def _leave_out(self, thing: str) -> None:
        self.left_out[thing] += 1

    def _skip(self, _: dict[str, str], *, is_hidden: bool = False) -> None:
        """Skip the open element. is_hidden: whether it is hidden text, which is counted."""
        self._skipped_depth, self._is_hidden = 1, is_hidden

    def _span(self, attributes: dict[str, str]) -> None:
        if self._styles.is_hidden("text", attributes.get(_TEXT + "style-name", "")):
            self._skip(attributes, is_hidden=True)

    def _hideable(self, attributes: dict[str, str]) -> None:
        if attributes.get(_TEXT + "display") == "none" or attributes.get(_TEXT + "is-hidden") == "true":
            self._skip(attributes, is_hidden=True)

    def _hidden_paragraph(self, attributes: dict[str, str]) -> None:
        if attributes.get(_TEXT + "is-hidden") == "true" and self._writer.in_paragraph:
            self._writer.discard()
            self._is_muted = True

    # -- paragraphs and headings ---------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        if not self._is_muted:
            self._writer.say(text)

    def _spaces(self, attributes: dict[str, str]) -> None:
        self._say(" " * _number(attributes.get(_TEXT + "c"), _MAX_SPACES))

    def _heading(self, attributes: dict[str, str]) -> None:
        self._paragraph(attributes, _number(attributes.get(_TEXT + "outline-level"), _MAX_LEVEL))

    def _paragraph(self, attributes: dict[str, str], level: int = 0) -> None:
        style = attributes.get(_TEXT + "style-name", "")
        if self._styles.is_hidden("paragraph", style):
            self._skip(attributes, is_hidden=True)
            return
        items = self._lists[-1] if self._lists else None
        number = ""
        if items is not None and not items.begun:
            items.begun = True
            mark = "" if items.is_header else self._mark(items, style, level)
            self._writer.builder.begin_item("" if level else mark)
            number = mark if level else ""
        elif items is None and level:
            number = self._number_of_heading(attributes, style, level)
        self._writer.begin_paragraph(lambda: (level, number))

    def _number_of_heading(self, attributes: dict[str, str], style: str, level: int) -> str:
        if attributes.get(_TEXT + "is-list-header") == "true" or self._styles.refuses_number(style):
            return ""
        restarts = attributes.get(_TEXT + "restart-numbering") == "true"
        start = _number(attributes.get(_TEXT + "start-value"), 10**9) if restarts else None
        return label(self._styles.lists.get(OUTLINE, {}), self._outline, level, start)

    def _end_paragraph(self) -> None:
        self._writer.end_paragraph()
        self._is_muted = False

    # -- lists ---------------------------------------------------------------------------------------------------------------

    def _mark(self, items: _List, style: str, level: int) -> str:
        """Count the open item of a list, and return its mark."""
        key = items.style or self._styles.list_of(style)
        levels = self._styles.lists.get(key)
        if levels is None and key.lower() == OUTLINE:
            levels, depth = self._styles.lists.get(OUTLINE), level or len(self._lists)
            return label(levels or {}, self._outline, depth, items.start)
        depth = min(len(self._lists), _MAX_LEVEL)
        return label({depth: _PLAIN} if levels is None else levels, items.counts, depth, items.start)

    def _list(self, attributes: dict[str, str]) -> None:
        outer = self._lists[-1] if self._lists else None
        style = attributes.get(_TEXT + "style-name") or ("" if outer is None else outer.style)
        if outer is not None:
            counts = outer.counts
            if not outer.begun:  # its item holds this list alone, and has no number
                outer.begun = True
                self._writer.builder.begin_item("")
        else:
            before = self._counts.get(f"last {style}") if attributes.get(_TEXT + "continue-numbering") == "true" else None
            continued = self._counts.get(f"list {attributes.get(_TEXT + 'continue-list')}", before)
            counts = {} if continued is None else continued
            self._counts[f"last {style}"] = counts
        if key := attributes.get(_ID):
            self._counts[f"list {key}"] = counts
        self._writer.builder.begin_group()
        self._lists.append(_List(style, counts))

    def _end_list(self) -> None:
        if self._lists:
            self._writer.builder.end_block()
            self._lists.pop()

    def _item(self, attributes: dict[str, str], *, is_header: bool = False) -> None:
        if self._lists:
            items, start = self._lists[-1], attributes.get(_TEXT + "start-value")
            items.begun, items.is_header, items.start = False, is_header, None if start is None else _number(start, 10**9)

    def _end_item(self) -> None:
        if self._lists and self._lists[-1].begun:
            self._writer.builder.end_item()
            self._lists[-1].begun = False

    # -- notes, frames and comments ------------------------------------------------------------------------------------------

    def _begin_story(self, _: dict[str, str] | None = None) -> None:
        self._outer_lists.append(self._lists)
        self._lists = []
        self._writer.begin_story()

    def _citation(self, _: dict[str, str]) -> None:
        self._writer.begin_paragraph(lambda: (0, ""))

    def _end_note(self) -> None:
        self._lists = self._outer_lists.pop()
        self._writer.end_note()

    def _end_box(self) -> None:
        self._lists = self._outer_lists.pop()
        self._writer.end_box()

    def _frame(self, _: dict[str, str]) -> None:
        self._is_read = False

    def _object(self, attributes: dict[str, str]) -> None:
        path = attributes.get(_HREF)
        if path is None:  # it stands in this element
            return
        blocks = self._read_object(path)
        self._is_read = bool(blocks)
        if len(blocks) == 1:  # a formula
            self._say(blocks[0].text)
        elif blocks:
            self._writer.add(blocks)
        else:
            self._leave_out("embedded object")

    def _formula(self, _: dict[str, str]) -> None:
        self._equation, self._is_read = Equation(), True

    def _describe(self, _: dict[str, str]) -> None:
        self._description = []

    def _end_description(self) -> None:
        text = " ".join("".join(self._description or ()).split())
        self._description = None
        if text and not self._is_read and self._writer.in_paragraph:
            self._say(f"[{text}]" if self._writer.builder.touches == " " else f" [{text}]")

    def _begin_comment(self, attributes: dict[str, str]) -> None:
        self._names.append(attributes.get(_OFFICE + "name", ""))
        self._author = []
        self._begin_story()

    def _creator(self, _: dict[str, str]) -> None:
        self._in_creator = True

    def _end_creator(self) -> None:
        self._in_creator = False

    def _end_comment(self) -> None:
        self._lists = self._outer_lists.pop()
        name, author = self._names.pop(), " ".join("".join(self._author).split())
        said = self._writer.end_comment()
        if name:
            self._writer.quotes.begin(name)
        if said:
            self._comments.append(_Comment(name, author, said))

    def _end_anchor(self, attributes: dict[str, str]) -> None:
        self._writer.quotes.end(attributes.get(_OFFICE + "name", ""))


def _number(text: str | None, most: int) -> int:
    return min(int(text), most) if text and re.fullmatch(r"\d{1,9}", text) else 1
