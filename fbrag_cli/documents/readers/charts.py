"""Read the charts and diagrams (SmartArt) of office documents as text: titles, and series as a table of their categories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.nested import Target
from fbrag_cli.documents.readers.package import Archive, Relation, number
from fbrag_cli.errors import FbragError

_MAX_CELLS = 100_000  # of one chart; the figures of larger ones are left out
_KINDS = {"tx": "tx", "cat": "cat", "xVal": "cat", "val": "val", "yVal": "val", "bubbleSize": ""}  # parts of a series
_MAX_NAME = 300  # characters of a title or category


def read_linked(archive: Archive, relation: Relation) -> list[Block]:
    """Return the text of the chart or diagram that a part refers to; nothing if it is of another kind, or damaged.

    A chart: a line "Chart: TITLE", the titles of its axes, and a row for each category with a cell per series. A diagram: a line
    for each shape.
    """
    kinds: dict[str, type[_Chart] | type[_Diagram]] = {"chart": _Chart, "diagramData": _Diagram}
    if relation.kind not in kinds or relation.target not in archive:
        return []
    target = kinds[relation.kind]()
    with suppress(FbragError):  # the text around a damaged part is worth reading
        archive.feed(relation.target, target)
        return target.blocks()
    return []


class _Series:
    """A series. points: text of each point by kind ("cat", "val") and index."""

    def __init__(self) -> None:
        self.name = ""
        self.points: dict[str, dict[int, str]] = {"cat": {}, "val": {}}


class _Chart(Target):
    """The target of lxml's parser for a chart. Points of scatter charts (x, y) are read as categories and values."""

    def __init__(self) -> None:
        self._series: list[_Series] = []
        self._titles: list[list[str]] = []
        self._kind = ""
        self._index = -1
        self._open: list[str] = []
        self._in_title = 0
        self._in_series = False
        self._text: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if name == "ser":
            self._series.append(_Series())
            self._in_series = True
        elif name == "title":
            self._titles.append([])
            self._in_title += 1
        elif self._in_series and not self._in_title and name in _KINDS:
            self._kind, self._index = _KINDS[name], -1
        elif name == "pt":
            self._index = number(attributes.get("idx", ""), -1)
        elif name in ("v", "t"):
            self._text = []

    def end(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        if name == "ser":
            self._in_series = False
        elif name == "p" and self._in_title:
            self._titles[-1].append(" ")
        elif name == "title":
            self._in_title = max(0, self._in_title - 1)
        elif name in _KINDS and not self._in_title:
            self._kind = ""
        elif name in ("v", "t") and self._text is not None:
            self._add("".join(self._text))
            self._text = None

    def data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def _add(self, text: str) -> None:
        if self._in_title and self._titles:
            self._titles[-1].append(text)
            return
        text = " ".join(text.split())[:_MAX_NAME]
        if self._in_series and self._kind == "tx":
            self._series[-1].name = f"{self._series[-1].name} {text}".strip()[:_MAX_NAME]
        elif self._in_series and self._kind and self._index >= 0:
            points = self._series[-1].points[self._kind]
            before = points.get(self._index)  # categories may have several levels, the inner one first
            points[self._index] = f"{text} {before}"[:_MAX_NAME] if before and self._kind == "cat" else _number(text)

    def blocks(self) -> list[Block]:
        titles = [text for text in (" ".join("".join(parts).split())[:_MAX_NAME] for parts in self._titles) if text]
        series = [each for each in self._series if each.points["val"] or each.points["cat"]]
        if not titles and not series:
            return []
        builder = BlockBuilder()
        builder.begin_group()
        builder.row([f"Chart: {', '.join(titles)}" if titles else "Chart"])
        for group, categories in _groups(series):
            names = [each.name for each in group]
            if any(names):
                builder.row(["", *names])
            rows = sorted(categories.keys() | {index for each in group for index in each.points["val"]})
            if len(rows) * len(group) <= _MAX_CELLS:
                for index in rows:
                    name = categories.get(index, str(index + 1))
                    builder.row([name, *(each.points["val"].get(index, "") for each in group)])
        return builder.blocks()


def _groups(series: list[_Series]) -> Iterator[tuple[list[_Series], dict[int, str]]]:
    """Yield the series that share their categories, with these: all, or in a scatter chart each by itself."""
    first = next((each.points["cat"] for each in series if each.points["cat"]), {})
    if any(each.points["cat"] not in ({}, first) for each in series):
        yield from (([each], each.points["cat"]) for each in series)
    elif series:
        yield series, first


def _number(text: str) -> str:
    """Return a figure as people write it: "4.3" for "4.2999999999999998"; any other text as it is."""
    try:
        return f"{float(text):.15g}" if len(text) > 15 else text
    except ValueError:
        return text


class _Diagram(Target):
    """The target of lxml's parser for the data of a diagram."""

    def __init__(self) -> None:
        self._builder = BlockBuilder()
        self._builder.begin_group()
        self._in_text = False

    def blocks(self) -> list[Block]:
        return self._builder.blocks()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if name == "p":
            self._builder.begin_item("")
        elif name == "br":
            self._builder.line_break()
        self._in_text = name == "t"

    def end(self, tag: str) -> None:
        self._in_text = False
        if tag.rpartition("}")[2] == "p":
            self._builder.end_item()

    def data(self, data: str) -> None:
        if self._in_text:
            self._builder.text(data)
