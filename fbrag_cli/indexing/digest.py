"""One file, digested: its document, its chunks and their term counts, as the cache keeps them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fbrag_cli import __version__
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, PageSpan, Section
from fbrag_cli.documents.load import load
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.workers import is_worker, run_jobs
from fbrag_cli.progress import Progress, silent
from fbrag_cli.retrieval.term_counts import TermCounts, Vocabulary, count_terms
from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache

#: The kind of cache entry that a digest is.
KIND = "documents"

_BATCH_SECONDS = 60  # for some pages of a PDF, in a child process
_FORM = 1  # to be raised when what a digest holds changes within a version


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read and cut: whatever changes what a digest holds. password: of encrypted PDFs."""

    chunk_words: int = 300
    encoding: str | None = None
    pages: str | None = None
    language: str | None = None
    password: str | None = None

    def key(self, content: str, path: str) -> str:
        """The cache's key of a file's digest. content: SHA-256 (hex) of its bytes; of the path only the suffix counts."""
        told = [
            __version__,
            _FORM,
            content,
            PurePath(path).suffix.lower(),
            self.chunk_words,
            self.encoding,
            self.pages,
            self.language,
        ]
        return sha256(json.dumps(told).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Digest:
    """spans: int32 (n_chunks, 3), start, end (characters) and words of each chunk. counts: of the chunks' terms."""

    document: Document
    spans: NDArray[np.int32]
    counts: TermCounts


def digest_file(
    path: str, reading: Reading, cache: Cache, stdin: BinaryIO | None = None, progress: Progress = silent
) -> tuple[Digest, str, bool]:
    """The digest of the file `path` ("-": of `stdin`), its key, and whether it was in the cache; if not, now it is.

    Raises FbragError as `documents.load` does. A cache that cannot be written costs only the next question's time.
    """
    source = read_source(path, stdin)
    key = reading.key(sha256(source.data).hexdigest(), path)
    if (found := stored(key, path, cache)) is not None:
        return found, key, True
    digest = _digest(source, reading, progress)
    try:
        with cache.new(KIND, key) as entry:
            _save(digest, entry)
    except OSError:
        return digest, key, False
    return stored(key, path, cache) or digest, key, False


def stored(key: str, path: str, cache: Cache) -> Digest | None:
    """The digest of the file `path` from the cache; None if it is not there or not whole."""
    if (found := load_entry(KIND, key, cache)) is None:
        return None
    meta, held = found
    cache.touch(KIND, [key])
    document = restore_document(meta["document"], path, partial(content_of, key, cache))
    return Digest(document, held["spans"], counts_from(meta, held))


def _digest(source: Source, reading: Reading, progress: Progress) -> Digest:
    document = load(
        source.path,
        encoding=reading.encoding,
        pages=reading.pages,
        password=reading.password,
        source=source,
        language=reading.language,
        share=None if is_worker() else partial(run_jobs, processes=os.cpu_count() or 1, seconds=_BATCH_SECONDS),
        progress=progress,
    )
    corpus = build_corpus([document], reading.chunk_words)
    return Digest(document, corpus.spans[:, 1:], count_terms(corpus))


def load_entry(kind: str, key: str, cache: Cache) -> tuple[dict[str, Any], dict[str, arrays.Array]] | None:
    """What `arrays` holds in a file of the cache; None if it is not there. One that is damaged is removed."""
    if (entry := cache.path(kind, key)) is None:
        return None
    try:
        return arrays.load(entry)
    except (OSError, ValueError, KeyError):
        cache.discard(kind, key)
        return None


# -- as the cache keeps it ---------------------------------------------------------------------------------------------------


def _save(digest: Digest, entry: Path) -> None:
    content = digest.document.content()
    meta = {
        "document": describe_document(digest.document),
        "pages": [(page.number, page.start, page.end) for page in content.pages],
        "sections": [(section.title, section.level, section.start) for section in content.sections],
        "languages": digest.counts.languages,
    }
    text = np.frombuffer(content.text.encode("utf-8", "surrogatepass"), np.uint8)
    arrays.save(entry, meta, {"text": text, "spans": digest.spans, **count_arrays(digest.counts)})


@lru_cache(maxsize=16)
def content_of(key: str, cache: Cache) -> Content:
    """The text, pages and sections of a digest. Raises FbragError if another process has removed it in the meantime."""
    if (found := load_entry(KIND, key, cache)) is None:
        hint = "ask again: it is read anew"
        raise FbragError("doc_unreadable", "the text of a document is no longer in the cache", hint)
    meta, held = found
    return Content(
        held["text"].tobytes().decode("utf-8", "surrogatepass"),
        tuple(PageSpan(*page) for page in meta["pages"]),
        tuple(Section(*section) for section in meta["sections"]),
    )


def describe_document(document: Document) -> dict[str, Any]:
    """What `restore_document` needs: all of a document but its content."""
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
    }


def restore_document(described: dict[str, Any], path: str, content: Callable[[], Content]) -> Document:
    """The document under the path by which it is named now: the same file may have been read under another."""
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
    """A warning begins with the name of its document."""
    return new + warning.removeprefix(old) if warning.startswith(old) else warning


def count_arrays(counts: TermCounts) -> dict[str, NDArray[Any]]:
    """What `counts_from` needs, beside the languages."""
    return {
        "letters": counts.vocabulary.letters,
        "ends": counts.vocabulary.ends,
        "starts": counts.starts,
        "chunks": counts.chunks,
        "counts": counts.counts,
        "lengths": counts.lengths,
    }


def counts_from(meta: dict[str, Any], held: dict[str, NDArray[Any]]) -> TermCounts:
    vocabulary = Vocabulary(held["letters"], held["ends"])
    return TermCounts(vocabulary, held["starts"], held["chunks"], held["counts"], held["lengths"], tuple(meta["languages"]))
