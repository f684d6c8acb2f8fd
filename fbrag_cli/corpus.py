"""Cut documents into a `Corpus` of chunks, each a span of its document. Knows nothing of questions or models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, overload

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.lines import page_label, page_name, pages_of, section_of
from fbrag_cli.documents.named_places import names_a_place
from fbrag_cli.documents.tables import cells_apart, form_of, header_in, header_of, in_rows, tables_of
from fbrag_cli.surroundings import head_of, headings_of, notes_of
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST_TITLE = 60  # characters of a heading above a passage


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
    def words(self) -> str:
        """Return the words of the text with one space between them, in which copies are equal."""
        return " ".join(self.text.split())

    @property
    def text_with_header(self) -> str:
        """Return the text as retrievers read it: below the header of the table in whose rows it begins."""
        return _below(header_of(self.document, self.start), self.text)

    @property
    def place(self) -> str:
        """The printed pages, or else the heading, of the text; "" without either."""
        if pages := pages_of(self.document, self.start, self.end):
            return f"page{'s' if pages[0] < pages[1] else ''} {page_label(self.document, pages) or page_name(pages, None)}"
        section = section_of(self.document, self.start, self.end)
        return one_line(section.title, _LONGEST_TITLE) if section else ""

    @property
    def by_ocr(self) -> bool:
        """Whether OCR has read a page of the text."""
        read = self.document.ocr_pages
        pages = pages_of(self.document, self.start, self.end) if read else None
        return pages is not None and any(pages[0] <= number <= pages[1] for number in read)

    @property
    def cells_apart(self) -> str:
        """Return the text with its cells apart (`tables.cells_apart`), whose words are counted and compared. It is as long."""
        return cells_apart(self.document)[self.start : self.end]

    @property
    def indexed_text(self) -> str:
        """Return `text_with_header` with its cells apart, whose terms are those of an index."""
        return _below(header_of(self.document, self.start, apart=True), self.cells_apart)

    @property
    def n_words(self) -> int:
        """Return the number of words of the text, counted again."""
        from fbrag_cli.text.words import count_words

        return count_words(self.cells_apart)


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

    def texts_of(self, document: int, chunks: range, *, indexed: bool = False) -> list[str]:
        """Return `Passage.text_with_header` of the chunks at positions `chunks`, all of `documents[document]`. indexed: return
        `Passage.indexed_text`.

        The document's text is read once, because it may have to be fetched.
        """
        own = self.documents[document]
        text, tables = cells_apart(own) if indexed else own.text, tables_of(own)
        spans = self.spans[chunks.start : chunks.stop, 1:3].tolist()
        return [_below(header_in(tables, start, apart=indexed), text[start:end]) for start, end in spans]

    def chunks_of(self, document: int) -> range:
        """Return the positions of the chunks of `documents[document]`."""
        return range(self._firsts[document], self._firsts[document + 1])

    def words_of(self, document: int) -> int:
        """Return the number of words of `documents[document]`."""
        chunks = self.chunks_of(document)
        return int(self.spans[chunks.start : chunks.stop, 3].sum())


def texts_for(question: str, groups: Iterable[Sequence[Passage]], gap: str = "") -> list[str]:
    """Return passages as models read them for a question: a text for each group, the parts of one chunk with `gap` between them.

    Above a text are, unless they are above the text before it: the name of the file, if there are several or if the question
    has a term of it, the page or heading that the question names by its number, the head of the mail, and the headings. Below it
    are the notes that it points to.
    """
    from fbrag_cli.text.term_forms import further_terms
    from fbrag_cli.text.words import terms

    names_place, texts, told = names_a_place(question), list[str](), dict[str, str]()
    for parts in groups:
        first, document = parts[0], parts[0].document
        if told.get("path") != document.path:
            told = {"path": document.path}
        language = (document.language,)
        asked = not document.label and {*terms(question, language), *further_terms(question, language)} & {*document.name_terms}
        above = {
            "name": one_line(PurePath(document.path).name, _LONGEST_TITLE) if asked else document.label,
            "place": first.place if names_place else "",
            "head": head_of(document, first.start),
            "headings": " > ".join(headings_of(document, first.start, first.end)),
        }
        new = {name: line for name, line in above.items() if line and (name == "place" or told.get(name) != line)}
        told |= above
        lines = [", ".join(line for name, line in new.items() if name in ("name", "place"))]
        lines += [line for name, line in new.items() if name in ("head", "headings")]
        notes = dict.fromkeys(note for part in parts for note in notes_of(document, part.start, part.end))
        text = gap.join((first.text_with_header, *(part.text for part in parts[1:])))
        texts.append("\n".join((*filter(None, lines), text, *notes)))
    return texts


def build_corpus(documents: Sequence[Document], chunk_words: int = 300) -> Corpus:
    """Cut each document into chunks of about `chunk_words` words (paper, section 3: 300) that end with sentences, or in a
    table with rows (`words.cut`).

    A chunk never spans two documents. A document's last chunk may be shorter.
    """
    import numpy as np

    from fbrag_cli.text.words import cut

    spans = []
    for i, document in enumerate(documents):
        spans += [(i, *span) for span in cut(cells_apart(document), chunk_words, in_rows(document))]
    fingerprint = fingerprint_of(documents, chunk_words)
    return Corpus(tuple(documents), np.array(spans, np.int32).reshape(-1, 4), chunk_words, fingerprint)


def fingerprint_of(documents: Sequence[Document], chunk_words: int) -> str:
    """Return the SHA-256 (hex) over the documents' texts, languages, forms of tables and terms of names, and the length of
    chunks."""
    parts = [
        chunk_words,
        *((each.text_sha256, each.language, form_of(each), *each.name_terms) for each in documents),
    ]
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
