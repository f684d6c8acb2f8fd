"""What a page says if the command line would name an option or a command."""

from __future__ import annotations

import re

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

_OPTION = re.compile(r"(?<![\w-])--(?:set )?(?=[a-z])")
_ASIDE = re.compile(r" \((?:\w+(?:Error|Exception)\b.*|[^()]*(?<![\w-])--[a-z][^()]*)\)")  # for who types commands
_OCR = re.compile(r"to read by OCR: (--ocr auto)?.*")
_COPY = "save a copy of it without a password, and add the copy"
_MODEL = "choose another model under Models"

#: What to do about an error, by its code, if what the command line says does not help on a page.
_HINTS = {
    "doc_not_found": "add it again, or choose another document",
    "doc_unreadable": "open it in the program that made it, and add a copy that you save there",
    "doc_empty": "add a document with text",
    "pdf_encrypted": _COPY,
    "pdf_bad_password": _COPY,
    "pdf_no_text": "add a document with text",
    "unsupported_format": "save it as PDF, Word, HTML or text, and add that",
    "library_missing": "save it as PDF, Word, HTML or text, and add that",
    "too_large": "add it in parts",
    "prompt_too_long": f"choose Fast, or {_MODEL}",
    "model_missing": _MODEL,
    "model_corrupt": _MODEL,
    "no_answer": _MODEL,
    "server_failed": f"ask again, or {_MODEL}",
    "out_of_memory": f"close other programs, or {_MODEL}",
    "disk_full": "delete what you do not need from the disk, and ask again",
}


def plain(text: str) -> str:
    """Return a sentence of the program as one line without names of classes and options, of which it keeps the words, and
    without the command that installs OCR."""
    return one_line(_OPTION.sub("", _ASIDE.sub("", _OCR.sub(_ocr, text))))


def _ocr(found: re.Match[str]) -> str:
    return "fbrag runs without OCR here" if found[1] else "who runs fbrag on this machine can install OCR (docs/install.md)"


def error(failure: FbragError) -> FbragError:
    """Return the same error in words for a page."""
    hint = failure.hint if _OCR.match(failure.hint or "") else _HINTS.get(failure.code, failure.hint)
    return FbragError(failure.code, plain(failure.message), hint and plain(hint))
