"""Collect headers and footers: each once, marked, without the number of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fbrag_cli.documents.readers.blocks import Block

#: Stands for the number of a page in the text of a header or footer. XML has no NULs.
PAGE_NUMBER = "\0"

# "Page 3 of 9" in the languages that we know
_PAGE_OF = re.compile(
    rf"(?:\b(?:page|seite|página|pagina|pag|p|pg|sida|side|strona|стр|страница)\b|第)?[.:]?\s*{PAGE_NUMBER}\s*[页頁]?"
    rf"(?:\s*(?:of|von|de|di|sur|av|af|z|из|/|共)?\s*{PAGE_NUMBER}\s*[页頁]?)*",
    re.IGNORECASE,
)
_EDGES = " |/,;–—-−·•\t"


class HeadersFooters:
    """The headers and footers of a document, each different one once. headers, footers: their blocks."""

    def __init__(self) -> None:
        self.headers: list[Block] = []
        self.footers: list[Block] = []
        self._said: set[tuple[str, tuple[str, ...]]] = set()

    def add(self, kind: str, blocks: Iterable[Block]) -> None:
        """Add the lines of a header or footer, the first one as "Header: TEXT". kind: "header" or "footer"."""
        lines = tuple(text for text in (_without_page(block.prefix + block.text) for block in blocks) if text)
        if not lines or (kind, lines) in self._said:
            return
        self._said.add((kind, lines))
        group = f"{kind} {len(self._said)}"
        added = self.headers if kind == "header" else self.footers
        added += (Block(line, prefix="" if at else f"{kind.capitalize()}: ", group=group) for at, line in enumerate(lines))


def _without_page(line: str) -> str:
    """Return a line without the number of the page; "" if it has nothing else."""
    if PAGE_NUMBER in line:
        line = _PAGE_OF.sub(" ", line).strip(_EDGES)
    return line if any(letter.isalnum() for letter in line) else ""
