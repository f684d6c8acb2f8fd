"""Read the elements of an OpenDocument text: of its styles, its body and the formulas and charts in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fbrag_cli.documents.readers.blocks import Block
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.margins import PAGE_NUMBER, Margins
from fbrag_cli.documents.readers.odt_object import Object
from fbrag_cli.documents.readers.odt_text import TEXT, Text
from fbrag_cli.documents.readers.quotes import comment

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_TABLE = f"{{{_NAMESPACE}table:1.0}}"
_OFFICE = f"{{{_NAMESPACE}office:1.0}}"
_DRAW = f"{{{_NAMESPACE}drawing:1.0}}"
_STYLE = f"{{{_NAMESPACE}style:1.0}}"
_SVG = f"{{{_NAMESPACE}svg-compatible:1.0}}"
# Deleted passages, and copies of what is shown elsewhere.
_SKIPPED = frozenset(
    {
        *(TEXT + name for name in ("tracked-changes", "ruby-text", "table-of-content-source", "alphabetical-index-source")),
        TEXT + "number",
        *(_OFFICE + name for name in ("forms", "meta", "scripts", "settings", "font-face-decls", "binary-data")),
    }
)
_STYLES = frozenset(_OFFICE + name for name in ("styles", "automatic-styles", "master-styles"))
_PARAGRAPHS = frozenset((TEXT + "p", TEXT + "h"))
_ITEMS = frozenset((TEXT + "list-item", TEXT + "list-header"))
_CELLS = frozenset((_TABLE + "table-cell", _TABLE + "covered-table-cell"))
_PAGES = frozenset((TEXT + "page-number", TEXT + "page-count"))
_MARGINS = {_STYLE + name: name.partition("-")[0] for name in ("header", "header-left", "header-first", "footer", "footer-left")}
_MARGINS |= {_STYLE + "footer-first": "footer"}
_OF_STYLES = frozenset(
    {
        *_MARGINS,
        *(_STYLE + name for name in ("master-page", "style", "text-properties")),
        *(TEXT + name for name in ("list-style", "list-level-style-number", "list-level-style-bullet", "list-level-style-image")),
        *(TEXT + name for name in ("outline-style", "outline-level-style")),
    }
)
_DESCRIPTIONS = frozenset((_SVG + "title", _SVG + "desc"))
_CREATOR = "{http://purl.org/dc/elements/1.1/}creator"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DEFAULT_PAGE = "Standard"
_MAX_PAGES = 1000  # styles of pages


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment. name: that of its place in the text."""

    name: str
    author: str
    said: str


class Body(Text):
    """The target of lxml's parser for the styles and then the content of a document, or for both in one file.

    read_object: reads the formula or chart in a folder of the document. left_out: number of each thing that was not read.
    """

    def __init__(self, read_object: Callable[[str], Object]) -> None:
        super().__init__()
        self._read_object = read_object
        self._in_styles = 0
        self._skipped_depth = 0
        self._is_hidden = False  # whether what is skipped is hidden text
        self._pages: dict[str, list[tuple[str, list[Block]]]] = {}  # headers and footers by the name of their page
        self._next_pages: dict[str, str] = {}
        self._page = ""
        self._shown_pages: dict[str, None] = {}
        self._margins = Margins()
        self._equation: Equation | None = None
        self._description: list[str] | None = None
        self._is_described = False  # whether the open frame holds what is read, so that its description is not needed
        self._in_creator = False
        self._comments: list[_Comment] = []
        self._anchors: dict[str, str] = {}
        self._starts, self._ends = self._actions_at_starts(), self._actions_at_ends()

    def blocks(self) -> list[Block]:
        """Return all blocks, with the footers after them."""
        blocks = self._story.builder.blocks()
        for name in self._shown_pages:
            for kind, text in self._pages.get(name, ()):
                blocks += self._margins.blocks("footer", text) if kind == "footer" else ()
        return blocks

    @property
    def comments(self) -> list[str]:
        """Return the comments in the order of their places."""
        return [comment(each.author, self._anchors.get(each.name, ""), each.said) for each in self._comments]

    def _actions_at_starts(self) -> dict[str, Callable[[dict[str, str]], None]]:
        return {
            **dict.fromkeys((*_SKIPPED, *_MARGINS), self._skip),  # a header belongs to the styles
            **dict.fromkeys(_STYLES, self._begin_styles),
            **{TEXT + "p": self._paragraph, TEXT + "h": self._heading, TEXT + "span": self._span},
            **{TEXT + "section": self._hideable, TEXT + "hidden-text": self._hideable},
            **{TEXT + "s": self._spaces, TEXT + "tab": lambda _: self._say(" "), TEXT + "line-break": self._line_break},
            **{TEXT + "note": self._note, TEXT + "list": self._list},
            **{TEXT + "list-item": self._item, TEXT + "list-header": lambda _: self._item({}, is_header=True)},
            **{TEXT + "hidden-paragraph": self._hidden_paragraph},
            **dict.fromkeys(_PAGES, self._page_number),
            **{_TABLE + "table": self._table, _TABLE + "table-row": self._row},
            **{name: lambda _: self._story.builder.begin_cell() if not self._story.notes else None for name in _CELLS},
            **{_DRAW + "frame": self._frame, _DRAW + "object": self._object},
            **{_DRAW + "object-ole": lambda _: self._leave_out("embedded object")},
            **dict.fromkeys(_DESCRIPTIONS, self._describe),
            **{_OFFICE + "annotation": self._comment, _OFFICE + "annotation-end": self._end_anchor},
            **{_CREATOR: self._creator, _MATH + "math": self._formula},
        }

    def _actions_at_ends(self) -> dict[str, Callable[[], None]]:
        return {
            **dict.fromkeys(_STYLES, self._end_styles),
            **dict.fromkeys(_MARGINS, self._end_margin),
            **dict.fromkeys(_PARAGRAPHS, self._end_paragraph),
            **{TEXT + "note": self._end_note, TEXT + "list": self._end_list},
            **dict.fromkeys(_ITEMS, self._end_item),
            **{_TABLE + "table-row": self._end_row},
            **{name: lambda: self._story.builder.end_cell() if not self._story.notes else None for name in _CELLS},
            **dict.fromkeys(_DESCRIPTIONS, self._end_description),
            **{_OFFICE + "annotation": self._end_comment, _CREATOR: self._end_creator},
        }

    # -- the parser's calls --------------------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped_depth:
            self._skipped_depth += 1
        elif self._equation is not None:
            self._equation.start(tag.rpartition("}")[2], attributes)
        elif self._in_styles and not self._outer:
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
        elif (action := self._ends.get(tag)) is not None and (not self._in_styles or self._outer or tag in _STYLES):
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
        elif self._story.levels:
            self._say(data)
        elif self._in_creator:
            self._story.author.append(data)

    def close(self) -> None:
        pass

    # -- styles and pages ----------------------------------------------------------------------------------------------------

    def _style(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _STYLES:
            self._in_styles += 1
        if tag not in _OF_STYLES:
            return
        given = {name.rpartition("}")[2]: value for name, value in attributes.items()}
        if tag == _STYLE + "master-page":
            self._page = given.get("name", "")
            self._pages[self._page] = []
            self._next_pages[self._page] = given.get("next-style-name", "")
        elif tag in _MARGINS:
            if given.get("display") == "false":
                self._skipped_depth = 1
            else:
                self._push(_MARGINS[tag])
        else:
            self._styles.add(tag.rpartition("}")[2], given)

    def _end_margin(self) -> None:
        story = self._pop()
        self._pages.setdefault(self._page, []).append((story.key, story.builder.blocks()))

    def _begin_page(self, style: str) -> None:
        """Begin the page of a paragraph's style, if it is another one, with its header and those of the pages that follow it."""
        if self._outer or self._story.levels or self._rows:
            return
        name = self._styles.page(style) or ("" if self._shown_pages else _DEFAULT_PAGE)
        while name and name not in self._shown_pages and len(self._shown_pages) < _MAX_PAGES:
            self._shown_pages[name] = None
            for kind, blocks in self._pages.get(name, ()):
                if kind == "header":
                    self._story.builder.extend(self._margins.blocks(kind, blocks))
            name = self._next_pages.get(name, "")

    def _page_number(self, _: dict[str, str]) -> None:
        if self._story.key in ("header", "footer"):
            self._say(PAGE_NUMBER)
            self._skipped_depth = 1

    def _begin_styles(self, _: dict[str, str]) -> None:
        self._in_styles += 1

    def _end_styles(self) -> None:
        self._in_styles -= 1

    # -- what is not read ----------------------------------------------------------------------------------------------------

    def _skip(self, _: dict[str, str], *, is_hidden: bool = False) -> None:
        """Skip the open element. is_hidden: whether it is hidden text, which is counted."""
        self._skipped_depth, self._is_hidden = 1, is_hidden

    def _paragraph(self, attributes: dict[str, str], level: int = 0) -> None:
        if self._styles.is_hidden("paragraph", attributes.get(TEXT + "style-name", "")):
            self._skip(attributes, is_hidden=True)
        else:
            super()._paragraph(attributes, level)

    def _span(self, attributes: dict[str, str]) -> None:
        if self._styles.is_hidden("text", attributes.get(TEXT + "style-name", "")):
            self._skip(attributes, is_hidden=True)

    def _hideable(self, attributes: dict[str, str]) -> None:
        if attributes.get(TEXT + "display") == "none" or attributes.get(TEXT + "is-hidden") == "true":
            self._skip(attributes, is_hidden=True)

    # -- frames and comments -------------------------------------------------------------------------------------------------

    def _frame(self, _: dict[str, str]) -> None:
        self._is_described = False

    def _object(self, attributes: dict[str, str]) -> None:
        path = attributes.get(_HREF)
        if path is None:  # it stands in this element
            return
        found = self._read_object(path)
        self._say(found.text)
        self._story.after += found.blocks
        self._is_described = bool(found.text or found.blocks)
        if not self._is_described:
            self._leave_out("embedded object")

    def _formula(self, _: dict[str, str]) -> None:
        self._equation, self._is_described = Equation(), True

    def _describe(self, _: dict[str, str]) -> None:
        self._description = []

    def _end_description(self) -> None:
        text = " ".join("".join(self._description or ()).split())
        self._description = None
        if text and not self._is_described and self._story.levels:
            self._is_described = True
            self._say(f"[{text}]")

    def _comment(self, attributes: dict[str, str]) -> None:
        self._push(attributes.get(_OFFICE + "name", ""))

    def _end_comment(self) -> None:
        story = self._pop()
        text = "\n".join(block.prefix + block.text for block in story.builder.blocks())
        self._quotes.cut(story.said_before)  # it is no part of the text that another comment is on
        if story.key:
            self._quotes.begin(story.key)
        if text:
            self._comments.append(_Comment(story.key, " ".join("".join(story.author).split()), text))

    def _end_anchor(self, attributes: dict[str, str]) -> None:
        name = attributes.get(_OFFICE + "name", "")
        if (quote := self._quotes.end(name)) is not None:
            self._anchors[name] = quote

    def _creator(self, _: dict[str, str]) -> None:
        self._in_creator = True

    def _end_creator(self) -> None:
        self._in_creator = False
