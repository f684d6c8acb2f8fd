"""Read a slide, or what lies on a sheet of Office: shapes, tables, charts, diagrams, texts of pictures; and comments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import STRUCK, comment
from fbrag_cli.documents.readers.blocks import MANY_ROWS, Block, BlockBuilder, MarkupText
from fbrag_cli.documents.readers.charts import read_linked
from fbrag_cli.documents.readers.package import Archive, Relation, attribute, number

if TYPE_CHECKING:
    from lxml.etree import _Element

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # the same on every slide
_SKIPPED = ("Fallback", "extLst")  # a copy for older programs; private data of programs
_SHAPES = frozenset(("sp", "graphicFrame", "pic", "cxnSp", "grpSp"))
_KNOWN = frozenset("sld ph p tr tc br tab r fld rPr t chart relIds oleObj videoFile audioFile".split())
_LEFT_OUT = {"oleObj": "embedded object", "videoFile": "video", "audioFile": "recording"}
_OF_AUTHORS = ("commentAuthors", "authors", "person")
_OF_COMMENTS = ("comments", "threadedComment")
_COMMENTS = ("{*}cm", "{*}reply", "{*}comment", "{*}threadedComment")
_COPY_OF_A_THREAD = "tc="  # how the author of a copy for older programs begins
# What Office writes as the alternative text of a picture by itself, in English.
_BY_OFFICE = re.compile(r"automatically generated|AI-generated content", re.IGNORECASE)


def parts_named(archive: Archive, part: str, path: str, linked: Iterable[Relation]) -> list[str]:
    """Return the names of the parts that elements of `part` refer to, in order; "" for one that is missing.

    path: of the elements. linked: the relations of the part.
    """
    targets = {each.identity: each.target for each in linked}
    references = (element.attrib.items() for element in archive.tree(part).iter(path))
    # r:id; the attribute id is another number
    return [next((targets.get(value, "") for name, value in each if name.endswith("}id")), "") for each in references]


def read_drawing(archive: Archive, part: str, linked: Iterable[Relation], left_out: Counter[str], markup: MarkupText) -> Drawing:
    """Read the part `part`, with the charts and diagrams that it refers to.

    linked: the relations of the part. left_out: counts what is not read, by its name. markup: tells what is read of struck-out
    text.
    """
    relations = {each.identity: each for each in linked}

    def read(relation: Relation | None) -> list[Block]:
        """Return the text of a chart or diagram; nothing if it is missing, or was read already."""
        if relation is None or relation.target not in archive:
            return []
        blocks = read_linked(archive, relation)
        if not blocks and relation.kind != "diagramData":  # damaged, or in the form of Office 2016, as treemaps
            left_out["chart"] += 1
        apart = f"{relation.target} "  # from the shapes' groups
        return [replace(block, group=block.group and apart + block.group) for block in blocks]

    drawing = Drawing(lambda identity: read(relations.pop(identity, None)), left_out, markup)
    archive.feed(part, drawing)
    for each in relations.values():
        if each.kind == "diagramData":  # its frame is in a form that is not known
            drawing.builder.extend(read(each))
    return drawing


class Drawing:
    """The target of lxml's parser for a drawing. title: the text of its title; all other text is in `builder`. is_hidden: whether
    the whole slide is. markup: tells what is read of struck-out text."""

    def __init__(self, linked: Callable[[str], list[Block]], left_out: Counter[str], markup: MarkupText) -> None:
        self.builder, self._of_title = BlockBuilder(), BlockBuilder()
        self._markup = markup
        self._is_struck = False  # whether the open run is
        self._shift = self._shift_before = ""  # of the open run, and of the text before
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
                covered = attributes.get("vMerge") in ("1", "true")
                builder.merge_cell(0 if covered else number(attributes.get("rowSpan", ""), 1, MANY_ROWS))
            case "br":
                self._text(" ") if self._in_title else builder.line_break()
            case "tab":
                self._text(" ")
            case "r" | "fld" | "rPr":
                self._is_struck = attributes.get("strike", "noStrike") != "noStrike"
                rise = attributes.get("baseline", "0")  # "30%", or the same as 30000
                self._shift = "_" if rise.startswith("-") else "^" if rise.strip("0%") else ""
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

    @property
    def title(self) -> str:
        return " ".join(block.text for block in self._of_title.blocks())

    def _text(self, text: str) -> None:
        if not self._shape_is_skipped:
            builder = self._of_title if self._in_title else self.builder
            shift, self._shift_before = "" if self._shift == self._shift_before else self._shift, self._shift
            builder.text(self._markup.read(text, STRUCK if self._is_struck else ""), shift=shift, is_struck=self._is_struck)


# -- comments -----------------------------------------------------------------------------------------------------------------


def names_of_authors(archive: Archive, linked: Iterable[Relation]) -> dict[str, str]:
    """Return the names of those who comment, by their identities. linked: the relations of the workbook or presentation."""
    found = {}
    for each in linked:
        if each.kind in _OF_AUTHORS and each.target in archive:
            for element in archive.tree(each.target).iter("{*}cmAuthor", "{*}author", "{*}person"):
                found[element.get("id", "")] = element.get("name") or element.get("displayName") or ""
    return found


def comments_of(archive: Archive, linked: Iterable[Relation], place: str, authors: Mapping[str, str]) -> Iterator[str]:
    """Yield the comments on a slide or sheet, as "Comment by Ann Lee on Sales!B4: too high".

    linked: its relations. place: its name in the comment; the cell follows it, if there is one. authors: from
    `names_of_authors`.
    """
    for each in linked:
        if each.kind not in _OF_COMMENTS or each.target not in archive:
            continue
        root = archive.tree(each.target)
        own = {str(number): "".join(element.itertext()) for number, element in enumerate(root.iter("{*}author"))}
        for element in root.iter(*_COMMENTS):
            author = (own or authors).get(element.get("authorId") or element.get("personId") or "", "")
            text = _text_of(element).removeprefix(f"{author}:").strip()
            if text and not author.startswith(_COPY_OF_A_THREAD):
                cell = f"!{element.get('ref')}" if element.get("ref") else ""
                yield comment(" ".join(author.split()), f"{place}{cell}", text)


def _text_of(element: _Element) -> str:
    """Return the text of a comment without that of its replies: a line a paragraph."""
    lines = [""]
    for child in element:
        if child.tag.rpartition("}")[2] in ("text", "txBody"):
            for each in child.iter("{*}p", "{*}t", "{*}text"):
                if each.tag.endswith("}p"):
                    lines.append("")
                else:
                    lines[-1] += each.text or ""
    return "\n".join(" ".join(line.split()) for part in lines for line in part.split("\n") if line.strip())
