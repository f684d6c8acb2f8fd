"""Read comments: those on slides and cells (old ones and threads), and the text that a comment in a text is on."""

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
_MAX_QUOTED = 120  # characters
_MAX_PIECES = 100  # of text that are looked at for a quote
_MAX_PIECE = 1000  # characters; hostile documents have thousands of comments on one long text
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


class Quotes:
    """The text that each comment is on, of a document that is read in its order. found: that text, by the key of the comment."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._said: list[str] = []  # while a comment is open
        self._starts: dict[str, int] = {}  # in `_said`, of each open comment

    def __len__(self) -> int:
        """Return the number of pieces of text so far, for `cut`."""
        return len(self._said)

    def say(self, text: str) -> None:
        """Add a piece of text that is shown, or " " between two of them."""
        if self._starts:
            self._said.append(text[:_MAX_PIECE])

    def cut(self, length: int) -> None:
        """Forget the pieces after the first `length` ones."""
        del self._said[length:]

    def begin(self, key: str) -> None:
        """Begin the text that comment `key` is on."""
        self._starts[key] = len(self._said)

    def end(self, key: str) -> None:
        """End that text, and keep it shortened in `found`."""
        start = self._starts.pop(key, None)
        if start is None:
            return
        text = " ".join("".join(self._said[start : start + _MAX_PIECES])[:_MAX_PIECE].split())
        self.found[key] = text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
        if not self._starts:
            self._said.clear()


def comment(author: str, quote: str, text: str) -> str:
    """Return a comment, as "Comment by Ann Lee on “the price”: too high". author, quote: "" if unknown."""
    by = f" by {author}" if author else ""
    on = f" on “{quote}”" if quote else ""
    return f"Comment{by}{on}: {text}"
