"""Read a slide, or what lies on a sheet of Office: shapes, tables, charts, diagrams, texts of pictures; and comments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import HIDDEN, STRUCK, comment
from fbrag_cli.documents.hidden import WHITE, Color, Look, is_hidden, parse_color
from fbrag_cli.documents.layout import Box, reading_order
from fbrag_cli.documents.readers.blocks import MANY_ROWS, Block, BlockBuilder, MarkupText
from fbrag_cli.documents.readers.charts import read_linked
from fbrag_cli.documents.readers.nested import Target
from fbrag_cli.documents.readers.package import Archive, Relation, attribute, number, theme_colors
from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from lxml.etree import _Element

_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # the same on every slide
_SKIPPED = ("Fallback", "extLst")  # a copy for older programs; private data of programs
_SHAPES = frozenset(("sp", "graphicFrame", "pic", "cxnSp", "grpSp"))
_KNOWN = frozenset("sld ph p tr tc br tab r fld rPr t chart relIds oleObj videoFile audioFile".split())
_OF_PLACES = frozenset(("xfrm", "off", "ext", "chOff", "chExt", "ph"))
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


def read_drawing(
    archive: Archive,
    part: str,
    linked: Iterable[Relation],
    left_out: Counter[str],
    markup: MarkupText,
    layout: Layout | None = None,
) -> Drawing:
    """Read the part `part`, with the charts and diagrams that it refers to.

    linked: the relations of the part. left_out: counts what is not read, by its name. markup: decides whether struck-out
    text is read. layout: of a slide.
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

    drawing = Drawing(lambda identity: read(relations.pop(identity, None)), left_out, markup, layout)
    archive.feed(part, drawing)
    for link in relations.values():
        if link.kind == "diagramData":  # its frame is in a form that is not known
            drawing.builder.extend(read(link))
    return drawing


_MAX_BELOW = 200  # shapes that are looked at for what is below a text
_UNKNOWN = Look(on_picture=True)  # a ground whose color is not known


@dataclass(slots=True)
class _Frame:
    """Where a shape or group lies. outer: the group around it. first: number of the blocks before it. placeholder: its type and
    index, by which layouts know its place. edges: numbers of its elements off, ext, chOff and chExt. rotated: whether it is.
    fill: the ground of what is drawn on it; None without one of its own."""

    outer: _Frame | None = None
    first: int = 0
    placeholder: tuple[str, str] | None = None
    edges: dict[str, tuple[int, int]] = field(default_factory=dict)
    rotated: bool = False
    fill: Look | None = None

    @property
    def box(self) -> Box | None:
        """Return the place of a shape on the slide, in units of the slide; None if it has none of its own."""
        if not {"off", "ext"} <= self.edges.keys():
            return None
        (left, top), (width, height) = self.edges["off"], self.edges["ext"]
        if self.rotated:  # by any angle around its middle
            side = round((width**2 + height**2) ** 0.5)
            left, top, width, height = left + (width - side) // 2, top + (height - side) // 2, side, side
        box, group = Box(left, top, left + width, top + height), self.outer
        while group is not None:
            box, group = group._placed(box), group.outer
        return box

    def _placed(self, inside: Box) -> Box:
        """Return the place of something in this group in what is around the group."""
        if not {"off", "ext", "chOff", "chExt"} <= self.edges.keys():
            return inside
        (x, y), (width, height), (x_inside, y_inside), size = (self.edges[name] for name in ("off", "ext", "chOff", "chExt"))
        across, down = width / (size[0] or 1), height / (size[1] or 1)
        horizontal = (x + (at - x_inside) * across for at in (inside.left, inside.right))
        vertical = (y + (at - y_inside) * down for at in (inside.top, inside.bottom))
        (left, right), (top, bottom) = horizontal, vertical
        return Box(left, top, right, bottom)


@dataclass(slots=True)
class Layout:
    """What lies below a slide: its layout and master. frames: of their shapes, the lowest first. placeholders: of those that a
    slide fills, the uppermost first. background: None for the white of paper. colors: those of the theme by their names."""

    frames: list[_Frame] = field(default_factory=list)
    placeholders: list[_Frame] = field(default_factory=list)
    background: Look | None = None
    colors: dict[str, str] = field(default_factory=dict)

    def box_of(self, frame: _Frame) -> Box | None:
        """Return the place of a shape, which may be that of its placeholder."""
        return frame.box or next((each.box for each in self._inherited(frame) if each.box is not None), None)

    def fill_of(self, frame: _Frame) -> Look | None:
        return frame.fill or next((each.fill for each in self._inherited(frame) if each.fill is not None), None)

    def _inherited(self, frame: _Frame) -> list[_Frame]:
        """Return the placeholders that a shape fills: those with its index, then those of its type."""
        kind, index = frame.placeholder or ("", "")
        placed = [each for each in self.placeholders if each.placeholder is not None and kind]
        same = [each for each in placed if each.placeholder is not None and index and each.placeholder[1] == index]
        return same + [each for each in placed if each.placeholder is not None and each.placeholder[0] == kind]


class Drawing(Target):
    """The target of lxml's parser for a drawing. title: the text of its title; `blocks` returns all other text. is_hidden:
    whether the whole slide is. markup: decides whether struck-out and hidden text is read. layout: what lies below
    a slide; None for a drawing whose ground is not known, in which all is seen."""

    def __init__(
        self, linked: Callable[[str], list[Block]], left_out: Counter[str], markup: MarkupText, layout: Layout | None = None
    ) -> None:
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
        self._frames: list[_Frame] = []  # of the shapes
        self._outer: list[_Frame] = []  # of the open groups
        self._frame: _Frame | None = None  # that the next place is of
        self._n_rows = 0  # open rows
        self.layout, self.background = layout, None if layout is None else layout.background
        self._path: list[str] = [""] * 4  # names of the open elements
        self._look = Look()  # of the open run
        self._style = ""  # the last reference to the fills of the theme

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if self._skipped_depth or name in _SKIPPED:
            self._skipped_depth += 1
            return
        self._path.append(name)
        if self.layout is not None:
            self._see(self.layout, attributes)
        if name in _SHAPES:
            self._begin_shape(name)
        elif name == "cNvPr":
            self._describe(attributes)
        elif name in _KNOWN:
            self._begin(name, attributes)
        if name in _OF_PLACES and self._frame is not None:
            self._place(self._frame, name, attributes)

    def _see(self, layout: Layout, attributes: dict[str, str]) -> None:
        """Take the color of a run, or the fill of a shape or of the slide, if the open element is part of one."""
        fill: Look | None = None
        match self._path[-4:]:
            case [_, _, "spPr" | "bgPr" as holder, "gradFill" | "blipFill" | "pattFill" | "grpFill"]:
                fill = _UNKNOWN
            case [_, _, _, "fillRef" | "bgRef" as holder]:
                self._style = holder + attributes.get("idx", "0")
            case [_, _, "fillRef", _] if self._style == "fillRef0":
                pass
            case [_, _, "fillRef" | "bgRef" as holder, _] | [_, "spPr" | "bgPr" as holder, "solidFill", _]:
                color = _color(layout, self._path[-1], attributes)
                is_plain = color is not None and (holder != "bgRef" or self._style == "bgRef1001")  # others are gradients
                fill = Look(ground=color) if is_plain else _UNKNOWN
            case [_, "fillRef" | "bgRef" as holder, _, _] | ["spPr" | "bgPr" as holder, "solidFill", _, _]:
                fill = _UNKNOWN  # a color that is changed
            case [_, _, _, "rPr"]:
                self._look = Look(size=number(attributes.get("sz", ""), 1200) / 100)
            case [_, "rPr", "solidFill", _]:
                self._look = self._look._replace(color=_color(layout, self._path[-1], attributes))
            case [_, _, "rPr", "highlight"] | ["rPr", "solidFill", _, _]:
                self._look = self._look._replace(color=None)
        if fill is not None and holder in ("bgPr", "bgRef"):
            self.background = fill
        elif fill is not None and self._frame is not None and (holder != "fillRef" or self._frame.fill is None):
            self._frame.fill = fill

    def _is_hidden(self) -> bool:
        """Return whether the text of the open run cannot be seen on its ground."""
        frame, look = self._frame, self._look
        if self.layout is None or frame is None or (look.color is None and look.size is None):
            return False
        ground = self.layout.fill_of(frame)
        own = self.layout.box_of(frame)
        for other in reversed([*self.layout.frames[-_MAX_BELOW:], *self._frames[-_MAX_BELOW:]]):
            if ground is None and other.fill is not None and other is not frame:
                box = self.layout.box_of(other)
                if own is None or box is None or not _are_apart(box, own):
                    ground = other.fill if own is not None and box is not None and _holds(box, own) else _UNKNOWN
        ground = ground or self.background or Look(ground=WHITE)
        return is_hidden(look._replace(ground=ground.ground, on_picture=ground.on_picture))

    def _place(self, frame: _Frame, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "xfrm":
                frame.rotated = attributes.get("rot", "0") != "0"
            case "ph":
                frame.placeholder = attributes.get("type", "body"), attributes.get("idx", "")
            case _:
                horizontal, vertical = ("cx", "cy") if name in ("ext", "chExt") else ("x", "y")
                frame.edges.setdefault(name, (_signed(attributes, horizontal), _signed(attributes, vertical)))

    def _begin_shape(self, name: str) -> None:
        self._of_group = name == "grpSp"
        self._frame = _Frame(self._outer[-1] if self._outer else None, fill=_UNKNOWN if name in ("pic", "graphicFrame") else None)
        if self._of_group:
            self._groups.append(False)
            self._outer.append(self._frame)
        else:
            self._in_title, self._shape_is_skipped = False, any(self._groups)
            self.builder.begin_group()
            if not self._n_rows:
                self._frame.first = len(self.builder.blocks())
                self._frames.append(self._frame)

    def _describe(self, attributes: dict[str, str]) -> None:
        """Take the properties of a shape or group: whether it is hidden, and its alternative text."""
        is_hidden = attributes.get("hidden") in ("1", "true") and not self._markup.is_read
        if is_hidden:
            self._markup.left_out["hidden shape"] += 1
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
                self._n_rows += 1
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
                self._look = self._look if name == "rPr" else Look()
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
        self._path.pop()
        if name not in _SHAPES and name not in _KNOWN:
            return
        match name:
            case "grpSp":
                self._groups.pop()
                self._outer.pop()
            case "pic" if not self._shape_is_skipped:
                self._left_out["picture"] += 1
            case "sp" | "graphicFrame" | "pic" | "cxnSp":
                self._shape_is_skipped = any(self._groups)
            case "p":
                self._text(" ") if self._in_title else None
                self.builder.end_item()
            case "tr":
                self._n_rows -= 1
                self.builder.end_row()
            case "tc":
                self.builder.end_cell()
            case "t":
                self._in_text = False

    def data(self, data: str) -> None:
        if self._in_text and not self._skipped_depth:
            self._text(data)

    def blocks(self, size: tuple[int, int] | None = None) -> list[Block]:
        """Return the text of the shapes: in the order of the file, or with `size`, which is that of the slide, in the order in
        which it is read, without the shapes that lie outside."""
        blocks = self.builder.blocks()
        if size is None or not self._frames:
            return blocks
        parts: list[list[Block]] = [
            blocks[: self._frames[0].first if self._frames else None]
        ]  # what follows no shape with a place
        boxes: list[Box] = []
        ends = [*(frame.first for frame in self._frames[1:]), len(blocks)]
        for frame, end in zip(self._frames, ends, strict=True):
            own = blocks[frame.first : end]
            box = frame.box if self.layout is None else self.layout.box_of(frame)
            is_outside = box is not None and not (box.left < size[0] and box.right > 0 and box.top < size[1] and box.bottom > 0)
            if own and is_outside and not self._markup.is_read:
                self._markup.left_out["hidden shape"] += 1
            elif own and box is not None:
                boxes.append(box)
                parts.append(own)
            else:
                parts[-1] += own
        return [block for at in (0, *(at + 1 for at in reading_order(boxes))) for block in parts[at]]

    @property
    def title(self) -> str:
        return " ".join(block.text for block in self._of_title.blocks())

    def _text(self, text: str) -> None:
        if not self._shape_is_skipped:
            builder = self._of_title if self._in_title else self.builder
            shift, self._shift_before = "" if self._shift == self._shift_before else self._shift, self._shift
            kind = STRUCK if self._is_struck else HIDDEN if text.strip() and self._is_hidden() else ""
            builder.text(self._markup.read(text, kind), shift=shift, is_struck=self._is_struck)


def _are_apart(one: Box, other: Box) -> bool:
    return one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top


def _holds(outer: Box, inner: Box) -> bool:
    edges = (outer.left <= inner.left, outer.top <= inner.top, outer.right >= inner.right, outer.bottom >= inner.bottom)
    return all(edges)


def _signed(attributes: Mapping[str, str], name: str) -> int:
    text = attributes.get(name, "")
    return -number(text[1:]) if text.startswith("-") else number(text)


def read_layout(archive: Archive, part: str, linked: Iterable[Relation], below: Layout) -> Layout:
    """Return what lies below a slide with the layout or master `part`; `below` if it is damaged. linked: its relations. below:
    what lies below it."""
    colors = below.colors
    with suppress(FbragError):
        theme = next((each.target for each in linked if each.kind == "theme" and each.target in archive), "")
        if theme:
            colors = theme_colors(archive.tree(theme))
            mapped = next(archive.tree(part).iter("{*}clrMap"), None)
            colors |= {name: colors.get(value, "") for name, value in (mapped.attrib.items() if mapped is not None else ())}
        drawing = Drawing(lambda identity: [], Counter(), MarkupText(is_read=True), replace(below, colors=colors))
        archive.feed(part, drawing)
        frames = [*below.frames, *(each for each in drawing._frames if each.placeholder is None)]
        placeholders = [*(each for each in drawing._frames if each.placeholder is not None), *below.placeholders]
        return Layout(frames, placeholders, drawing.background, colors)
    return below


def _color(layout: Layout, name: str, attributes: Mapping[str, str]) -> Color | None:
    """Return the color that an element names; None if it is not known."""
    value = attributes.get("lastClr") or attributes.get("val", "")
    return parse_color(layout.colors.get(value, "") if name == "schemeClr" else value if name in ("srgbClr", "sysClr") else "")


# -- comments -----------------------------------------------------------------------------------------------------------------


def names_of_authors(archive: Archive, linked: Iterable[Relation]) -> dict[str, str]:
    """Return the names of those who comment, by their identities. linked: the relations of the workbook or presentation."""
    names = {}
    for relation in linked:
        if relation.kind in _OF_AUTHORS and relation.target in archive:
            for element in archive.tree(relation.target).iter("{*}cmAuthor", "{*}author", "{*}person"):
                names[element.get("id", "")] = element.get("name") or element.get("displayName") or ""
    return names


def comments_of(archive: Archive, linked: Iterable[Relation], place: str, authors: Mapping[str, str]) -> Iterator[str]:
    """Yield the comments on a slide or sheet, as "Comment by Ann Lee on Sales!B4: too high".

    linked: its relations. place: its name in the comment; the cell follows it, if there is one. authors: from
    `names_of_authors`.
    """
    for relation in linked:
        if relation.kind not in _OF_COMMENTS or relation.target not in archive:
            continue
        root = archive.tree(relation.target)
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
