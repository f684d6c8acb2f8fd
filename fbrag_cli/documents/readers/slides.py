"""Read a presentation (pptx): the slides are the sections, with their text frames, tables, diagrams and notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import Block, BlockBuilder, content_of
from fbrag_cli.documents.readers.relations import relations_of
from fbrag_cli.documents.readers.xml import feed, parse
from fbrag_cli.documents.source import Source

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_PRESENTATION = "ppt/presentation.xml"
_MAX_SLIDES = 20_000
_TITLES = ("title", "ctrTitle")
_FURNITURE = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # the same on every slide
_SKIPPED = ("Fallback", "extLst")  # a copy for older programs; private data of programs


def read_slides(source: Source, codec: str | None = None) -> Extracted:
    """Read a presentation: of each slide "Slide 3: Title", the text of its shapes in reading order, its diagrams and its notes.

    Reading order is the order in the file, as for screen readers. codec: not used, because XML declares its encoding. Raises
    FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    archive = Archive(source, "a presentation")
    slides = list(_slides(archive))
    if not slides:
        raise archive.damaged("it names no slides")
    warnings = []
    if len(slides) > _MAX_SLIDES:
        warnings.append(f"{source.name}: of its {len(slides)} slides only the first {_MAX_SLIDES} are read")
    blocks: list[Block] = []
    missing = 0
    for number, name in enumerate(slides[:_MAX_SLIDES], 1):
        if name in archive:
            blocks += _blocks_of(archive, name, number)
        else:
            missing += 1
    if missing:
        warnings.append(f"{source.name}: {missing} of its {len(slides)} slides are missing")
    return Extracted(content_of(blocks), _MEDIA_TYPE, warnings=tuple(warnings))


def _slides(archive: Archive) -> Iterator[str]:
    """Return the names of the slides' parts in their order, each once."""
    targets = {identity: target for identity, _, target in relations_of(archive, _PRESENTATION)}
    named = (
        value
        for element in parse(archive.read(_PRESENTATION), archive.damaged).iter("{*}sldId")
        for name, value in element.attrib.items()
        if name.endswith("}id")  # r:id; the attribute id is another number
    )
    yield from dict.fromkeys(targets[identity] for identity in named if identity in targets)


def _blocks_of(archive: Archive, name: str, number: int) -> list[Block]:
    """Return the blocks of a slide, the first of which is its heading; none for a slide without text."""
    slide = _read(archive, name)
    more: dict[str, list[Block]] = {"diagramData": [], "notesSlide": []}
    for _, kind, target in relations_of(archive, name):
        if kind in more and target in archive:
            more[kind] += _read(archive, target).builder.blocks()
    notes = more["notesSlide"]
    if notes:
        notes[0] = replace(notes[0], text=f"Notes: {notes[0].text}")
    title = " ".join("".join(slide.title).split())
    body = [*slide.builder.blocks(), *more["diagramData"], *notes]
    heading = Block(f"Slide {number}: {title}" if title else f"Slide {number}", level=1)
    return [heading, *body] if title or body else []


def _read(archive: Archive, name: str) -> _Target:
    target = _Target()
    feed(archive.read(name), target, archive.damaged)
    return target


class _Target:
    """The target of lxml's parser for one slide. title: the text of its title; all other text is in `builder`."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()
        self.title: list[str] = []
        self._in_title = False
        self._in_text = False
        self._skipped_depth = 0
        self._shape_is_skipped = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if self._skipped_depth or name in _SKIPPED:
            self._skipped_depth += 1
            return
        builder = self.builder
        match name:
            case "sp" | "graphicFrame":
                self._in_title = self._shape_is_skipped = False
                builder.begin_group()
            case "ph":
                self._in_title = attributes.get("type") in _TITLES
                self._shape_is_skipped = attributes.get("type") in _FURNITURE
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

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        match tag.rpartition("}")[2]:
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
