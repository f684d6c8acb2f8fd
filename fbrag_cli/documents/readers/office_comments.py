"""Read the comments on slides and cells, of both kinds that Office writes: old ones and threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.relations import Relation
from fbrag_cli.documents.readers.xml import parse

if TYPE_CHECKING:
    from lxml.etree import _Element

_OF_AUTHORS = ("commentAuthors", "authors", "person")
_OF_COMMENTS = ("comments", "threadedComment")
_COMMENTS = ("{*}cm", "{*}reply", "{*}comment", "{*}threadedComment")
_COPY_OF_A_THREAD = "tc="  # how the author of a copy for older programs begins


def names_of_authors(archive: Archive, linked: Iterable[Relation]) -> dict[str, str]:
    """Return the names of those who comment, by their identities. linked: the relations of the workbook or presentation."""
    found = {}
    for each in linked:
        if each.kind in _OF_AUTHORS and each.target in archive:
            for element in parse(archive.read(each.target), archive.damaged).iter("{*}cmAuthor", "{*}author", "{*}person"):
                found[element.get("id", "")] = element.get("name") or element.get("displayName") or ""
    return found


def comments_of(archive: Archive, linked: Iterable[Relation], place: str, authors: Mapping[str, str]) -> Iterator[str]:
    """Yield the comments on a slide or sheet, as "Comment by Ann Lee on Sales!B4: too high".

    linked: its relations. place: its name in the comment; the cell follows it, where there is one. authors: from
    `names_of_authors`.
    """
    for each in linked:
        if each.kind not in _OF_COMMENTS or each.target not in archive:
            continue
        root = parse(archive.read(each.target), archive.damaged)
        own = {str(number): "".join(element.itertext()) for number, element in enumerate(root.iter("{*}author"))}
        for element in root.iter(*_COMMENTS):
            author = (own or authors).get(element.get("authorId") or element.get("personId") or "", "")
            text = _text_of(element).removeprefix(f"{author}:").strip()
            if text and not author.startswith(_COPY_OF_A_THREAD):
                by = f" by {' '.join(author.split())}" if author.strip() else ""
                cell = f"!{element.get('ref')}" if element.get("ref") else ""
                yield f"Comment{by} on {place}{cell}: {text}"


def _text_of(comment: _Element) -> str:
    """Return the text of a comment without that of its replies: a line a paragraph."""
    lines = [""]
    for child in comment:
        if child.tag.rpartition("}")[2] in ("text", "txBody"):
            for element in child.iter("{*}p", "{*}t", "{*}text"):
                if element.tag.endswith("}p"):
                    lines.append("")
                else:
                    lines[-1] += element.text or ""
    return "\n".join(" ".join(line.split()) for part in lines for line in part.split("\n") if line.strip())
