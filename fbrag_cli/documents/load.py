"""Read a file of any known format as a `Document`. Knows nothing of chunks or questions."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

from fbrag_cli.documents.document import Document
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Progress, silent

if TYPE_CHECKING:
    from fbrag_cli.documents.pdf import Share
    from fbrag_cli.documents.source import Source


def load(
    path: str,
    *,
    encoding: str | None = None,
    pages: str | None = None,
    password: str | None = None,
    language: str | None = None,
    stdin: BinaryIO | None = None,
    source: Source | None = None,
    share: Share | None = None,
    progress: Progress = silent,
) -> Document:
    """Read the file `path` of any format in `formats`; "-" reads `stdin` (by default the process's own) to its end.

    The format is found by content first, by suffix second. encoding: of a text, instead of finding it out. pages: of a PDF, as
    "3-9,12". password: tried where a PDF does not open without one. language: ISO 639-1, instead of finding it out.
    source: the file's bytes, where they are at hand already. share: has other processes read some pages of a long PDF.
    progress: hears of stage "read", in pages, for a PDF.

    Raises FbragError, with `document` = `path`: doc_not_found, doc_unreadable, doc_empty, unsupported_format, pdf_encrypted,
    pdf_bad_password, pdf_no_text; usage for an unknown `encoding` or for `pages` that cannot be read or do not exist.
    """
    from fbrag_cli.documents.decoding import codec_name
    from fbrag_cli.documents.formats import PDF, find_format, read_as
    from fbrag_cli.documents.source import read_source
    from fbrag_cli.text.languages import detect

    # 1. What the options say is checked before anything is read.
    ranges = None
    if pages is not None:
        from fbrag_cli.documents.pdf.page_ranges import parse_ranges

        ranges = parse_ranges(pages, path)
    codec = None if encoding is None else codec_name(encoding, path)

    # 2. The bytes say what they are, whatever they are called.
    source = source or read_source(path, stdin)
    found = find_format(source)
    if found.format is PDF:
        from fbrag_cli.documents.pdf import read_pdf

        extracted = read_pdf(source, ranges=ranges, password=password, progress=progress, share=share)
    else:
        extracted = read_as(found.format, source, codec)
    text = extracted.content.text
    if not text.strip():
        raise _empty(path, source.name, len(source.data), is_text=found.format.tells is None)

    # 3. What is not as it was asked for is said.
    warnings = found.warnings + extracted.warnings
    if ranges is not None and found.format is not PDF:
        warnings += (f"{source.name} has no pages: --pages does not apply to it",)
    extracted = replace(extracted, warnings=warnings)
    return Document.of(path, source.name, extracted, sha256(source.data).hexdigest(), language or detect(text))


def _empty(path: str, name: str, n_bytes: int, *, is_text: bool) -> FbragError:
    what = "is empty" if not n_bytes else "holds only white space" if is_text else "has no text"
    hint = "see what the command before the pipe writes" if path == "-" else "name a file that has text"
    return FbragError("doc_empty", f"{name} {what}", hint, document=path)
