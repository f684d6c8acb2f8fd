"""Read a file of any known format as a `Document`. Knows nothing of chunks or questions."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from fbrag_cli.documents.decoding.encoding import codec_name
from fbrag_cli.documents.document import Content, Document, Extracted, Section
from fbrag_cli.documents.formats import PDF, PICTURES, Format, find_format, reader_of
from fbrag_cli.documents.ocr.scans import Ocr
from fbrag_cli.documents.pdf.page_ranges import parse_ranges
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.text.languages import detect
from fbrag_cli.text.printable import one_line, plural

#: Suffixes of the files that may include others.
INCLUDING = (".tex", ".ltx", ".latex")
_COMMENTS = "Comments"  # title of the section


def load(
    path: str,
    *,
    encoding: str | None = None,
    pages: str | None = None,
    password: str | None = None,
    markup: bool = False,
    ocr: Ocr | None = None,
    source: Source | None = None,
    found: tuple[Format, str] | None = None,
    listener: Listener | None = None,
) -> Document:
    """Read the file `path` in any format of `formats`; "-" reads the process's stdin to its end.

    encoding: encoding of a text; None to detect it. pages: pages of a PDF, as "3-9,12"; None for all. password: password of a PDF
    that does not open without one. markup: whether hidden text is read as well, struck-out text and tracked deletions, as
    "~~old~~", and the comments, as a section after the text. ocr: reads scanned pages and pictures; None to leave them out.
    source: the file's bytes, if they are at hand already. found: what `find_format` said of them. listener: receives the stage
    "read", in pages, and can stop the reading, of a PDF or a picture.

    Raises FbragError, with `document` = `path`: doc_not_found, doc_unreadable, doc_empty, unsupported_format, library_missing,
    pdf_encrypted, pdf_bad_password, pdf_no_text; usage for an unknown `encoding`, or for `pages` that are malformed or do not
    exist. Raises the error of a cancellation.
    """
    # 1. The options are checked before anything is read.
    ranges = None if pages is None else parse_ranges(pages, path)
    codec = None if encoding is None else codec_name(encoding, path)

    # 2. The format is found, and its reader called.
    source = source or read_source(path)
    format_, mismatch = found or find_format(source)
    if format_ is PDF:
        from fbrag_cli.documents.pdf.reader import read_pdf

        extracted = read_pdf(source, ranges=ranges, password=password, markup=markup, ocr=ocr, listener=listener or Listener())
    elif format_ in PICTURES:
        from fbrag_cli.documents.readers.picture import read_picture

        media_type = format_.media_type
        extracted = read_picture(source, ranges=ranges, ocr=ocr, media_type=media_type, listener=listener or Listener())
    else:
        extracted = reader_of(format_)(source, codec, markup)
    content = _with_comments(extracted) if markup else extracted.content
    if not content.text.strip():
        raise _empty(source, extracted, is_text=format_.recognises is None)

    # 3. Warnings are collected.
    has_pages = format_ in (PDF, *PICTURES)
    unused = f"{source.name} has no pages: --pages does not apply to it" if ranges and not has_pages else ""
    warnings = mismatch, *extracted.warnings, _left_out(source, extracted, markup=markup), unused
    extracted = replace(extracted, content=content, warnings=tuple(filter(None, warnings)))
    digest = sha256(source.data).hexdigest()
    return Document.of(source.path, source.name, extracted, digest, detect(content.text))


def included_files(source: Source) -> list[Source]:
    """Return the other files that are read with a file: those that LaTeX includes. Their paths are real ones."""
    if not source.path.lower().endswith(INCLUDING):
        return []
    from fbrag_cli.documents.readers.latex import included_files

    return included_files(source)


def _with_comments(extracted: Extracted) -> Content:
    """Return the content with the comments after it, as a section of their own."""
    content = extracted.content
    if not extracted.comments:
        return content
    before = f"{content.text.rstrip()}\n\n" if content.text.strip() else ""
    text = before + "\n\n".join((_COMMENTS, *extracted.comments)) + "\n"
    return replace(content, text=text, sections=(*content.sections, Section(_COMMENTS, 1, len(before))))


def _left_out(source: Source, extracted: Extracted, *, markup: bool) -> str:
    """Return one warning that names what was not read; "" if there is nothing."""
    names = [one_line(each, 200) for each in extracted.left_out]
    if by_markup := {} if markup else _of_markup(extracted):
        names.append(f"{', '.join(plural(n, thing) for thing, n in by_markup.items())} (--markup reads them)")
    return f"{source.name}: not read: {', '.join(names)}" if names else ""


def _of_markup(extracted: Extracted) -> dict[str, int]:
    """Return the number of each thing that only `--markup` reads."""
    counts = {"comment": len(extracted.comments), **extracted.markup}
    return {thing: n for thing, n in counts.items() if n}


def _empty(source: Source, extracted: Extracted, *, is_text: bool) -> FbragError:
    problem = "is empty" if not source.data else "holds only white space" if is_text else "has no text"
    hint = "check the output of the command before the pipe" if source.path == "-" else "name a file that has text"
    if extracted.left_out:
        problem = f"has no text, only {', '.join(one_line(each, 200) for each in extracted.left_out)}"
    if "picture" in problem:
        hint = f"libreoffice --headless --convert-to pdf {source.shell_path}; fbrag reads the PDF by OCR"
    if by_markup := _of_markup(extracted):
        problem, hint = f"has no text but {' and '.join(f'{thing}s' for thing in by_markup)}", "add --markup, which reads them"
    return FbragError("doc_empty", f"{source.name} {problem}", hint, document=source.path)
