"""The formats that fbrag reads: how each is recognised by its content or its suffix, and which function reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import cast

from fbrag_cli.documents import format_detection
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.source import Source

#: Reads a file whose text is in this encoding (a Python codec name), or in one that the reader finds out (None); with struck-out
#: text or without.
Reader = Callable[[Source, str | None, bool], Extracted]

_PROSE = ".txt .text .org .adoc .asciidoc .textile .nfo .man"
_DATA = ".csv .tsv .log .bib .yaml .yml .toml .ini .cfg .conf .properties .sql .graphql .proto .tf .cmake .gradle"
_CODE = (
    ".py .pyi .pyx .c .h .cc .cpp .cxx .hh .hpp .cs .java .kt .kts .scala .groovy .go .rs .swift .m .mm .js .mjs .cjs .jsx"
    " .ts .tsx .vue .svelte .css .scss .less .php .rb .pl .pm .lua .r .jl .hs .ml .mli .fs .elm .erl .ex .exs .clj .lisp .el"
    " .scm .dart .nim .zig .d .v .sv .vhd .asm .s .f .f90 .pas .ada .adb .ads .cob .tcl .sh .bash .zsh .fish .ps1 .bat .awk"
)


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    reader: module and name of its reader (`reader_of`); "" for a PDF and for pictures. kind: its name in messages, as "a Word
    document". suffixes: suffixes in lower case, with the dot. recognises: returns whether a file is of this format; None where
    only the suffix shows it. textual: whether its bytes contain its text as it is, so that reading it as plain text loses
    nothing.
    """

    reader: str
    kind: str
    media_type: str
    suffixes: tuple[str, ...]
    recognises: Callable[[Source], bool] | None = None
    textual: bool = True


#: Text as it is. A file that fits no other format is read as this one.
PLAIN = Format("markup.read_prose", "plain text", "text/plain", tuple(_PROSE.split()))

PDF = Format("", "a PDF", "application/pdf", (".pdf",), format_detection.is_pdf, textual=False)

#: Their text is read by OCR.
PICTURES = (
    Format("", "a PNG picture", "image/png", (".png",), format_detection.is_png, textual=False),
    Format("", "a JPEG picture", "image/jpeg", (".jpg", ".jpeg"), format_detection.is_jpeg, textual=False),
    Format("", "a TIFF picture", "image/tiff", (".tif", ".tiff"), format_detection.is_tiff, textual=False),
    Format("", "a WebP picture", "image/webp", (".webp",), format_detection.is_webp, textual=False),
    Format("", "a BMP picture", "image/bmp", (".bmp",), format_detection.is_bmp, textual=False),
)

_DOCX, _XLSX, _PPTX = (
    f"application/vnd.openxmlformats-officedocument.{part}"
    for part in ("wordprocessingml.document", "spreadsheetml.sheet", "presentationml.presentation")
)
_ODT, _ODS = (f"application/vnd.oasis.opendocument.{kind}" for kind in ("text", "spreadsheet"))
_SHEETS = "spreadsheet.read_spreadsheet"

#: In the order in which a file's content is compared with them.
FORMATS = (
    PDF,
    *PICTURES,
    Format("epub.read_epub", "an EPUB book", "application/epub+zip", (".epub",), format_detection.is_epub, textual=False),
    Format("docx.read_docx", "a Word document", _DOCX, (".docx", ".docm"), format_detection.is_docx, textual=False),
    Format(_SHEETS, "an Excel workbook", _XLSX, (".xlsx", ".xlsm"), format_detection.is_xlsx, textual=False),
    Format(_SHEETS, "an old Excel workbook", "application/vnd.ms-excel", (".xls",), format_detection.is_xls, textual=False),
    Format(_SHEETS, "an OpenDocument spreadsheet", _ODS, (".ods", ".ots", ".fods"), format_detection.is_ods, textual=False),
    Format(
        "slides.read_slides",
        "a PowerPoint presentation",
        _PPTX,
        (".pptx", ".pptm", ".ppsx"),
        format_detection.is_pptx,
        textual=False,
    ),
    Format("odt.read_odt", "an OpenDocument text", _ODT, (".odt", ".ott", ".fodt"), format_detection.is_odt, textual=False),
    Format(
        "markup.read_notebook", "a notebook", "application/x-ipynb+json", (".ipynb",), format_detection.is_notebook, textual=False
    ),
    Format("rtf.read_rtf", "a rich text document", "application/rtf", (".rtf",), format_detection.is_rtf, textual=False),
    Format("subtitles.read_vtt", "WebVTT subtitles", "text/vtt", (".vtt",), format_detection.is_vtt),
    Format("subtitles.read_srt", "SubRip subtitles", "application/x-subrip", (".srt",), format_detection.is_srt),
    Format("mail.read_mbox", "a box of mails", "application/mbox", (".mbox", ".mbx"), format_detection.is_mbox),
    Format("mail.read_mail", "mail", "message/rfc822", (".eml",), format_detection.is_mail),
    Format("html.read_html", "an HTML page", "text/html", (".html", ".htm", ".xhtml", ".xht"), format_detection.is_html),
    Format("markup.read_markdown", "Markdown", "text/markdown", (".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd")),
    Format("markup.read_rst", "reStructuredText", "text/x-rst", (".rst", ".rest")),
    Format("latex.read_latex", "LaTeX", "text/x-tex", (".tex", ".ltx", ".latex")),
    Format("records.read_json", "JSON", "application/json", (".json", ".jsonl", ".ndjson"), format_detection.is_json),
    Format("records.read_xml", "XML", "application/xml", (".xml", ".svg"), format_detection.is_xml),
    Format("markup.read_plain", "source code or data", "text/plain", tuple(f"{_DATA} {_CODE}".split())),
    PLAIN,
)

_BY_SUFFIX = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes}

#: Suffixes (lower case, with the dot) of pictures, and of the other files, which are read from a folder.
PICTURE_SUFFIXES: frozenset[str] = frozenset(suffix for format_ in PICTURES for suffix in format_.suffixes)
KNOWN_SUFFIXES: frozenset[str] = frozenset(_BY_SUFFIX) - PICTURE_SUFFIXES


def find_format(source: Source) -> tuple[Format, str]:
    """Find the format of a file by its content first, by its suffix second; otherwise it is plain text.

    Return the format, and a warning if the suffix is that of another one, else "". Markdown and source code are known by their
    suffix, even if they begin like HTML or mail. A file with the suffix of a text is a PDF or HTML only from its first byte on.
    """
    promised = None if source.path == "-" else _BY_SUFFIX.get(PurePath(source.path).suffix.lower())
    recognised = next((each for each in FORMATS if each.recognises is not None and each.recognises(source)), None)
    if promised is not None and promised.textual:
        if (
            recognised is not None
            and recognised.suffixes[0] in (".pdf", ".html")
            and not format_detection.begins_at_once(source.data)
        ):
            recognised = None
        is_by_suffix = promised.recognises is None and promised is not PLAIN
        chosen = promised if recognised is None or (is_by_suffix and recognised.textual) else recognised
    else:
        chosen = recognised or PLAIN
    if promised is None or promised is chosen or (promised.textual and chosen.textual):
        return chosen, ""
    return chosen, f"{source.name} is not {promised.kind}: read as {chosen.kind}"


def reader_of(format_: Format) -> Reader:
    """Import the function that reads a format. Not for a PDF or a picture, whose functions take pages too."""
    module, _, name = format_.reader.partition(".")
    return cast(Reader, getattr(import_module(f"fbrag_cli.documents.readers.{module}"), name))
