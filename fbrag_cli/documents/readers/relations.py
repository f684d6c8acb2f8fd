"""Follow the relations between the parts of an Office package (docx, pptx, xlsx)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.xml import parse


class Relation(NamedTuple):
    """A reference of one part to another. identity: its name in the part that refers, as "rId4". kind: as "notesSlide". target:
    name of the other part."""

    identity: str
    kind: str
    target: str


def relations_of(archive: Archive, part: str) -> Iterator[Relation]:
    """Yield the parts that `part` refers to, all of them within the package. part: "" for the package itself."""
    folder, name = posixpath.split(part)
    relations = posixpath.join(folder, "_rels", f"{name}.rels")
    if relations not in archive:
        return
    for relation in parse(archive.read(relations), archive.damaged).iter("{*}Relationship"):
        if relation.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
            yield Relation(relation.get("Id", ""), relation.get("Type", "").rpartition("/")[2], target)
