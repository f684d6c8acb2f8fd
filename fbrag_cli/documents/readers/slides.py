"""Read a presentation (pptx): the slides are the sections, with their text frames, tables, charts, diagrams and notes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.blocks import Block, MarkupText, extracted
from fbrag_cli.documents.readers.drawing import comments_of, names_of_authors, parts_named, read_drawing
from fbrag_cli.documents.readers.package import Archive, Relation
from fbrag_cli.documents.source import Source

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_PRESENTATION = "ppt/presentation.xml"
_MAX_SLIDES = 20_000


def read_slides(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a presentation: of each slide "Slide 3: Title", the text of its shapes in reading order, its charts and its notes.

    Reading order is the order in the file, as for screen readers. Hidden slides and shapes are left out. codec: not used, because
    XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
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
    authors = names_of_authors(archive, linked)
    for number, name in enumerate(slides[:_MAX_SLIDES], 1):
        if name not in archive:
            missing += 1
            continue
        linked = archive.relations(name)
        found = _blocks_of(archive, name, number, linked, left_out, markup_text)
        if found is not None:
            blocks += found
            comments += comments_of(archive, linked, f"slide {number}", authors)
    if missing:
        warnings.append(f"{source.name}: {missing} of its {len(slides)} slides are missing")
    return extracted(blocks, _MEDIA_TYPE, left_out, markup_text, comments, warnings)


def _blocks_of(
    archive: Archive, name: str, number: int, linked: list[Relation], left_out: Counter[str], markup: MarkupText
) -> list[Block] | None:
    """Return the blocks of a slide, the first of which is its heading; none for a slide without text, and None for a hidden one.

    linked: the relations of the slide. left_out: counts what is not read. markup: tells what is read of struck-out text.
    """
    inside, left_out_before = Counter[str](), Counter(markup.left_out)
    slide = read_drawing(archive, name, linked, inside, markup)
    if slide.is_hidden:
        left_out["hidden slide"] += 1
        markup.left_out = left_out_before
        return None
    left_out += inside
    notes = [
        replace(block, group=block.group and f"notes {block.group}")
        for each in linked
        if each.kind == "notesSlide" and each.target in archive
        for block in read_drawing(archive, each.target, (), left_out, markup).builder.blocks()
    ]
    if notes:
        notes[0] = replace(notes[0], text=f"Notes: {notes[0].text}")
    body = [*slide.builder.blocks(), *notes]
    heading = Block(f"Slide {number}: {slide.title}" if slide.title else f"Slide {number}", level=1)
    return [heading, *body] if slide.title or body else []
