"""Read a Word document: headings and lists with their numbers, tables, notes, equations, charts, headers and comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import Block, content_of
from fbrag_cli.documents.readers.charts import read_chart, read_diagram
from fbrag_cli.documents.readers.comments import comment
from fbrag_cli.documents.readers.docx_body import Part
from fbrag_cli.documents.readers.docx_numbering import Numbering
from fbrag_cli.documents.readers.docx_styles import Styles
from fbrag_cli.documents.readers.relations import Relation, relations_of
from fbrag_cli.documents.readers.writer import Writer
from fbrag_cli.documents.readers.xml import feed, parse
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from lxml.etree import _Element

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_DOCUMENT = "word/document.xml"
_MAX_LINKED = 1000  # charts and diagrams; each may be named many times
_LINKED = {"chart": read_chart, "diagram": read_diagram}


def read_docx(source: Source, codec: str | None = None) -> Extracted:
    """Read a Word document. Sections are titles and the paragraphs that have an outline level (headings), with their numbers.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    return _Package(source).read()


class _Package:
    """The parts of a Word document."""

    def __init__(self, source: Source) -> None:
        self._archive = Archive(source, "a Word document")
        self._document = self._main_part()
        self._relations = self._relations_of(self._document)
        self._styles, self._numbers = Styles(self._tree("styles")), self._tree("numbering")
        self._linked: dict[str, list[Block]] = {}
        self._writer = Writer()
        self._note_numbers: dict[tuple[str, str], int] = {}

    def read(self) -> Extracted:
        body = self._read(self._document)
        for name, kind in self._headers_footers(body).items():
            self._writer.begin_story()
            self._read(name, is_header_or_footer=True)
            self._writer.add_header_or_footer(kind, self._writer.end_story())
        blocks = [*self._writer.blocks(), *self._notes()]
        comments = tuple(self._comments())
        left_out = tuple(counted(count, thing) for thing, count in self._writer.left_out.items())
        return Extracted(content_of(blocks), _MEDIA_TYPE, left_out=left_out, comments=comments)

    def _main_part(self) -> str:
        named = [each.target for each in relations_of(self._archive, "") if each.kind == "officeDocument"]
        for name in (*named, _DOCUMENT):
            if name in self._archive:
                return name
        raise self._archive.damaged(f"it has no {_DOCUMENT}")

    def _relations_of(self, name: str) -> dict[str, Relation]:
        return {relation.identity: relation for relation in relations_of(self._archive, name)}

    def _part(self, kind: str) -> str | None:
        """Return the name of the part that the document names as its `kind`, if it is there."""
        names = (each.target for each in self._relations.values() if each.kind == kind)
        return next((name for name in names if name in self._archive), None)

    def _tree(self, kind: str) -> _Element | None:
        name = self._part(kind)
        return None if name is None else parse(self._archive.read(name), self._archive.damaged)

    def _read(self, name: str, *, is_header_or_footer: bool = False) -> Part:
        """Read a part, whose paragraphs are counted by themselves."""
        links = partial(self._linked_blocks, self._relations_of(name))
        numbering = Numbering(self._numbers, self._styles)
        part = Part(self._writer, self._styles, numbering, links, self._note_numbers, is_header_or_footer=is_header_or_footer)
        feed(self._archive.read(name), part, self._archive.damaged)
        return part

    def _headers_footers(self, body: Part) -> dict[str, str]:
        """Return the kinds of the headers and footers that the body names, by the names of their parts."""
        named = ((self._relations.get(identity), kind) for identity, kind in body.headers_footers.items())
        return {each.target: kind for each, kind in named if each is not None and each.target in self._archive}

    def _notes(self) -> Iterator[Block]:
        """Yield the footnotes and endnotes in the order of their references, as "1. TEXT"."""
        kinds = dict.fromkeys(kind for kind, _ in self._note_numbers)
        parts = {kind: self._read(name) for kind in kinds if (name := self._part(f"{kind}s"))}
        for (kind, key), number in self._note_numbers.items():
            note = parts[kind].notes.get(key) if kind in parts else None
            for place, block in enumerate(note.blocks if note else ()):
                mark = f"{number}. " if not place else ""
                yield Block(mark + block.prefix + block.text, group="notes")

    def _comments(self) -> Iterator[str]:
        """Yield the comments in the order of the text that they are on."""
        name = self._part("comments")
        if name is None:
            return
        quotes = dict(self._writer.quotes.found)
        order = {key: place for place, key in enumerate(quotes)}
        for key, note in sorted(self._read(name).notes.items(), key=lambda each: order.get(each[0], len(order))):
            if text := "\n".join(block.prefix + block.text for block in note.blocks):
                yield comment(note.author, quotes.get(key, ""), text)

    def _linked_blocks(self, relations: Mapping[str, Relation], kind: str, identity: str) -> list[Block]:
        """Return the text of a chart or diagram. What is shown twice is read once; what cannot be read is counted."""
        relation = relations.get(identity)
        name = "" if relation is None else relation.target
        key = f"{kind} {name or identity}"
        if key in self._linked:
            return []
        readable = name in self._archive and len(self._linked) < _MAX_LINKED
        self._linked[key] = blocks = self._read_linked(kind, name) if readable else []
        if not blocks and (kind != "diagram" or not readable):  # a diagram may be a mere drawing
            self._writer.left_out[kind.removesuffix("ex")] += 1
        return blocks

    def _read_linked(self, kind: str, name: str) -> list[Block]:
        if kind not in _LINKED:
            return []
        try:
            return _LINKED[kind](self._archive.read(name), self._archive.damaged)
        except FbragError:  # the text around a damaged part is worth reading
            return []
