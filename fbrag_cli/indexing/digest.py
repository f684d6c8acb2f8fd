"""The digest of one file: its document, its chunks and their term counts, as made from the file and as cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.children import is_worker, run_jobs
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, PageSpan, Section
from fbrag_cli.documents.load import load
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.store import IndexStore, index_key
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval.term_counts import TermCounts, Vocabulary, count_terms
from fbrag_cli.storage import arrays

_BATCH_SECONDS = 60  # for some pages of a PDF, in a child process


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read and cut into chunks: all settings that change a digest. password: of encrypted PDFs."""

    chunk_words: int = 300
    encoding: str | None = None
    pages: str | None = None
    language: str | None = None
    password: str | None = None

    def key_parts(self) -> tuple[object, ...]:
        """Return what belongs in a cache key: all but the password, which only opens the file."""
        return self.chunk_words, self.encoding, self.pages, self.language


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest. spans: int32 (n_chunks, 3), each chunk's start, end (characters) and number of words. counts: its terms."""

    document: Document
    spans: NDArray[np.int32]
    counts: TermCounts


def digest_key(source: Source, reading: Reading) -> str:
    """Return the key of a file's digest."""
    return index_key(sha256(source.data).hexdigest(), PurePath(source.path).suffix.lower(), reading.key_parts())


def load_digest(key: str, path: str, store: IndexStore) -> Digest | None:
    """Return the cached digest of the file `path`; None if it is not there or damaged."""

    def digest(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> Digest:
        document = restore_document(meta["document"], path, partial(load_content, key, store))
        return Digest(document, held["spans"], counts_from(meta, held))

    return store.restore("documents", key, digest)


def make_digest(source: Source, reading: Reading, listener: Listener | None = None) -> Digest:
    """Return the digest of a file, made anew. Raises FbragError as `documents.load` does, and the error of a cancellation."""
    listener = listener or Listener()
    share = partial(run_jobs, seconds=_BATCH_SECONDS, cancellation=listener.cancellation)
    document = load(
        source.path,
        encoding=reading.encoding,
        pages=reading.pages,
        password=reading.password,
        source=source,
        language=reading.language,
        share=None if is_worker() else share,
        listener=listener,
    )
    corpus = build_corpus([document], reading.chunk_words)
    return Digest(document, corpus.spans[:, 1:], count_terms(corpus))


# -- as cached ---------------------------------------------------------------------------------------------------------------


def save_digest(key: str, digest: Digest, store: IndexStore) -> bool:
    """Write a digest into the cache. Return False where it cannot be written."""
    return store.save("documents", key, *_parts(digest))


def packed_digest(key: str, digest: Digest) -> bytes:
    """Return a digest as the bytes of its cache entry."""
    return b"".join(arrays.packed(f"documents/{key}", *_parts(digest)))


def _parts(digest: Digest) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    content = digest.document.content()
    meta = {
        "document": describe_document(digest.document),
        "pages": [(page.number, page.start, page.end) for page in content.pages],
        "sections": [(section.title, section.level, section.start) for section in content.sections],
        "languages": digest.counts.languages,
    }
    text = np.frombuffer(content.text.encode("utf-8", "surrogatepass"), np.uint8)
    return meta, {"text": text, "spans": digest.spans, **count_arrays(digest.counts)}


@lru_cache(maxsize=16)
def load_content(key: str, store: IndexStore) -> Content:
    """Return the cached text, pages and sections of a digest. Raises FbragError if another process has removed them."""
    if (found := store.restore("documents", key, _content)) is None:
        hint = "ask again: it will be read again"
        raise FbragError("doc_unreadable", "the text of a document is no longer in the cache", hint)
    return found


def _content(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> Content:
    return Content(
        held["text"].tobytes().decode("utf-8", "surrogatepass"),
        tuple(PageSpan(*page) for page in meta["pages"]),
        tuple(Section(*section) for section in meta["sections"]),
    )


def describe_document(document: Document) -> dict[str, Any]:
    """Return a document's fields as JSON can hold them, without its content (see `restore_document`)."""
    return {
        "path": document.path,
        "name": document.name,
        "media_type": document.media_type,
        "sha256": document.sha256,
        "language": document.language,
        "n_chars": document.n_chars,
        "encoding": document.encoding,
        "skipped_pages": document.skipped_pages,
        "warnings": document.warnings,
        "text_sha256": document.text_sha256,
    }


def restore_document(described: dict[str, Any], path: str, content: Callable[[], Content]) -> Document:
    """Return a described document under `path`: the same file may have been read under another path before."""
    name = "stdin" if path == "-" else path
    return Document(
        **{
            **described,
            "path": path,
            "name": name,
            "content": content,
            "skipped_pages": tuple(described["skipped_pages"]),
            "warnings": tuple(_renamed(warning, described["name"], name) for warning in described["warnings"]),
        }
    )


def _renamed(warning: str, old: str, new: str) -> str:
    """Return a warning with the document's new name. A warning begins with the name."""
    return new + warning.removeprefix(old) if warning.startswith(old) else warning


def count_arrays(counts: TermCounts) -> dict[str, NDArray[Any]]:
    """Return term counts as arrays, all but the languages (see `counts_from`)."""
    return {
        "letters": counts.vocabulary.letters,
        "ends": counts.vocabulary.ends,
        "starts": counts.starts,
        "chunks": counts.chunks,
        "counts": counts.counts,
        "lengths": counts.lengths,
    }


def counts_from(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> TermCounts:
    """Return the term counts of an entry's metadata and arrays."""
    vocabulary = Vocabulary(held["letters"], held["ends"])
    return TermCounts(vocabulary, held["starts"], held["chunks"], held["counts"], held["lengths"], tuple(meta["languages"]))
