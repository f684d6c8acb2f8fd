"""Read an HTML page as the text that a browser shows, with its headings as sections. lxml parses it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import STRUCK, Extracted
from fbrag_cli.documents.readers.blocks import MANY_ROWS, SOFT_HYPHEN, Block, BlockBuilder, MarkupText, content_of
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
_UNKNOWN = re.compile(r"\0(\d+) (\d+)\0")  # means a number: key of its list, items before it. Pages have no NULs
_NUMERALS: dict[str, Callable[[int], str]] = {"a": lettered, "lower-alpha": lettered, "lower-latin": lettered}
_NUMERALS |= {"i": roman, "lower-roman": roman}
_NUMERALS |= {name.replace("lower", "upper") if "-" in name else name.upper(): upper(write) for name, write in _NUMERALS.items()}
_LIST_STYLE = re.compile(r"list-style(?:-type)?\s*:\s*([\w-]+)", re.IGNORECASE)
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_SHIFTS = {"sup": "^", "sub": "_"}
_DECORATION = re.compile(r"text-decoration(?:-line)?\s*:([^;]{0,200})", re.IGNORECASE)

_HEAD = 4096  # bytes in which a page declares its encoding
_DECLARED = re.compile(rb"""<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,200}?encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page. title: text of its <title>; "" without one. left_out: number of passages of each kind that only
    `--markup` reads."""

    title: str
    blocks: list[Block]
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _List:
    """A list. write: writes a number; None without numbers. next: number of its next item. step: -1 if it counts down. count:
    number of its items so far. waiting: key of a list that counts down to 1: its numbers are known at its end; None for others.
    """

    write: Callable[[int], str] | None = None
    next: int = 1
    step: int = 1
    count: int = 0
    waiting: int | None = None


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

    markup: whether struck-out text is read, as "~~old~~".
    """
    from lxml import etree

    reading = _PageReading(markup)
    # huge_tree: otherwise a text of 10 MB without a tag is lost. Nothing is fetched: the HTML parser has no external entities.
    parser = etree.HTMLParser(target=reading, encoding="utf-8", huge_tree=True, no_network=True)
    try:
        parser.feed(text.replace("\0", "\ufffd").encode("utf-8", "replace"))  # a NUL ends the text for older libxml2
        parser.close()
    except etree.LxmlError:  # neither text nor tag
        pass
    return reading.page()


class _PageReading:
    """The target of lxml's parser: it is called with each tag and text, in the page's order."""

    def __init__(self, markup: bool) -> None:
        self._builder = BlockBuilder()
        self._markup = MarkupText(markup)
        self._struck_depth = 0  # of open elements, from the one that strikes out
        self._title: list[str] = []
        self._in_title = False
        self._skipped_depth = 0
        self._lists: list[_List] = []
        self._waiting: list[_List] = []
        self._shift = ""
        self._merged: list[tuple[int, int]] = []  # rows and columns over which each open cell is merged

    def page(self) -> Page:
        blocks = self._builder.blocks()
        if self._waiting:
            blocks = [replace(each, text=self._numbered(each.text), prefix=self._numbered(each.prefix)) for each in blocks]
        return Page(" ".join("".join(self._title).split()), blocks, self._markup.left_out)

    def _numbered(self, text: str) -> str:
        def number(found: re.Match[str]) -> str:
            items = self._waiting[int(found[1])]
            return items.write(items.count - int(found[2])) if items.write else ""

        return _UNKNOWN.sub(number, text)

    def start(self, tag: str, attributes: dict[str, str]) -> None:  # noqa: C901 - a branch a tag
        if self._skipped_depth:
            self._skipped_depth += 1
            return
        # An element that is not shown, or the arrow from a note back to its place.
        is_hidden = "hidden" in attributes or _HIDDEN.search(attributes.get("style", ""))
        if tag in _SKIPPED or is_hidden or attributes.get("role") == "doc-backlink":
            self._skipped_depth = 1
            return
        if self._struck_depth or _strikes_out(tag, attributes.get("style", "")):
            self._struck_depth += 1
        builder = self._builder
        if tag == "title":
            self._in_title = True
        elif tag == "br":
            self._say(" ") if self._struck_depth and not self._markup.is_read else builder.line_break()
        elif tag == "img" and (alt := " ".join(attributes.get("alt", "").split())):
            self._say(alt if len(alt) == 1 else f"[{alt}]")  # a single character is a painted initial
        elif tag in _SHIFTS or _NOTE.intersection((attributes.get("epub:type"), attributes.get("role"))):
            self._shift = _SHIFTS.get(tag, "^")
        elif tag == "q":
            self._say("“")
        elif tag == "li":
            builder.begin_item(self._marker(attributes.get("value", "")))
        elif tag in ("ul", "ol", "menu", "dir"):
            builder.begin_group()
            self._lists.append(self._list(attributes) if tag == "ol" else _List())
        elif tag == "table":
            builder.begin_group()
        elif tag == "tr":
            builder.begin_row()
        elif tag in _CELLS:
            builder.begin_cell(beside_merged=True)
            rows, columns = (_SPAN.fullmatch(attributes.get(name, "")) for name in ("rowspan", "colspan"))
            n_rows = (int(rows[0]) or MANY_ROWS) if rows else 1
            builder.merge_cell(n_rows)
            self._merged.append((n_rows, min(int(columns[0]), _MAX_COLUMNS) if columns else 1))
        elif tag in _BLOCKS:
            builder.end_block()
            builder.level = _HEADINGS.get(tag, builder.level)
            builder.preformatted = builder.preformatted or tag in _PREFORMATTED
        for name in ("id", "name"):
            if name in attributes:
                builder.anchor(attributes[name])

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        builder = self._builder
        if tag == "title":
            self._in_title = False
        elif tag in _SHIFTS:
            self._shift = ""
        elif tag == "q":
            self._say("”")
        elif tag == "li":
            builder.end_item()
        elif tag in ("ul", "ol", "menu", "dir"):
            builder.end_block()
            self._lists.pop()
        elif tag == "tr":
            builder.end_row(beside_merged=True)
        elif tag in _CELLS:
            builder.end_cell()
            n_rows, n_columns = self._merged.pop()
            for _ in range(n_columns - 1):
                builder.begin_cell()
                builder.merge_cell(n_rows)
                builder.end_cell()
        elif tag in _BLOCKS:
            builder.end_block()
            if tag in _HEADINGS:
                builder.level = 0
            builder.preformatted = builder.preformatted and tag not in _PREFORMATTED
        self._struck_depth = max(0, self._struck_depth - 1)

    def data(self, data: str) -> None:
        if self._skipped_depth:
            return
        data = data.replace(SOFT_HYPHEN, "")
        if self._in_title:
            self._title.append(data)
            return
        self._say(data, self._shift)  # also "see below<sup>1</sup>"
        self._shift = self._shift if data.isspace() else ""

    def _say(self, text: str, shift: str = "") -> None:
        is_struck = self._struck_depth > 0
        self._builder.text(self._markup.read(text, STRUCK if is_struck else ""), shift=shift, is_struck=is_struck)

    def comment(self, text: str) -> None:
        pass

    def pi(self, target: str, data: str | None = None) -> None:
        pass

    def close(self) -> None:
        pass

    def _list(self, attributes: dict[str, str]) -> _List:
        styled = _LIST_STYLE.search(attributes.get("style", ""))
        write = _NUMERALS.get(styled[1].lower() if styled else attributes.get("type", ""), str)
        has_start = _NUMBER.fullmatch(start := attributes.get("start", "")) is not None
        items = _List(write, int(start) if has_start else 1)
        if "reversed" in attributes:
            items.step = -1
            if not has_start:
                items.waiting = len(self._waiting)
                self._waiting.append(items)
        return items

    def _marker(self, value: str) -> str:
        """Return the mark of the next item. value: its own number, if the page gives one."""
        items = self._lists[-1] if self._lists else _List()
        if items.write is None:
            return "- "
        if _NUMBER.fullmatch(value):
            items.next, items.waiting = int(value), None
        mark = items.write(items.next) if items.waiting is None else f"\0{items.waiting} {items.count}\0"
        items.next += items.step
        items.count += 1
        return f"{mark}. "


def _strikes_out(tag: str, style: str) -> bool:
    """Return whether an element strikes out its text. A deletion is one however it looks."""
    if decorations := _DECORATION.findall(style):
        return tag == "del" or "line-through" in decorations[-1].lower()
    return tag in ("del", "s", "strike")
