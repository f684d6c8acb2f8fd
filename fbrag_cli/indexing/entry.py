"""The index entry of one file: its document, its chunks and their term counts, as made from the file and as kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, PageSpan, Section, itself
from fbrag_cli.documents.formats import Format
from fbrag_cli.documents.load import included_files, load
from fbrag_cli.documents.ocr.engine import is_installed, version
from fbrag_cli.documents.ocr.scans import Ocr, ReadScans
from fbrag_cli.documents.source import Source
from fbrag_cli.indexing.store import Held, IndexStore, index_key
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval.term_counts import TermCounts, Vocabulary, count_terms

#: Which scanned pages OCR reads: none; if it is installed, those without text; also those with the text of a scanner.
OcrMode = Literal["auto", "off", "all"]


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How files are read and cut into chunks: all that changes an entry. password: password of encrypted PDFs. refresh: whether
    files are read again whose entries are cached."""

    chunk_words: int = 300
    encoding: str | None = None
    pages: str | None = None
    language: str | None = None
    password: str | None = None
    markup: bool = False
    ocr: OcrMode = "auto"
    refresh: bool = False

    def key_parts(self) -> tuple[object, ...]:
        """Return what belongs in a cache key: all but the password, which only opens the file, and `refresh`."""
        engine = version() if self.reads_scans else ""
        return self.chunk_words, self.encoding, self.pages, self.language, self.markup, self.ocr, engine

    @property
    def reads_scans(self) -> bool:
        """Whether scanned pages and pictures are read: if they are to be, and the engine is installed."""
        return self.ocr != "off" and is_installed()


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The index of one file. spans: int32 (n_chunks, 3): start, end (characters) and number of words of each chunk."""

    document: Document
    spans: NDArray[np.int32]
    counts: TermCounts


def file_key(source: Source, settings: ReadSettings) -> str:
    """Return the key of a file's entry. It depends on the files that this one includes, too."""
    digests = [sha256(each.data).hexdigest() for each in (source, *included_files(source))]
    return index_key(*digests, PurePath(source.path).suffix.lower(), settings.key_parts())


def load_entry(key: str, path: str, store: IndexStore) -> IndexedFile | None:
    """Return the entry of the file `path` from the store, with its text in memory; None if it is not there or damaged."""

    def entry(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> IndexedFile:
        document = restore_document(meta["document"], path, partial(itself, _content(meta, held)))
        return IndexedFile(document, held["spans"], counts_from(meta, held))

    return store.restore("documents", key, entry)


def make_entry(
    source: Source,
    settings: ReadSettings,
    read_scans: ReadScans,
    listener: Listener | None = None,
    found: tuple[Format, str] | None = None,
) -> IndexedFile:
    """Read a file, cut it into chunks and count their terms. read_scans: reads its scanned pages, if any are to be read. found:
    what `find_format` has found of it.

    Raises FbragError as `documents.load` does, and the error of a cancellation.
    """
    document = load(
        source.path,
        encoding=settings.encoding,
        pages=settings.pages,
        password=settings.password,
        source=source,
        found=found,
        markup=settings.markup,
        ocr=Ocr(read_scans, settings.ocr == "all", settings.language) if settings.reads_scans else None,
        listener=listener,
    )
    if settings.language is not None:
        document = replace(document, language=settings.language)
    corpus = build_corpus([document], settings.chunk_words)
    return IndexedFile(document, corpus.spans[:, 1:], count_terms(corpus))


# -- as kept -----------------------------------------------------------------------------------------------------------------


def save_entry(key: str, entry: IndexedFile, store: IndexStore) -> bool:
    """Write an entry into the cache. Return False if it cannot be written, or if a limit cut its text."""
    return not entry.document.cut and store.save("documents", key, *parts_of(entry))


def parts_of(entry: IndexedFile) -> Held:
    """Return the metadata and the arrays of an entry, as the cache has them."""
    content = entry.document.content()
    meta = {
        "document": describe_document(entry.document),
        "pages": [(page.number, page.start, page.end, page.label) for page in content.pages],
        "sections": [(section.title, section.level, section.start) for section in content.sections],
        "languages": entry.counts.languages,
    }
    text = np.frombuffer(content.text.encode("utf-8", "surrogatepass"), np.uint8)
    counts = {name: getattr(entry.counts, name) for name in ("starts", "chunks", "counts", "lengths", "added_df")}
    vocabulary = {"letters": entry.counts.vocabulary.letters, "ends": entry.counts.vocabulary.ends}
    return meta, {"text": text, "spans": entry.spans, **vocabulary, **counts}


def load_content(key: str, store: IndexStore) -> Content | None:
    """Return the text, pages and sections of an entry; None if it is not there or damaged."""
    return store.restore("documents", key, _content)


def _content(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> Content:
    return Content(
        held["text"].tobytes().decode("utf-8", "surrogatepass"),
        tuple(PageSpan(*page) for page in meta["pages"]),
        tuple(Section(*section) for section in meta["sections"]),
    )


def describe_document(document: Document) -> dict[str, Any]:
    """Return a document's fields as JSON can hold them, without its content (see `restore_document`)."""
    return {each.name: getattr(document, each.name) for each in fields(Document) if each.name != "content"}


def restore_document(described: dict[str, Any], path: str, content: Callable[[], Content]) -> Document:
    """Return a described document under `path`: the same file may have been read under another path before."""
    name, before = "stdin" if path == "-" else path, described["name"]
    return Document(
        **{
            **described,
            "path": path,
            "name": name,
            "content": content,
            "skipped_pages": tuple(described["skipped_pages"]),
            "ocr_pages": tuple(described["ocr_pages"]),
            "name_terms": tuple(described["name_terms"]),
            "warnings": tuple(
                name + warning.removeprefix(before) if warning.startswith(before) else warning
                for warning in described["warnings"]
            ),
        }
    )


def counts_from(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> TermCounts:
    """Return the term counts of an entry's metadata and arrays."""
    vocabulary = Vocabulary(held["letters"], held["ends"])
    return TermCounts(
        vocabulary, held["starts"], held["chunks"], held["counts"], held["lengths"], held["added_df"], tuple(meta["languages"])
    )
