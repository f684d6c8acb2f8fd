"""Read a Word document: headings and lists with their numbers, tables, notes, equations, charts, headers and comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import Block, content_of
from fbrag_cli.documents.readers.charts import read_chart, read_diagram
from fbrag_cli.documents.readers.docx_body import Body, Story
from fbrag_cli.documents.readers.docx_numbering import Numbering
from fbrag_cli.documents.readers.docx_styles import Styles
from fbrag_cli.documents.readers.docx_text import Found
from fbrag_cli.documents.readers.html import declared_encoding, read_page
from fbrag_cli.documents.readers.mail import parsed
from fbrag_cli.documents.readers.margins import Margins
from fbrag_cli.documents.readers.quotes import comment
from fbrag_cli.documents.readers.relations import Relation, relations_of
from fbrag_cli.documents.readers.xml import feed, parse
from fbrag_cli.documents.source import Source
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from lxml.etree import _Element

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_DOCUMENT = "word/document.xml"
_MAX_LINKED = 1000  # charts, diagrams and other files; each may be named many times
_NOTES = {"footnote": "footnotes", "endnote": "endnotes"}


def read_docx(source: Source, codec: str | None = None) -> Extracted:
    """Read a Word document. Sections are titles and the paragraphs that have an outline level (headings), with their numbers.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    return _Package(source).read()


class _Package:
    """The parts of a Word document."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._archive = Archive(source, "a Word document")
        self._document = self._main_part()
        self._relations = {relation.identity: relation for relation in relations_of(self._archive, self._document)}
        self._linked: dict[str, list[Block]] = {}
        self._shown: set[str] = set()  # headers and footers
        styles = Styles(self._tree("styles"))
        self._styles, self._numbers = styles, self._tree("numbering")
        self._found = Found(styles, self._numbering(), partial(self._linked_blocks, self._relations))

    def read(self) -> Extracted:
        body = self._body(self._document, self._found)
        blocks: list[Block] = []
        margins = Margins()
        for section in body.stories:
            blocks += self._section(section, margins)
        blocks += self._notes()
        left_out = tuple(counted(count, thing) for thing, count in self._found.left_out.items())
        content = content_of(blocks)
        return Extracted(content, _MEDIA_TYPE, left_out=left_out, comments=tuple(self._comments(body.anchors)))

    def _main_part(self) -> str:
        named = [each.target for each in relations_of(self._archive, "") if each.kind == "officeDocument"]
        for name in (*named, _DOCUMENT):
            if name in self._archive:
                return name
        raise self._archive.damaged(f"it has no {_DOCUMENT}")

    def _part(self, kind: str) -> str | None:
        """Return the name of the part that the document names as its `kind`, if it is there."""
        names = (each.target for each in self._relations.values() if each.kind == kind)
        return next((name for name in names if name in self._archive), None)

    def _tree(self, kind: str) -> _Element | None:
        name = self._part(kind)
        return None if name is None else parse(self._archive.read(name), self._archive.damaged)

    def _numbering(self) -> Numbering:
        return Numbering(self._numbers, self._styles)

    def _body(self, name: str, found: Found, *, is_margin: bool = False) -> Body:
        body = Body(found, is_margin=is_margin)
        feed(self._archive.read(name), body, self._archive.damaged)
        return body

    def _other(self, name: str) -> Found:
        """Return what another part than the body shares with it. Its paragraphs are counted by themselves."""
        relations = {relation.identity: relation for relation in relations_of(self._archive, name)}
        return replace(
            self._found,
            numbering=self._numbering(),
            links=partial(self._linked_blocks, relations),
        )

    def _section(self, section: Story, margins: Margins) -> Iterator[Block]:
        """Yield a section between its headers and footers, those that no section before it had."""
        for kind in ("header", "footer"):
            if kind == "footer":
                yield from section.blocks
            for each, identity in section.margins:
                relation = self._relations.get(identity)
                if each != kind or relation is None or relation.target not in self._archive or relation.target in self._shown:
                    continue
                self._shown.add(relation.target)
                stories = self._body(relation.target, self._other(relation.target), is_margin=True).stories
                yield from margins.blocks(kind, (block for story in stories for block in story.blocks))

    def _notes(self) -> Iterator[Block]:
        """Yield the footnotes and endnotes in the order of their references, as "1. TEXT"."""
        notes: dict[tuple[str, str], list[Block]] = {}
        for kind in dict.fromkeys(kind for kind, _ in self._found.notes):
            if name := self._part(_NOTES[kind]):
                stories = self._body(name, self._other(name)).stories
                notes |= {(kind, story.key): story.blocks for story in stories if story.key}
        for key, number in self._found.notes.items():
            for place, block in enumerate(notes.get(key, ())):
                mark = f"{number}. " if not place else ""
                yield Block(mark + block.prefix + block.text, group="notes")

    def _comments(self, anchors: Mapping[str, str]) -> Iterator[str]:
        """Yield the comments in the order of the text that they are on."""
        name = self._part("comments")
        if name is None:
            return
        order = {key: place for place, key in enumerate(anchors)}
        stories = [story for story in self._body(name, self._other(name)).stories if story.key]
        for story in sorted(stories, key=lambda story: order.get(story.key, len(order))):
            text = "\n".join(block.prefix + block.text for block in story.blocks)
            if text:
                yield comment(story.author, anchors.get(story.key, ""), text)

    def _linked_blocks(self, relations: Mapping[str, Relation], kind: str, identity: str) -> list[Block]:
        """Return the text of a part that a drawing or the body refers to. What cannot be read is counted."""
        relation = relations.get(identity)
        name = "" if relation is None else relation.target
        key = f"{kind} {name or identity}"
        if key not in self._linked:
            readable = name in self._archive and len(self._linked) < _MAX_LINKED
            self._linked[key] = self._read_linked(kind, name) if readable else []
            if not self._linked[key] and (kind != "diagram" or not readable):  # a diagram may be a mere drawing
                self._found.left_out["embedded document" if kind == "altChunk" else kind.removesuffix("ex")] += 1
            return self._linked[key]
        return []  # what is shown twice is read once

    def _read_linked(self, kind: str, name: str) -> list[Block]:
        data = self._archive.read(name)
        try:
            if kind == "chart":
                return read_chart(data, self._archive.damaged)
            if kind == "diagram":
                return read_diagram(data, self._archive.damaged)
            return self._read_chunk(name.rpartition(".")[2].lower(), data) if kind == "altChunk" else []
        except Exception:  # the text around a damaged part is worth reading; email raises all kinds of exceptions
            return []

    def _read_chunk(self, suffix: str, data: bytes) -> list[Block]:
        """Return the text of another document that stands in the body: of a page, a mail of one (MHT), or plain text."""
        if suffix in ("mht", "mhtml"):
            part = parsed(data).get_body(("html", "plain"))
            data = b"" if part is None else bytes(part.get_payload(decode=True) or b"")
            suffix = "html" if part is not None and part.get_content_subtype() == "html" else "txt"
        if suffix in ("html", "htm", "xhtml"):
            text = decode(replace(self._source, data=data), None, declared=declared_encoding(data)).text
            return read_page(text).blocks
        if suffix in ("txt", "text"):
            lines: Iterable[str] = decode(replace(self._source, data=data), None).text.split("\n")
            return [Block(line.strip(), group="text") for line in lines if line.strip()]
        return []
