"""Read an OpenDocument text with its headings, lists, tables, notes, formulas, headers and comments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from fbrag_cli.documents.document import HIDDEN, STRUCK, Extracted, comment
from fbrag_cli.documents.hidden import PATTERN, Look, ground_of, is_hidden, parse_color
from fbrag_cli.documents.readers.blocks import MANY_ROWS, Block, extracted
from fbrag_cli.documents.readers.equations import Equation
from fbrag_cli.documents.readers.odt_styles import OUTLINE, Level, Styles, label
from fbrag_cli.documents.readers.package import Archive, Names, attribute, feed, number, resolved
from fbrag_cli.documents.readers.writer import PAGE_NUMBER, Writer
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

Ended = TypeVar("Ended")

_MEDIA_TYPE = "application/vnd.oasis.opendocument.text"
_CONTENT, _STYLES = "content.xml", "styles.xml"
_MANIFEST = "META-INF/manifest.xml"
_MAX_OBJECTS = 5000
_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_PREFIXES = {
    **{f"{_NAMESPACE}{name}:1.0": f"{name}:" for name in ("text", "table", "office", "style")},
    f"{_NAMESPACE}drawing:1.0": "draw:",
    f"{_NAMESPACE}svg-compatible:1.0": "svg:",
    "http://www.w3.org/1998/Math/MathML": "math:",
    "http://purl.org/dc/elements/1.1/": "dc:",
}
# Copies of what is shown elsewhere, and the table of an embedded object, which shows a part of it.
_SKIPPED = frozenset(
    "text:ruby-text text:table-of-content-source text:alphabetical-index-source text:number office:forms"
    " office:meta office:scripts office:settings office:font-face-decls office:binary-data office:spreadsheet".split()
)
_SHAPES = tuple(f"draw:{name}" for name in "custom-shape rect ellipse circle polygon path caption".split())
_SPACES = frozenset("text:p text:h text:s text:tab text:line-break".split())
_OF_STYLES = frozenset(("office:styles", "office:automatic-styles", "office:master-styles"))
_HEADERS_FOOTERS = {f"style:{kind}{which}": kind for kind in ("header", "footer") for which in ("", "-left", "-first")}
_DEFAULT_PAGE = "Standard"
_PLAIN = Level(is_bullet=True)
_MAX_LEVEL = 10
_MAX_SPACES = 100


def read_odt(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read an .odt (a zip) or .fodt (one XML file). Its headings are the sections.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    if source.data.startswith(b"PK"):
        archive = Archive(source, "an OpenDocument text")
        refuse_encrypted(source, archive)
        body = _OpenDocument(markup, archive)
        if _STYLES in archive:
            archive.feed(_STYLES, body)
        archive.feed(_CONTENT, body)
    else:
        body = _OpenDocument(markup)
        feed(source.data, body, partial(source.damaged, "an OpenDocument text"))
    return extracted(body.blocks(), _MEDIA_TYPE, body.left_out, body.markup, body.comments)


def refuse_encrypted(source: Source, archive: Archive) -> None:
    """Raise FbragError doc_unreadable if a document of OpenDocument needs a password."""
    if _MANIFEST in archive and next(archive.tree(_MANIFEST).iter("{*}encryption-data"), None) is not None:
        what = f"{source.name} is encrypted with a password"
        raise FbragError("doc_unreadable", what, "open it in LibreOffice and save it without a password", document=source.path)


@dataclass(slots=True)
class _OpenList:
    """An open list. style: key of its style. counts: last number by level. begun: whether its open item has begun. start: number
    that its open item begins with. is_header: whether that item has no number."""

    style: str
    counts: dict[int, int]
    begun: bool = False
    start: int | None = None
    is_header: bool = False


class _OpenDocument:
    """The target of lxml's parser for the styles and then the content of a document, for both in one file, or for a formula or
    chart in it.

    markup: whether struck-out text is read. archive: has its formulas and charts; None for a document without. left_out: number
    of each thing that was not read.
    """

    def __init__(self, markup: bool, archive: Archive | None = None) -> None:
        self._writer = Writer(markup)
        self.left_out, self.markup = self._writer.left_out, self._writer.markup
        self._archive = archive
        self._objects: set[str] = set()  # names of those that were read
        self._names = Names(_PREFIXES)
        self._styles = Styles()
        self._in_styles = 0
        self._in_header_or_footer = False
        self._page = ""
        self._headers_footers: dict[str, list[tuple[str, list[Block]]]] = {}  # kinds and blocks, by their page
        self._next_pages: dict[str, str] = {}
        self._skipped_depth = 0
        self._is_hidden = False  # whether what is skipped is hidden text
        self._is_muted = False  # whether the rest of the paragraph is hidden
        self._looks: list[dict[str, str]] = [{}]  # of text in the open elements (`Styles.look`), and the color around, "ground"
        self._floats = self._floats_behind = False  # whether a picture or filled shape does on the page so far
        self._change = ""  # key of the change that is described
        self._changes_depth = 0  # of open elements, from the list of changes
        self._deletions: dict[str, str] = {}  # text of each deletion, until it is at its place
        self._lists: list[_OpenList] = []  # of the innermost text
        self._outer_lists: list[list[_OpenList]] = []
        self._outline: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}  # numbers of lists by key, and of the last list of a style
        self._equation: Equation | None = None
        self._collected: list[str] | None = None  # text of a description or an author
        self._is_read = False  # whether the open frame holds what is read, so that its descriptions are not needed
        self._is_object = False  # whether the open frame holds an object
        self._open_comments: list[str] = []  # their names
        self._author = ""  # of the open comment
        self._label = ""  # of the open note
        self._comments: list[tuple[str, str, str]] = []  # author, name of the place, and text of each
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
        return [comment(author, quotes.get(name, ""), said) for author, name, said in self._comments]

    def _actions_at_starts(self) -> dict[str, Callable[[dict[str, str]], None]]:
        return {
            **dict.fromkeys((*_SKIPPED, *_HEADERS_FOOTERS), self._skip),  # a header belongs to the styles
            "text:p": self._paragraph,
            "text:h": lambda given: self._paragraph(given, number(attribute(given, "outline-level"), 1, _MAX_LEVEL)),
            "text:span": self._span,
            "text:tracked-changes": self._begin_changes,
            "text:change": self._deletion,
            "text:section": partial(self._hideable, "section"),
            "text:hidden-text": partial(self._hideable, "text"),
            "text:soft-page-break": self._begin_page,
            "text:hidden-paragraph": self._hidden_paragraph,
            "text:s": lambda given: self._say(" " * number(attribute(given, "c"), 1, _MAX_SPACES)),
            "text:tab": lambda _: self._say(" "),
            "text:line-break": lambda _: self._writer.line_break(),
            "text:note": self._begin_story,
            "text:note-citation": self._collect,
            "text:list": self._list,
            "text:list-item": self._item,
            "text:list-header": lambda _: self._item({}, is_header=True),
            "text:page-number": self._page_number,
            "text:page-count": self._page_number,
            "table:table": self._table,
            "table:table-row": lambda _: self._writer.builder.begin_row(),
            "table:table-cell": self._cell,
            "table:covered-table-cell": partial(self._cell, is_covered=True),
            **dict.fromkeys(_SHAPES, self._shape),
            "draw:text-box": self._begin_story,
            "draw:frame": self._frame,
            "draw:object": self._object,
            "draw:object-ole": self._old_object,
            "draw:image": self._image,
            "svg:title": self._collect,
            "svg:desc": self._collect,
            "office:annotation": self._begin_comment,
            "office:annotation-end": lambda given: self._writer.quotes.end(attribute(given, "name")),
            "dc:creator": self._collect,
            "math:math": self._formula,
        }

    def _actions_at_ends(self) -> dict[str, Callable[[], object]]:
        return {
            **{name: partial(self._end_header_or_footer, kind) for name, kind in _HEADERS_FOOTERS.items()},
            "text:p": self._end_paragraph,
            "text:h": self._end_paragraph,
            **dict.fromkeys(("text:span", "text:section", "text:hidden-text", "table:table", "draw:frame"), self._looks.pop),
            **dict.fromkeys(_SHAPES, self._looks.pop),
            "text:note": lambda: self._end_story(partial(self._writer.end_note, self._label)),
            "text:note-citation": self._end_label,
            "text:list": self._end_list,
            "text:list-item": self._end_item,
            "text:list-header": self._end_item,
            "table:table-row": lambda: self._writer.builder.end_row(),
            "table:table-cell": self._end_cell,
            "table:covered-table-cell": self._end_cell,
            "draw:text-box": lambda: self._end_story(self._writer.end_box),
            "svg:title": self._end_description,
            "svg:desc": self._end_description,
            "office:annotation": self._end_comment,
            "dc:creator": self._end_author,
        }

    # -- the parser's calls --------------------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped_depth:
            self._skipped_depth += 1
            return
        name = self._names[tag]
        if self._equation is not None:
            self._equation.start(name.partition(":")[2], attributes)
        elif self._changes_depth:
            self._in_changes(name, attributes)
        elif name in _OF_STYLES:
            self._in_styles += 1
        elif self._in_styles and not self._in_header_or_footer:
            self._style(name, attributes)
        elif (action := self._starts.get(name)) is not None:
            action(attributes)

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            self._is_hidden = self._is_hidden and self._skipped_depth > 0
            return
        name = self._names[tag]
        if self._equation is not None:
            if self._equation.end():
                text, self._equation = self._equation.text(), None
                self._say(text)
        elif self._changes_depth:
            self._changes_depth -= 1
            if name == "text:changed-region":
                self._deletions[self._change] = self._collected_text()
        elif name in _OF_STYLES:
            self._in_styles -= 1
        elif (action := self._ends.get(name)) is not None and (not self._in_styles or self._in_header_or_footer):
            action()

    def data(self, data: str) -> None:
        if self._skipped_depth:
            if self._is_hidden and not data.isspace():
                self._is_hidden = False
                self.markup.left_out[HIDDEN] += 1
        elif self._equation is not None:
            self._equation.data(data)
        elif self._collected is not None:
            self._collected.append(data)
        elif self._writer.in_paragraph and not self._changes_depth:
            self._say(data)

    def close(self) -> None:
        pass

    # -- styles, headers and footers -----------------------------------------------------------------------------------------

    def _style(self, name: str, attributes: dict[str, str]) -> None:
        if name == "style:master-page":
            self._page = attribute(attributes, "name")
            self._next_pages[self._page] = attribute(attributes, "next-style-name")
        elif name not in _HEADERS_FOOTERS:
            self._styles.add(name.partition(":")[2], attributes)
        elif attribute(attributes, "display") == "false":
            self._skipped_depth = 1
        else:
            self._in_header_or_footer = True
            self._begin_story(attributes)

    def _end_header_or_footer(self, kind: str) -> None:
        self._in_header_or_footer = False
        self._headers_footers.setdefault(self._page, []).append((kind, self._end_story(self._writer.end_story)))

    def _page_number(self, attributes: dict[str, str]) -> None:
        if self._in_header_or_footer:
            self._say(PAGE_NUMBER)
            self._skip(attributes)

    def _table(self, attributes: dict[str, str]) -> None:
        self._writer.begin_table()
        self._enter("table", attributes)
        if attribute(attributes, "template-name"):  # which may fill its cells
            self._looks[-1].setdefault("ground", PATTERN)

    def _cell(self, attributes: dict[str, str], *, is_covered: bool = False) -> None:
        self._writer.begin_cell()
        n_rows = number(attribute(attributes, "number-rows-spanned"), 1, MANY_ROWS)
        self._writer.builder.merge_cell(0 if is_covered else n_rows)
        self._enter("table-cell", attributes)

    def _end_cell(self) -> None:
        self._looks.pop()
        self._writer.end_cell()

    # -- what is not read ----------------------------------------------------------------------------------------------------

    def _leave_out(self, thing: str) -> None:
        self.left_out[thing] += 1

    def _skip(self, _: dict[str, str], *, is_hidden: bool = False) -> None:
        """Skip the open element. is_hidden: whether it is hidden text, which is counted."""
        self._skipped_depth, self._is_hidden = 1, is_hidden

    def _span(self, attributes: dict[str, str]) -> None:
        if not self._hides("text", attributes):
            self._enter("text", attributes)

    def _hides(self, family: str, attributes: dict[str, str], *, is_hidden: bool = False) -> bool:
        """Skip the open element if it is hidden, itself or by its style, and hidden text is not read. Return whether it is."""
        is_hidden = is_hidden or bool(self._styles.look(family, attribute(attributes, "style-name")).get("hidden"))
        if is_hidden and not self.markup.is_read:
            self._skip(attributes, is_hidden=True)
        return is_hidden and not self.markup.is_read

    def _enter(self, family: str, attributes: dict[str, str]) -> None:
        """Let the style of the open element hold in it: of text that is around it only if it is a part of that."""
        own, around = self._styles.look(family, attribute(attributes, "style-name")), self._looks[-1]
        look = around | own if family == "text" else {key: around[key] for key in ("ground",) if key in around} | own
        if own.get("area", "transparent") != "transparent":
            look["ground"] = own["area"]
        self._looks.append(look)

    def _hides_text(self) -> bool:
        """Return whether a person does not see the text that is said next."""
        look = self._looks[-1]
        color, ground = parse_color(look.get("color", "")), None
        if color is not None:
            fills = [look.get("highlight", ""), look.get("ground", ""), self._styles.page_area]
            fills += [PATTERN] if self._floats_behind else []
            ground = ground_of(fills)
        return is_hidden(Look(float(look["size"]) if "size" in look else None, color, ground))

    # -- tracked deletions ---------------------------------------------------------------------------------------------------

    def _begin_changes(self, _: dict[str, str]) -> None:
        self._changes_depth = 1

    def _in_changes(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element of the list of changes, which holds the text of each deletion."""
        if name in ("office:change-info", "office:annotation"):
            self._skip(attributes)
            return
        self._changes_depth += 1
        if name == "text:changed-region":
            self._change = attribute(attributes, "id")
            self._collect(attributes)
        elif name in _SPACES:
            self.data(" ")

    def _deletion(self, attributes: dict[str, str]) -> None:
        """Take the place of a deletion."""
        text = self._deletions.pop(attribute(attributes, "change-id"), "")
        if not self.markup.is_read:
            self.markup.leave_out(text, STRUCK)
        elif self._writer.in_paragraph:
            self._writer.say(text, struck=True)
        else:
            self._writer.begin_paragraph(lambda: (0, ""))
            self._writer.say(text, struck=True)
            self._writer.end_paragraph()

    def _hideable(self, family: str, attributes: dict[str, str]) -> None:
        is_hidden = attribute(attributes, "display") == "none" or attribute(attributes, "is-hidden") == "true"
        if not self._hides(family, attributes, is_hidden=is_hidden):
            self._enter(family, attributes)

    def _hidden_paragraph(self, attributes: dict[str, str]) -> None:
        if attribute(attributes, "is-hidden") == "true" and self._writer.in_paragraph and not self.markup.is_read:
            self._writer.discard()
            self._is_muted = True

    # -- paragraphs and headings ---------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        if not self._is_muted:
            look = self._looks[-1]
            self._writer.say(text, hidden=self._hides_text(), struck=bool(look.get("struck")), shift=look.get("shift", ""))

    def _paragraph(self, attributes: dict[str, str], level: int = 0) -> None:
        style = attribute(attributes, "style-name")
        if self._hides("paragraph", attributes):
            return
        self._enter("paragraph", attributes)
        items = self._lists[-1] if self._lists else None
        mark = ""
        if items is not None and not items.begun:
            items.begun = True
            mark = "" if items.is_header else self._mark(items, style, level)
            self._writer.builder.begin_item("" if level else mark)
        elif items is None and level:
            mark = self._number_of_heading(attributes, style, level)
        self._writer.begin_paragraph(lambda: (level, mark if level else ""))

    def _number_of_heading(self, attributes: dict[str, str], style: str, level: int) -> str:
        if attribute(attributes, "is-list-header") == "true" or self._styles.list_of(style) == "":
            return ""
        restarts = attribute(attributes, "restart-numbering") == "true"
        start = number(attribute(attributes, "start-value"), 1) if restarts else None
        return label(self._styles.lists.get(OUTLINE, {}), self._outline, level, start)

    def _end_paragraph(self) -> None:
        self._looks.pop()
        self._writer.end_paragraph()
        self._is_muted = False

    # -- lists ---------------------------------------------------------------------------------------------------------------

    def _mark(self, items: _OpenList, style: str, level: int) -> str:
        """Count the open item of a list, and return its mark."""
        key = items.style or self._styles.list_of(style) or ""
        levels = self._styles.lists.get(key)
        if levels is None and key.lower() == OUTLINE:
            levels, depth = self._styles.lists.get(OUTLINE), level or len(self._lists)
            return label(levels or {}, self._outline, depth, items.start)
        depth = min(len(self._lists), _MAX_LEVEL)
        return label({depth: _PLAIN} if levels is None else levels, items.counts, depth, items.start)

    def _list(self, attributes: dict[str, str]) -> None:
        outer = self._lists[-1] if self._lists else None
        style = attribute(attributes, "style-name") or ("" if outer is None else outer.style)
        if outer is not None:
            counts = outer.counts
            if not outer.begun:  # its item holds this list alone, and has no number
                outer.begun = True
                self._writer.builder.begin_item("")
        else:
            before = self._counts.get(f"last {style}") if attribute(attributes, "continue-numbering") == "true" else None
            continued = self._counts.get(f"list {attribute(attributes, 'continue-list')}", before)
            counts = {} if continued is None else continued
            self._counts[f"last {style}"] = counts
        if key := attribute(attributes, "id"):
            self._counts[f"list {key}"] = counts
        self._writer.builder.begin_group()
        self._lists.append(_OpenList(style, counts))

    def _end_list(self) -> None:
        if self._lists:
            self._writer.builder.end_block()
            self._lists.pop()

    def _item(self, attributes: dict[str, str], *, is_header: bool = False) -> None:
        if self._lists:
            items, start = self._lists[-1], attribute(attributes, "start-value")
            items.begun, items.is_header, items.start = False, is_header, number(start, 1) if start else None

    def _end_item(self) -> None:
        if self._lists and self._lists[-1].begun:
            self._writer.builder.end_item()
            self._lists[-1].begun = False

    # -- notes, frames and comments ------------------------------------------------------------------------------------------

    def _begin_story(self, _: dict[str, str]) -> None:
        self._outer_lists.append(self._lists)
        self._lists = []
        self._writer.begin_story()

    def _end_story(self, end: Callable[[], Ended]) -> Ended:
        """End text of its own by `end`, a method of the writer."""
        self._lists = self._outer_lists.pop()
        return end()

    def _frame(self, attributes: dict[str, str]) -> None:
        self._is_read = self._is_object = False
        self._shape(attributes, is_frame=True)

    def _shape(self, attributes: dict[str, str], *, is_frame: bool = False) -> None:
        """Begin a shape. One without a fill shows what it floats on. Drawn shapes have one unless they say that they do not."""
        self._enter("graphic", attributes)
        look = self._looks[-1]
        area = look.get("area", "" if is_frame else PATTERN)
        if area in ("", "transparent"):
            look |= {"ground": PATTERN} if self._floats else {}
        else:
            look["ground"] = area
            self._float()

    def _float(self) -> None:
        self._floats, self._floats_behind = True, self._floats_behind or self._looks[-1].get("run-through") == "background"

    def _begin_page(self, _: dict[str, str]) -> None:
        self._floats = self._floats_behind = False

    def _image(self, _: dict[str, str]) -> None:
        if not self._is_object:  # which it shows
            self._leave_out("picture")
            self._float()

    def _old_object(self, _: dict[str, str]) -> None:
        self._is_object = True
        self._leave_out("embedded object")

    def _object(self, attributes: dict[str, str]) -> None:
        path, self._is_object = attribute(attributes, "href"), True
        if not path:  # it is in this element
            return
        blocks = self._blocks_of(resolved("", f"{path}/{_CONTENT}"))
        self._is_read = bool(blocks)
        if len(blocks) == 1:  # a formula
            self._say(blocks[0].text)
        elif blocks:
            self._writer.add(blocks)
        else:
            self._leave_out("embedded object")

    def _blocks_of(self, name: str) -> list[Block]:
        """Return the text of a formula or chart, which is a document by itself, once. name: name of its content in the zip."""
        if self._archive is None or name not in self._archive or name in self._objects or len(self._objects) >= _MAX_OBJECTS:
            return []
        self._objects.add(name)
        with suppress(FbragError):  # the text around a damaged object is worth reading
            self._archive.feed(name, inside := _OpenDocument(self.markup.is_read))
            return inside.blocks()
        return []

    def _formula(self, _: dict[str, str]) -> None:
        self._equation, self._is_read = Equation(), True

    def _collect(self, _: dict[str, str]) -> None:
        self._collected = []

    def _collected_text(self) -> str:
        text, self._collected = " ".join("".join(self._collected or ()).split()), None
        return text

    def _end_description(self) -> None:
        text = self._collected_text()
        if text and not self._is_read and self._writer.in_paragraph:
            self._say(f"[{text}]" if self._writer.builder.touches == " " else f" [{text}]")

    def _begin_comment(self, attributes: dict[str, str]) -> None:
        self._open_comments.append(attribute(attributes, "name"))
        self._author = ""
        self._begin_story(attributes)

    def _end_author(self) -> None:
        self._author = self._collected_text()

    def _end_label(self) -> None:
        self._label = self._collected_text()

    def _end_comment(self) -> None:
        name = self._open_comments.pop()
        said = self._end_story(self._writer.end_comment)
        if name:
            self._writer.quotes.begin(name)
        if said:
            self._comments.append((self._author, name, said))
