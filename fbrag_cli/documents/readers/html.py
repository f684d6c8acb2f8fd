"""Read an HTML page as the text that a browser shows, with its headings as sections. lxml parses it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import HIDDEN, STRUCK, Extracted
from fbrag_cli.documents.hidden import Look, is_hidden
from fbrag_cli.documents.readers.blocks import MANY_ROWS, SOFT_HYPHEN, Block, BlockBuilder, MarkupText, content_of
from fbrag_cli.documents.readers.css import Element, StyleSheet, drawn
from fbrag_cli.documents.readers.nested import Target
from fbrag_cli.documents.readers.number_formats import lettered, roman, upper
from fbrag_cli.documents.source import Source

# No text of the page (scripts, drawings), or not read with it (menus, replacements of scripts, readings next to characters).
_SKIPPED = frozenset(
    "script style template noscript nav svg iframe object audio video canvas button select textarea datalist rp rt annotation"
    " annotation-xml".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form"
    " h1 h2 h3 h4 h5 h6 header hgroup hr html legend main menu ol optgroup p pre search section summary table tbody tfoot thead"
    " ul xmp listing plaintext".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PREFORMATTED = frozenset(("pre", "xmp", "listing", "plaintext"))
_CELLS = frozenset(("td", "th"))
_NOTE = frozenset(("noteref", "doc-noteref"))
_NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)
_SPAN = re.compile(r"\d{1,4}", re.ASCII)
_MAX_COLUMNS = 100  # over which a cell is merged
_NUMERALS: dict[str, Callable[[int], str]] = {"a": lettered, "lower-alpha": lettered, "lower-latin": lettered}
_NUMERALS |= {"i": roman, "lower-roman": roman}
_NUMERALS |= {name.replace("lower", "upper") if "-" in name else name.upper(): upper(write) for name, write in _NUMERALS.items()}
_STRIKING = frozenset(("del", "s", "strike"))
_HINTS = {"bgcolor": "background-color", "color": "color", "text": "color"}  # attributes, of <font> and <body> too
_SHEETS = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style)\b([^<>]{0,1000})>(.*?)(?:</\1|\Z)", re.IGNORECASE | re.DOTALL)
_MEDIA = re.compile(r"""\bmedia\s*=\s*["']?([^"'>]*)""", re.IGNORECASE)
_COUNTS_DOWN = re.compile(rb"<ol\b[^<>]{0,1000}\breversed", re.IGNORECASE)

_HEAD = 4096  # bytes in which a page declares its encoding
_DECLARED = re.compile(rb"""<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,200}?encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page. title: text of its <title>; "" without one. left_out: numbers of passages that only `--markup` reads, by kind."""

    title: str
    blocks: list[Block]
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _List:
    """A list. write: writes a number; None without numbers. next: number of its next item. step: -1 if it counts down."""

    write: Callable[[int], str] | None = None
    next: int = 1
    step: int = 1


def read_html(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read an HTML page. Its <title> is the first line if it has no main heading (h1).

    codec: encoding; None for the declared one, or a guess. Raises FbragError as `decode`.
    """
    decoded = decode(source, codec, declared=declared_encoding(source.data))
    page = read_page(decoded.text, markup)
    blocks = page.blocks
    if page.title and blocks and not any(block.level == 1 for block in blocks):
        blocks = [Block(page.title, level=1), *blocks]
    return Extracted(content_of(blocks), "text/html", decoded.encoding, warnings=decoded.warnings, markup=page.left_out)


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding that a page (HTML, XHTML) declares in its head, as written there."""
    found = _DECLARED.search(data[:_HEAD])
    return None if found is None else found[1].decode("ascii", "replace")


def read_page(text: str, markup: bool = False) -> Page:
    """Read the blocks of an HTML or XHTML page. Never fails, as in a browser: any text is a page.

    markup: whether hidden text is read, and struck-out text, as "~~old~~".
    """
    from lxml import etree

    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")  # a NUL ends the text for older libxml2
    reading = _PageReading(markup, StyleSheet(_sheets(text)), _lengths(data))
    # huge_tree: otherwise a text of 10 MB without a tag is lost. Nothing is fetched: the HTML parser has no external entities.
    parser = etree.HTMLParser(target=reading, encoding="utf-8", huge_tree=True, no_network=True)
    try:
        parser.feed(data)
        parser.close()
    except etree.LxmlError:  # neither text nor tag
        pass
    return reading.page()


@dataclass(slots=True)
class _Open:
    """An open element. element: None if the page has no rules. look: how its text is drawn. kind: of its text (`document.HIDDEN`,
    `STRUCK`); "" if it is shown. is_gone: whether it takes no room on the page (`display: none`). is_skipped: whether it is not
    read, and not told."""

    element: Element | None = None
    look: Look = Look()
    kind: str = ""
    is_gone: bool = False
    is_struck: bool = False
    is_skipped: bool = False


class _PageReading(Target):
    """The target of lxml's parser: it is called with each tag and text, in the page's order."""

    def __init__(self, markup: bool, sheet: StyleSheet, lengths: Iterable[int]) -> None:
        self._builder = BlockBuilder()
        self._markup = MarkupText(markup)
        self._sheet = sheet
        self._open = [_Open()]
        self._title: list[str] = []
        self._in_title = False
        self._lists: list[_List] = []
        self._lengths = iter(lengths)
        self._n_items = 0  # of the numbered list that begins
        self._styles: dict[str, str] = {}  # of the element that begins
        self._shift = ""
        self._merged: list[tuple[int, int]] = []  # rows and columns over which each open cell is merged
        self._starts: dict[str, Callable[[dict[str, str]], None]] = {
            **{tag: partial(self._begin_block, tag) for tag in _BLOCKS},
            **dict.fromkeys(("ul", "menu", "dir"), self._begin_list),
            **dict.fromkeys(_CELLS, self._begin_cell),
            "br": lambda _: self._break(),
            "img": self._image,
            "ol": self._begin_numbers,
            "li": lambda given: self._builder.begin_item(self._marker(given.get("value", ""))),
            "q": lambda _: self._say("“"),
            "sub": lambda _: setattr(self, "_shift", "_"),
            "sup": lambda _: setattr(self, "_shift", "^"),
            "table": lambda _: self._builder.begin_group(),
            "title": lambda _: setattr(self, "_in_title", True),
            "tr": lambda _: self._builder.begin_row(),
        }
        self._ends: dict[str, Callable[[], None]] = {
            **{tag: partial(self._end_block, tag) for tag in _BLOCKS},
            **dict.fromkeys(("ul", "ol", "menu", "dir"), self._end_list),
            **dict.fromkeys(_CELLS, self._end_cell),
            "li": self._builder.end_item,
            "q": lambda: self._say("”"),
            "sub": lambda: setattr(self, "_shift", ""),
            "sup": lambda: setattr(self, "_shift", ""),
            "title": lambda: setattr(self, "_in_title", False),
            "tr": lambda: self._builder.end_row(beside_merged=True),
        }

    def page(self) -> Page:
        return Page(" ".join("".join(self._title).split()), self._builder.blocks(), self._markup.left_out)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        around = self._open[-1]
        if tag == "ol":
            self._n_items = next(self._lengths, 0)
        # Not text of the page, or the arrow from a note back to its place.
        if around.is_skipped or tag in _SKIPPED or attributes.get("role") == "doc-backlink":
            self._open.append(_Open(is_skipped=True))
            return
        element = self._sheet.element(around.element, tag, attributes)
        styles = self._styles = self._sheet.styles(element, attributes.get("style", ""))
        if attributes:
            styles = _hints(attributes) | styles
        opened = around if element is None else _Open(element, around.look, around.kind, around.is_gone, around.is_struck)
        if styles or tag in _STRIKING:
            look, is_gone = drawn(around.look, styles), around.is_gone or styles.get("display") == "none"
            is_struck = around.is_struck or _strikes_out(tag, styles.get("text-decoration", ""))
            kind = HIDDEN if is_gone or is_hidden(look) else STRUCK if is_struck else ""
            opened = _Open(element, look, kind, is_gone=is_gone, is_struck=is_struck)
        self._open.append(opened)
        if opened.is_gone and not self._markup.is_read:
            return
        if begin := self._starts.get(tag):
            begin(attributes)
        if _NOTE.intersection((attributes.get("epub:type"), attributes.get("role"))):
            self._shift = "^"
        for name in ("id", "name"):
            if name in attributes:
                self._builder.anchor(attributes[name])

    def end(self, tag: str) -> None:
        opened = self._open[-1]
        if not opened.is_skipped and (self._markup.is_read or not opened.is_gone) and (end := self._ends.get(tag)):
            end()
        self._open.pop()

    def data(self, data: str) -> None:
        if self._open[-1].is_skipped:
            return
        data = data.replace(SOFT_HYPHEN, "")
        if self._in_title:
            self._title.append(data)
            return
        self._say(data, self._shift)  # also "see below<sup>1</sup>"
        self._shift = self._shift if data.isspace() else ""

    def _say(self, text: str, shift: str = "") -> None:
        opened = self._open[-1]
        self._builder.text(self._markup.read(text, opened.kind), shift=shift, is_struck=opened.is_struck)

    def _break(self) -> None:
        if self._open[-1].kind and not self._markup.is_read:
            self._say(" ")
        else:
            self._builder.line_break()

    def _image(self, attributes: dict[str, str]) -> None:
        if alt := " ".join(attributes.get("alt", "").split()):
            self._say(alt if len(alt) == 1 else f"[{alt}]")  # a single character is a painted initial

    def _begin_block(self, tag: str, _: dict[str, str]) -> None:
        self._builder.end_block()
        self._builder.level = _HEADINGS.get(tag, self._builder.level)
        self._builder.preformatted = self._builder.preformatted or tag in _PREFORMATTED

    def _end_block(self, tag: str) -> None:
        self._builder.end_block()
        if tag in _HEADINGS:
            self._builder.level = 0
        self._builder.preformatted = self._builder.preformatted and tag not in _PREFORMATTED

    def _begin_cell(self, attributes: dict[str, str]) -> None:
        self._builder.begin_cell(beside_merged=True)
        rows, columns = (_SPAN.fullmatch(attributes.get(name, "")) for name in ("rowspan", "colspan"))
        n_rows = (int(rows[0]) or MANY_ROWS) if rows else 1
        self._builder.merge_cell(n_rows)
        self._merged.append((n_rows, min(int(columns[0]), _MAX_COLUMNS) if columns else 1))

    def _end_cell(self) -> None:
        self._builder.end_cell()
        n_rows, n_columns = self._merged.pop()
        for _ in range(n_columns - 1):
            self._builder.begin_cell()
            self._builder.merge_cell(n_rows)
            self._builder.end_cell()

    def _begin_list(self, attributes: dict[str, str]) -> None:
        self._builder.begin_group()
        self._lists.append(_List())

    def _begin_numbers(self, attributes: dict[str, str]) -> None:
        self._builder.begin_group()
        write = _NUMERALS.get(self._styles.get("list-style", "").split(" ")[0] or attributes.get("type", ""), str)
        step = -1 if "reversed" in attributes else 1
        start = attributes.get("start", "")
        self._lists.append(_List(write, int(start) if _NUMBER.fullmatch(start) else 1 if step == 1 else self._n_items, step))

    def _end_list(self) -> None:
        self._builder.end_block()
        self._lists.pop()

    def _marker(self, value: str) -> str:
        """Return the mark of the next item. value: its own number, if the page gives one."""
        items = self._lists[-1] if self._lists else _List()
        if items.write is None:
            return "- "
        if _NUMBER.fullmatch(value):
            items.next = int(value)
        mark = items.write(items.next)
        items.next += items.step
        return f"{mark}. "


def _sheets(text: str) -> Iterator[tuple[str, str]]:
    """Yield each style sheet in a page, and the media that it is for."""
    for tag, attributes, sheet in _SHEETS.findall(text):
        if tag.lower() == "style":
            media = _MEDIA.search(attributes)
            yield sheet, media[1] if media else ""


def _lengths(text: bytes) -> list[int]:
    """Return the number of items of each numbered list, if one of the page counts down to 1."""
    from lxml import etree

    if not _COUNTS_DOWN.search(text):
        return []
    tree = etree.fromstring(text, etree.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True))
    return [sum(1 for _ in each.iterchildren("li")) for each in tree.iter("ol")]


def _hints(attributes: dict[str, str]) -> dict[str, str]:
    """Return what attributes other than `style` say of how an element is drawn, which style sheets override."""
    hints = {_HINTS[name]: value.lower() for name, value in attributes.items() if name in _HINTS and value}
    if "background" in attributes:
        hints["background-image"] = "url()"
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        hints["display"] = "none"
    return hints


def _strikes_out(tag: str, decoration: str) -> bool:
    """Return whether an element strikes out its text. A deletion is one however it looks."""
    return tag == "del" or ("line-through" in decoration if decoration else tag in _STRIKING)
