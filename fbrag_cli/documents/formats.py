"""The formats that are read: how each is told by content, by which suffixes else, and which module reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath

from fbrag_cli.documents import recognition
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

_PROSE = ".txt .text .log .tex .bib .org .adoc .asciidoc .textile .nfo .csv .tsv .man"
_DATA = ".json .jsonl .ndjson .yaml .yml .toml .ini .cfg .conf .properties .xml .sql .graphql .proto .tf .cmake .gradle"
_CODE = (
    ".py .pyi .pyx .c .h .cc .cpp .cxx .hh .hpp .cs .java .kt .kts .scala .groovy .go .rs .swift .m .mm .js .mjs .cjs .jsx"
    " .ts .tsx .vue .svelte .css .scss .less .php .rb .pl .pm .lua .r .jl .hs .ml .mli .fs .elm .erl .ex .exs .clj .lisp .el"
    " .scm .dart .nim .zig .d .v .sv .vhd .asm .s .f .f90 .pas .ada .adb .ads .cob .tcl .sh .bash .zsh .fish .ps1 .bat .awk"
)


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    kind: what messages call it, as "a Word document". suffixes: lower case, with the dot. reader: "module:function" of
    `documents.readers`; the function takes a `Source` and a codec name or None, and gives `Extracted`. tells: whether bytes are
    of this format; None where only the suffix tells. library: what the reader imports beyond the base, None for nothing.
    textual: whether a reader of its bytes sees its text, so that reading it as plain text loses nothing.
    """

    kind: str
    media_type: str
    suffixes: tuple[str, ...]
    reader: str
    tells: Callable[[bytes], bool] | None = None
    library: str | None = None
    textual: bool = True


#: Text as it is: what every file is read as that nothing else fits.
PLAIN = Format("plain text", "text/plain", tuple(_PROSE.split()), "plain:read_plain")

PDF = Format("a PDF", "application/pdf", (".pdf",), "", recognition.is_pdf, textual=False)

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

#: In the order in which content is asked.
FORMATS = (
    PDF,
    Format("an EPUB book", "application/epub+zip", (".epub",), "epub:read_epub", recognition.is_epub, textual=False),
    Format("a Word document", _DOCX, (".docx", ".docm"), "docx:read_docx", recognition.is_docx, "mammoth", textual=False),
    Format(
        "an OpenDocument text",
        "application/vnd.oasis.opendocument.text",
        (".odt", ".ott", ".fodt"),
        "odt:read_odt",
        recognition.is_odt,
        textual=False,
    ),
    Format("a rich text document", "application/rtf", (".rtf",), "rtf:read_rtf", recognition.is_rtf, "striprtf", textual=False),
    Format("WebVTT subtitles", "text/vtt", (".vtt",), "subtitles:read_vtt", recognition.is_vtt),
    Format("SubRip subtitles", "application/x-subrip", (".srt",), "subtitles:read_srt", recognition.is_srt),
    Format("mail", "message/rfc822", (".eml",), "mail:read_mail", recognition.is_mail),
    Format("an HTML page", "text/html", (".html", ".htm", ".xhtml", ".xht"), "html:read_html", recognition.is_html),
    Format("Markdown", "text/markdown", (".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"), "markdown:read_markdown"),
    Format("reStructuredText", "text/x-rst", (".rst", ".rest"), "restructured:read_rst"),
    Format("source code", "text/plain", tuple(f"{_DATA} {_CODE}".split()), "plain:read_plain"),
    PLAIN,
)

_BY_SUFFIX = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes}

#: Suffixes, lower case with the dot, of the files that are read out of a folder.
KNOWN_SUFFIXES: frozenset[str] = frozenset(_BY_SUFFIX)


@dataclass(frozen=True, slots=True)
class Found:
    """The format of a file, and what is to be said of how it was found."""

    format: Format
    warnings: tuple[str, ...] = ()


def find_format(source: Source) -> Found:
    """By content first, by suffix second, else plain text. A suffix that promises another format is warned of.

    Markdown and source code are what their suffix says though they begin like HTML or mail.
    """
    promised = None if source.path == "-" else _BY_SUFFIX.get(PurePath(source.path).suffix.lower())
    told = next((format_ for format_ in FORMATS if format_.tells is not None and format_.tells(source.data)), None)
    if promised is not None and promised.textual:
        is_as_written = promised.tells is None and promised is not PLAIN
        found = promised if told is None or (is_as_written and told.textual) else told
    else:
        found = told or PLAIN
    if promised is None or promised is found or (promised.textual and found.textual):
        return Found(found)
    return Found(found, (f"{source.name} is not {promised.kind}: read as {found.kind}",))


def read_as(format_: Format, source: Source, codec: str | None) -> Extracted:
    """What the reader of `format_` makes of `source`. Raises FbragError: unsupported_format (no library); the reader's own."""
    module_name, function = format_.reader.split(":")
    if format_.library is not None and find_spec(format_.library) is None:
        what = f"{source.name} is {format_.kind}, which needs a library that is not installed"
        raise FbragError("unsupported_format", what, "pip install 'fbrag[formats]'", document=source.path)
    read: Callable[[Source, str | None], Extracted] = getattr(
        import_module(f"fbrag_cli.documents.readers.{module_name}"), function
    )
    return read(source, codec)
