"""Read an OpenDocument text with its headings, lists, tables, notes, formulas, headers and comments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fbrag_cli.documents.document import HIDDEN, STRUCK, Extracted, comment
from fbrag_cli.documents.hidden import PATTERN, Look, ground_of, is_hidden, parse_color
from fbrag_cli.documents.readers.blocks import MANY_ROWS, Block, extracted
from fbrag_cli.documents.readers.nested import Context, Nested, Start
from fbrag_cli.documents.readers.odt_styles import OUTLINE, READ, Level, Styles, label
from fbrag_cli.documents.readers.package import Archive, attribute, feed, number, resolved
from fbrag_cli.documents.readers.writer import PAGE_NUMBER, Writer
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

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
    """An open list. style: key of its style. counts: last number by level. depth: its level, from 1. begun: whether its open item
    has begun. start: number that its open item begins with. is_header: whether that item has no number."""

    style: str
    counts: dict[int, int]
    depth: int
    begun: bool = False
    start: int | None = None
    is_header: bool = False


@dataclass(slots=True)
class _Frame:
    """A frame. is_read: whether it holds what is read, so that its descriptions are not needed. is_object: whether it holds an
    object, which its picture shows."""

    is_read: bool = False
    is_object: bool = False


@dataclass
class _Context(Context):
    """What holds in an open element. is_hidden: whether it is skipped as hidden text. look: how its text is drawn
    (`Styles.look`), and the color around, "ground". items: the innermost list of the innermost text. said: label of the open
    note, author of the open comment. collected: takes the text of a description, a deletion or an author."""

    is_hidden: bool = False
    in_header_or_footer: bool = False
    look: dict[str, str] = field(default_factory=dict)
    items: _OpenList | None = None
    frame: _Frame = field(default_factory=_Frame)
    said: dict[str, str] = field(default_factory=dict)
    collected: list[str] | None = None


class _OpenDocument(Nested[_Context]):
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
        self._styles = Styles()
        self._text, self._in_styles = self._starts_of_text(), self._starts_of_styles()
        super().__init__(_Context(self._text), _PREFIXES)
        self._page = ""
        self._headers_footers: dict[str, list[tuple[str, list[Block]]]] = {}  # kinds and blocks, by their page
        self._next_pages: dict[str, str] = {}
        self._is_muted = False  # whether the rest of the paragraph is hidden
        self._floats = self._floats_behind = False  # whether a picture or filled shape does on the page so far
        self._deletions: dict[str, str] = {}  # text of each deletion, until it is at its place
        self._outline: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}  # numbers of lists by key, and of the last list of a style
        self._comments: list[tuple[str, str, str]] = []  # author, name of the place, and text of each

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

    def _starts_of_text(self) -> dict[str, Start]:
        return {
            **dict.fromkeys((*_SKIPPED, *_HEADERS_FOOTERS), self.skip),  # a header belongs to the styles
            **dict.fromkeys(_OF_STYLES, lambda _: self.enter(starts=self._in_styles)),
            "text:p": self._paragraph,
            "text:h": lambda given: self._paragraph(given, number(attribute(given, "outline-level"), 1, _MAX_LEVEL)),
            "text:span": self._span,
            "text:tracked-changes": self._changes,
            "text:change": self._deletion,
            "text:section": partial(self._hideable, "section"),
            "text:hidden-text": partial(self._hideable, "text"),
            "text:soft-page-break": self._begin_page,
            "text:hidden-paragraph": self._hidden_paragraph,
            "text:s": lambda given: self._say(" " * number(attribute(given, "c"), 1, _MAX_SPACES)),
            "text:tab": lambda _: self._say(" "),
            "text:line-break": lambda _: self._writer.line_break(),
            "text:note": self._note,
            "text:note-citation": partial(self._collect, self._take),
            "text:list": self._list,
            "text:list-item": self._item,
            "text:list-header": lambda _: self._item({}, is_header=True),
            "text:page-number": self._page_number,
            "text:page-count": self._page_number,
            "table:table": self._table,
            "table:table-row": self._row,
            "table:table-cell": self._cell,
            "table:covered-table-cell": partial(self._cell, is_covered=True),
            **dict.fromkeys(_SHAPES, self._shape),
            "draw:text-box": lambda _: self._begin_story(self._writer.end_box),
            "draw:frame": lambda given: self._shape(given, frame=_Frame()),
            "draw:object": self._object,
            "draw:object-ole": self._old_object,
            "draw:image": self._image,
            "svg:title": partial(self._collect, self._describe),
            "svg:desc": partial(self._collect, self._describe),
            "office:annotation": self._comment,
            "office:annotation-end": lambda given: self._writer.quotes.end(attribute(given, "name")),
            "dc:creator": partial(self._collect, self._take),
            "math:math": self._formula,
        }

    def _starts_of_styles(self) -> dict[str, Start]:
        def add(name: str) -> Start:
            return lambda given: self._styles.add(name, given)

        return {
            **{f"{prefix}{name}": add(name) for prefix in ("style:", "text:") for name in READ},
            **{name: partial(self._header_or_footer, kind) for name, kind in _HEADERS_FOOTERS.items()},
            "style:master-page": self._master_page,
        }

    def data(self, data: str) -> None:
        context = self.context
        if context.is_skipped:
            if context.is_hidden and not data.isspace():
                context.is_hidden = False
                self.markup.left_out[HIDDEN] += 1
        elif context.equation is not None:
            context.equation.data(data)
        elif context.collected is not None:
            context.collected.append(data)
        elif self._writer.in_paragraph:
            self._say(data)

    # -- headers and footers -------------------------------------------------------------------------------------------------

    def _master_page(self, attributes: dict[str, str]) -> None:
        self._page = attribute(attributes, "name")
        self._next_pages[self._page] = attribute(attributes, "next-style-name")

    def _header_or_footer(self, kind: str, attributes: dict[str, str]) -> None:
        def end() -> None:
            self._headers_footers.setdefault(self._page, []).append((kind, self._writer.end_story()))

        if attribute(attributes, "display") == "false":
            self.skip()
        else:
            self._begin_story(end, starts=self._text, in_header_or_footer=True)

    def _page_number(self, _: dict[str, str]) -> None:
        if self.context.in_header_or_footer:
            self._say(PAGE_NUMBER)
            self.skip()

    # -- tables --------------------------------------------------------------------------------------------------------------

    def _table(self, attributes: dict[str, str]) -> None:
        self._writer.begin_table()
        self._enter("table", attributes)
        if attribute(attributes, "template-name"):  # which may fill its cells
            self.context.look.setdefault("ground", PATTERN)

    def _row(self, _: dict[str, str]) -> None:
        self._writer.builder.begin_row()
        self.enter(lambda: self._writer.builder.end_row())

    def _cell(self, attributes: dict[str, str], *, is_covered: bool = False) -> None:
        self._writer.begin_cell()
        n_rows = number(attribute(attributes, "number-rows-spanned"), 1, MANY_ROWS)
        self._writer.builder.merge_cell(0 if is_covered else n_rows)
        self._enter("table-cell", attributes, self._writer.end_cell)

    # -- how text is drawn ---------------------------------------------------------------------------------------------------

    def _span(self, attributes: dict[str, str]) -> None:
        if not self._hides("text", attributes):
            self._enter("text", attributes)

    def _hides(self, family: str, attributes: dict[str, str], *, is_hidden: bool = False) -> bool:
        """Skip the open element if it is hidden, itself or by its style, and hidden text is not read. Return whether it is."""
        is_hidden = is_hidden or bool(self._styles.look(family, attribute(attributes, "style-name")).get("hidden"))
        if is_hidden and not self.markup.is_read:
            self.enter(is_skipped=True, is_hidden=True)
        return is_hidden and not self.markup.is_read

    def _enter(self, family: str, attributes: dict[str, str], end: Callable[[], object] | None = None, **changes: Any) -> None:
        """Let the style of the open element hold in it: of text that is around it only if it is a part of that. end, changes: as
        of `enter`."""
        own, around = self._styles.look(family, attribute(attributes, "style-name")), self.context.look
        look = around | own if family == "text" else {key: around[key] for key in ("ground",) if key in around} | own
        if own.get("area", "transparent") != "transparent":
            look["ground"] = own["area"]
        self.enter(end, look=look, **changes)

    def _hides_text(self) -> bool:
        """Return whether a person does not see the text that is said next."""
        look = self.context.look
        color, ground = parse_color(look.get("color", "")), None
        if color is not None:
            fills = [look.get("highlight", ""), look.get("ground", ""), self._styles.page_area]
            fills += [PATTERN] if self._floats_behind else []
            ground = ground_of(fills)
        return is_hidden(Look(float(look["size"]) if "size" in look else None, color, ground))

    # -- tracked deletions ---------------------------------------------------------------------------------------------------

    def _changes(self, _: dict[str, str]) -> None:
        """Begin the list of changes, which holds the text of each deletion."""

        def begin(given: dict[str, str]) -> None:
            key = attribute(given, "id")
            self._collect(lambda text: self._deletions.update({key: text}), given)

        starts = {
            **dict.fromkeys(("office:change-info", "office:annotation"), self.skip),
            **dict.fromkeys(_SPACES, lambda _: self.data(" ")),
            "text:changed-region": begin,
        }
        self.enter(starts=starts, collected=[])

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
            look = self.context.look
            self._writer.say(text, hidden=self._hides_text(), struck=bool(look.get("struck")), shift=look.get("shift", ""))

    def _paragraph(self, attributes: dict[str, str], level: int = 0) -> None:
        style = attribute(attributes, "style-name")
        if self._hides("paragraph", attributes):
            return
        self._enter("paragraph", attributes, self._end_paragraph)
        items = self.context.items
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
        self._writer.end_paragraph()
        self._is_muted = False

    # -- lists ---------------------------------------------------------------------------------------------------------------

    def _mark(self, items: _OpenList, style: str, level: int) -> str:
        """Count the open item of a list, and return its mark."""
        key = items.style or self._styles.list_of(style) or ""
        levels = self._styles.lists.get(key)
        if levels is None and key.lower() == OUTLINE:
            return label(self._styles.lists.get(OUTLINE, {}), self._outline, level or items.depth, items.start)
        depth = min(items.depth, _MAX_LEVEL)
        return label({depth: _PLAIN} if levels is None else levels, items.counts, depth, items.start)

    def _list(self, attributes: dict[str, str]) -> None:
        outer = self.context.items
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
        depth = 1 if outer is None else outer.depth + 1
        self.enter(lambda: self._writer.builder.end_block(), items=_OpenList(style, counts, depth))

    def _item(self, attributes: dict[str, str], *, is_header: bool = False) -> None:
        def end() -> None:
            if items is not None and items.begun:
                self._writer.builder.end_item()
                items.begun = False

        if (items := self.context.items) is not None:
            start = attribute(attributes, "start-value")
            items.begun, items.is_header, items.start = False, is_header, number(start, 1) if start else None
            self.enter(end)

    # -- notes, frames and comments ------------------------------------------------------------------------------------------

    def _begin_story(self, end: Callable[[], object], **changes: Any) -> None:
        """Read the open element as text of its own, which `end` ends. changes: as of `enter`."""
        self._writer.begin_story()
        self.enter(end, items=None, **changes)

    def _note(self, _: dict[str, str]) -> None:
        said: dict[str, str] = {}
        self._begin_story(lambda: self._writer.end_note(said.get("text", "")), said=said)

    def _comment(self, attributes: dict[str, str]) -> None:
        def end() -> None:
            text = self._writer.end_comment()
            if name:
                self._writer.quotes.begin(name)
            if text:
                self._comments.append((said.get("text", ""), name, text))

        name, said = attribute(attributes, "name"), dict[str, str]()
        self._begin_story(end, said=said)

    def _shape(self, attributes: dict[str, str], *, frame: _Frame | None = None) -> None:
        """Begin a shape. One without a fill shows what it floats on. Drawn shapes have one unless they say that they do not."""
        self._enter("graphic", attributes, frame=frame or self.context.frame)
        look = self.context.look
        area = look.get("area", PATTERN if frame is None else "")
        if area in ("", "transparent"):
            look |= {"ground": PATTERN} if self._floats else {}
        else:
            look["ground"] = area
            self._float()

    def _float(self) -> None:
        is_behind = self.context.look.get("run-through") == "background"
        self._floats, self._floats_behind = True, self._floats_behind or is_behind

    def _begin_page(self, _: dict[str, str]) -> None:
        self._floats = self._floats_behind = False

    def _image(self, _: dict[str, str]) -> None:
        if not self.context.frame.is_object:
            self.left_out["picture"] += 1
            self._float()

    def _old_object(self, _: dict[str, str]) -> None:
        self.context.frame.is_object = True
        self.left_out["embedded object"] += 1

    def _object(self, attributes: dict[str, str]) -> None:
        path, self.context.frame.is_object = attribute(attributes, "href"), True
        if not path:  # it is in this element
            return
        blocks = self._blocks_of(resolved("", f"{path}/{_CONTENT}"))
        self.context.frame.is_read = bool(blocks)
        if len(blocks) == 1:  # a formula
            self._say(blocks[0].text)
        elif blocks:
            self._writer.add(blocks)
        else:
            self.left_out["embedded object"] += 1

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
        self.context.frame.is_read = True
        self.begin_equation(_)

    def end_equation(self, text: str) -> None:
        self._say(text)

    def _collect(self, take: Callable[[str], object], _: dict[str, str]) -> None:
        """Collect the text of the open element. take: gets it at the end."""
        collected: list[str] = []
        self.enter(lambda: take(" ".join("".join(collected).split())), collected=collected)

    def _take(self, text: str) -> None:
        """Take the label of the open note, or the author of the open comment."""
        self.context.said["text"] = text

    def _describe(self, text: str) -> None:
        if text and not self.context.frame.is_read and self._writer.in_paragraph:
            self._say(f"[{text}]" if self._writer.builder.touches == " " else f" [{text}]")
