"""Read the text of a drawing of Office (a slide, or what lies on a sheet): shapes, tables, charts, diagrams, pictures' texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.charts import read_chart, read_diagram
from fbrag_cli.documents.readers.relations import Relation
from fbrag_cli.documents.readers.xml import attribute, feed

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # the same on every slide
_SKIPPED = ("Fallback", "extLst")  # a copy for older programs; private data of programs
_SHAPES = frozenset(("sp", "graphicFrame", "pic", "cxnSp", "grpSp"))
_READERS = {"chart": read_chart, "diagramData": read_diagram}
_KNOWN = frozenset(("sld", "ph", "p", "tr", "tc", "br", "tab", "t", "chart", "relIds", "oleObj", "videoFile", "audioFile"))
_LEFT_OUT = {"oleObj": "embedded object", "videoFile": "video", "audioFile": "recording"}
# What Office writes as the alternative text of a picture by itself, in English.
_BY_OFFICE = re.compile(r"automatically generated|AI-generated content", re.IGNORECASE)


def read_drawing(archive: Archive, part: str, linked: Iterable[Relation], left_out: Counter[str]) -> Drawing:
    """Read the part `part`, with the charts and diagrams that it refers to.

    linked: the relations of the part. left_out: counts what is not read, by its name.
    """
    relations = {each.identity: each for each in linked}
    drawing = Drawing(lambda identity: _linked(archive, relations.pop(identity, None), left_out), left_out)
    feed(archive.read(part), drawing, archive.damaged)
    for each in relations.values():
        if each.kind == "diagramData":  # its frame is in a form that is not known
            drawing.builder.extend(_linked(archive, each, left_out))
    return drawing


def _linked(archive: Archive, relation: Relation | None, left_out: Counter[str]) -> list[Block]:
    """Return the text of a chart or diagram; nothing where it is missing, or was read already."""
    if relation is None or relation.target not in archive:
        return []
    if relation.kind in _READERS:
        blocks = _READERS[relation.kind](archive.read(relation.target), archive.damaged)
        return [
            replace(block, group=block.group and f"{relation.target} {block.group}") for block in blocks
        ]  # apart from the shapes' groups
    left_out["chart"] += 1  # in the form of Office 2016, as treemaps
    return []


class Drawing:
    """The target of lxml's parser for a drawing. title: the text of its title; all other text is in `builder`. is_hidden: whether
    the whole slide is."""

    def __init__(self, linked: Callable[[str], list[Block]], left_out: Counter[str]) -> None:
        self.builder = BlockBuilder()
        self.title: list[str] = []
        self.is_hidden = False
        self._linked, self._left_out = linked, left_out
        self._in_title = False
        self._in_text = False
        self._skipped_depth = 0
        self._shape_is_skipped = False
        self._groups: list[bool] = []  # open groups: whether each is hidden
        self._of_group = False  # whether the next properties are those of a group

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if self._skipped_depth or name in _SKIPPED:
            self._skipped_depth += 1
            return
        if name in _SHAPES:
            self._begin_shape(name)
        elif name == "cNvPr":
            self._describe(attributes)
        elif name in _KNOWN:
            self._begin(name, attributes)

    def _begin_shape(self, name: str) -> None:
        self._of_group = name == "grpSp"
        if self._of_group:
            self._groups.append(False)
        else:
            self._in_title, self._shape_is_skipped = False, any(self._groups)
            self.builder.begin_group()

    def _describe(self, attributes: dict[str, str]) -> None:
        """Take the properties of a shape or group: whether it is hidden, and its alternative text."""
        is_hidden = attributes.get("hidden") in ("1", "true")
        if is_hidden:
            self._left_out["hidden shape"] += 1
        if self._of_group and self._groups:
            self._groups[-1] = is_hidden
            self._of_group = False
        self._shape_is_skipped |= is_hidden
        text = " ".join((attributes.get("descr") or "").split())
        if text and not self._shape_is_skipped and not _BY_OFFICE.search(text):
            self.builder.begin_item("")
            self.builder.text(f"[{text}]")
            self.builder.end_item()

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        builder = self.builder
        match name:
            case "sld":
                self.is_hidden = attributes.get("show") in ("0", "false")
            case "ph":
                self._in_title = attributes.get("type") in _TITLES
                self._shape_is_skipped |= attributes.get("type") in _FURNITURE
            case "p":
                builder.begin_item("")  # the paragraphs of a frame are neighbouring lines
            case "tr":
                builder.begin_row()
            case "tc":
                builder.begin_cell()
            case "br":
                self.title.append(" ") if self._in_title else builder.line_break()
            case "tab":
                self._text(" ")
            case "t":
                self._in_text = True
            case "chart" | "relIds" if not self._shape_is_skipped:
                builder.extend(self._linked(attribute(attributes, "id" if name == "chart" else "dm")))
            case "oleObj" | "videoFile" | "audioFile":
                self._left_out[_LEFT_OUT[name]] += 1

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        name = tag.rpartition("}")[2]
        if name not in _SHAPES and name not in _KNOWN:
            return
        match name:
            case "grpSp":
                self._groups.pop()
            case "sp" | "graphicFrame" | "pic" | "cxnSp":
                self._shape_is_skipped = any(self._groups)
            case "p":
                self._text(" ") if self._in_title else None
                self.builder.end_item()
            case "tr":
                self.builder.end_row()
            case "tc":
                self.builder.end_cell()
            case "t":
                self._in_text = False

    def data(self, data: str) -> None:
        if self._in_text and not self._skipped_depth:
            self._text(data)

    def close(self) -> None:
        pass

    def _text(self, text: str) -> None:
        if not self._shape_is_skipped:
            self.title.append(text) if self._in_title else self.builder.text(text)
