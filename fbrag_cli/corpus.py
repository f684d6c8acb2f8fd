"""Cut documents into a `Corpus` of chunks, each a span of its document. Knows nothing of questions or models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, overload

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.tables import form_of, header_in, header_of, tables_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Passage:
    """A span of a document, `document.text[start:end]`: chunk `position` (from 0) of a corpus, or a part of that chunk."""

    position: int
    document: Document
    start: int
    end: int

    def part(self, start: int, end: int) -> Passage:
        """Return the part of this chunk from `start` to `end`, in characters of the document."""
        return replace(self, start=start, end=end)

    @property
    def text(self) -> str:
        return self.document.text[self.start : self.end]

    @property
    def text_with_header(self) -> str:
        """Return the text as models and retrievers read it: below the header of the table in whose rows it begins."""
        return _below(header_of(self.document, self.start), self.text)

    @property
    def n_words(self) -> int:
        """Return the number of words of the text, counted anew."""
        from fbrag_cli.text.words import word_spans

        return sum(1 for _ in word_spans(self.text))


@dataclass(frozen=True)
class Corpus:
    """The chunks of one question, in document order.

    spans: int32 (n_chunks, 4): position of the document, start, end (characters) and number of words of each chunk.
    fingerprint: hash from `fingerprint_of`: corpora with the same one have the same chunks, with the same terms.
    """

    documents: tuple[Document, ...]
    spans: NDArray[np.int32]
    chunk_words: int
    fingerprint: str

    @cached_property
    def chunks(self) -> Sequence[Passage]:
        """Return the chunks. Every array of scores is aligned with them. A chunk is made when it is used: there may be
        100,000s."""
        return _Chunks(self.documents, self.spans)

    @property
    def n_words(self) -> int:
        return int(self.spans[:, 3].sum())

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the documents, each once. A text that is scored against them is read in each."""
        return tuple(dict.fromkeys(document.language for document in self.documents))

    @cached_property
    def _firsts(self) -> list[int]:
        """The position of each document's first chunk, then the number of chunks."""
        firsts: list[int] = self.spans[:, 0].searchsorted(range(len(self.documents) + 1)).tolist()
        return firsts

    def texts_of(self, document: int, chunks: range) -> list[str]:
        """Return `Passage.text_with_header` of the chunks at positions `chunks`, all of `documents[document]`.

        The document's text is read once, because it may have to be fetched.
        """
        text, tables = self.documents[document].text, tables_of(self.documents[document])
        spans = self.spans[chunks.start : chunks.stop, 1:3].tolist()
        return [_below(header_in(tables, start), text[start:end]) for start, end in spans]

    def chunks_of(self, document: int) -> range:
        """Return the positions of the chunks of `documents[document]`."""
        return range(self._firsts[document], self._firsts[document + 1])

    def words_of(self, document: int) -> int:
        """Return the number of words of `documents[document]`."""
        chunks = self.chunks_of(document)
        return int(self.spans[chunks.start : chunks.stop, 3].sum())


def build_corpus(documents: Sequence[Document], chunk_words: int = 300) -> Corpus:
    """Cut each document into chunks of about `chunk_words` words (paper, section 3: 300) that end with sentences, or in a
    table with rows (`words.cut`).

    A chunk never spans two documents. A document's last chunk may be shorter.
    """
    import numpy as np

    from fbrag_cli.text.words import cut

    spans = []
    for i, document in enumerate(documents):
        tables = tables_of(document)
        header = partial(header_in, tables) if tables else None
        spans += [(i, *span) for span in cut(document.text, chunk_words, header)]
    fingerprint = fingerprint_of(documents, chunk_words)
    return Corpus(tuple(documents), np.array(spans, np.int32).reshape(-1, 4), chunk_words, fingerprint)


def fingerprint_of(documents: Sequence[Document], chunk_words: int) -> str:
    """Return the SHA-256 (hex) over the documents' texts, languages and forms of tables, and the length of chunks."""
    parts = [chunk_words, *((document.text_sha256, document.language, form_of(document)) for document in documents)]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _below(header: str, text: str) -> str:
    return f"{header}\n{text}" if header else text


class _Chunks(Sequence[Passage]):
    def __init__(self, documents: tuple[Document, ...], spans: NDArray[np.int32]) -> None:
        self._documents, self._spans = documents, spans  # not the corpus, whose arrays would then wait for the garbage collector

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, position: int) -> Passage: ...
    @overload
    def __getitem__(self, position: slice) -> list[Passage]: ...
    def __getitem__(self, position: int | slice) -> Passage | list[Passage]:
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(len(self)))]
        position = range(len(self))[position]  # from the end if negative; an IndexError if there is none
        document, start, end = self._spans[position, :3].tolist()
        return Passage(position, self._documents[document], start, end)
