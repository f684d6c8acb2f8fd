"""Read a presentation (pptx): the slides are the sections, with their text frames, tables, charts, diagrams and notes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.blocks import Block, MarkupText, extracted
from fbrag_cli.documents.readers.drawing import Layout, comments_of, names_of_authors, parts_named, read_drawing, read_layout
from fbrag_cli.documents.readers.package import Archive, Relation, number
from fbrag_cli.documents.source import Source

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_PRESENTATION = "ppt/presentation.xml"
_MAX_SLIDES = 20_000
_USUAL = (9_144_000, 6_858_000)  # width and height of a slide, in 360,000ths of a centimeter
_ABOVE = ("slideLayout", "slideMaster")  # what a slide refers to, and that to


def read_slides(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a presentation: of each slide "Slide 3: Title", the text of its shapes in reading order, its charts and its notes.

    Reading order is that of the places on the slide. Without `markup`, hidden slides and shapes are left out, and shapes outside
    the slide. codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    archive = Archive(source, "a presentation")
    linked = archive.relations(_PRESENTATION)
    slides = list(dict.fromkeys(filter(None, parts_named(archive, _PRESENTATION, "{*}sldId", linked))))  # each once
    warnings = []
    if len(slides) > _MAX_SLIDES:
        warnings.append(f"{source.name}: of its {len(slides)} slides only the first {_MAX_SLIDES} are read")
    blocks: list[Block] = []
    comments: list[str] = []
    left_out, markup_text = Counter[str](), MarkupText(markup)
    missing = 0
    size = next(archive.tree(_PRESENTATION).iter("{*}sldSz"), None)
    layouts = _Layouts(archive, tuple(number(size.get(key, "")) for key in ("cx", "cy")) if size is not None else _USUAL)
    authors = names_of_authors(archive, linked)
    for at, name in enumerate(slides[:_MAX_SLIDES], 1):
        if name not in archive:
            missing += 1
            continue
        linked = archive.relations(name)
        slide = _blocks_of(archive, name, at, linked, left_out, markup_text, layouts)
        if slide is not None:
            blocks += slide
            comments += comments_of(archive, linked, f"slide {at}", authors)
    if missing:
        warnings.append(f"{source.name}: {missing} of its {len(slides)} slides are missing")
    return extracted(blocks, _MEDIA_TYPE, left_out, markup_text, comments, warnings)


class _Layouts:
    """The layouts and masters of a presentation. size: width and height of a slide."""

    def __init__(self, archive: Archive, size: tuple[int, ...]) -> None:
        self._archive, self.size = archive, (size[0] or _USUAL[0], size[1] or _USUAL[1])
        self._read: dict[str, Layout] = {}  # by the name of the part

    def of(self, linked: list[Relation]) -> Layout:
        """Return what lies below a slide, or below its layout. linked: its relations."""
        part = next((each.target for each in linked if each.kind in _ABOVE and each.target in self._archive), "")
        if part and part not in self._read:
            self._read[part] = Layout()  # for one that refers to itself
            above = self._archive.relations(part)
            self._read[part] = read_layout(self._archive, part, above, self.of(above))
        return self._read.get(part, Layout())


def _blocks_of(
    archive: Archive,
    name: str,
    at: int,
    linked: list[Relation],
    left_out: Counter[str],
    markup: MarkupText,
    layouts: _Layouts,
) -> list[Block] | None:
    """Return the blocks of a slide, the first of which is its heading; none for a slide without text, and None for a hidden one.

    linked: the relations of the slide. left_out: counts what is not read. markup: decides whether struck-out text is read.
    """
    inside, left_out_before = Counter[str](), Counter(markup.left_out)
    slide = read_drawing(archive, name, linked, inside, markup, layouts.of(linked))
    if slide.is_hidden and not markup.is_read:
        markup.left_out = left_out_before + Counter({"hidden slide": 1})
        return None
    shown = slide.blocks(layouts.size)
    left_out += inside
    notes = [
        replace(block, group=block.group and f"notes {block.group}")
        for relation in linked
        if relation.kind == "notesSlide" and relation.target in archive
        for block in read_drawing(archive, relation.target, (), left_out, markup).blocks()
    ]
    if notes:
        notes[0] = replace(notes[0], text=f"Notes: {notes[0].text}")
    body = [*shown, *notes]
    heading = Block(f"Slide {at}: {slide.title}" if slide.title else f"Slide {at}", level=1)
    return [heading, *body] if slide.title or body else []
