"""Documents become a `Corpus` of chunks, each a span of its document. Knows nothing of questions or models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from fbrag_cli.documents import Document

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Chunk `position` (from 0) of a corpus: `document.text[start:end]`, `n_words` words separated by white space."""

    position: int
    document: Document
    start: int
    end: int
    n_words: int

    @property
    def text(self) -> str:
        return self.document.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The chunks of one question, in document order. fingerprint: SHA-256 (hex) over the texts and the chunk length."""

    documents: tuple[Document, ...]
    chunks: tuple[Chunk, ...]
    chunk_words: int
    fingerprint: str

    @property
    def n_words(self) -> int:
        return sum(chunk.n_words for chunk in self.chunks)


def build_corpus(documents: Sequence[Document], chunk_words: int = 300) -> Corpus:
    """Cut each document into chunks of `chunk_words` words (paper, section 3: 300); a document's last chunk may be shorter.

    A chunk never spans two documents.
    """
    chunks: list[Chunk] = []
    digest = sha256(f"chunk_words={chunk_words}".encode())
    for document in documents:
        spans = [found.span() for found in _WORD.finditer(document.text)]
        for first in range(0, len(spans), chunk_words):
            words = spans[first : first + chunk_words]
            chunks.append(Chunk(len(chunks), document, words[0][0], words[-1][1], len(words)))
        digest.update(sha256(document.text.encode("utf-8", "surrogatepass")).digest())
    return Corpus(tuple(documents), tuple(chunks), chunk_words, digest.hexdigest())
