"""Read what lies on a page of a PDF next to its text: values of form fields, text boxes of viewers, and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from time import process_time
from typing import TYPE_CHECKING, Any

from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.document import comment

if TYPE_CHECKING:
    from pypdf import PageObject

_MAX_ANNOTATIONS = 5_000  # of a page
_MAX_SIGNATURES = 50  # of a page
_SIGNATURE_SECONDS = 2.0  # of processor time, for those of a page: a form of a thousand bytes can draw forms for hours
_MAX_PARENTS = 20
_MAX_SIGNATURE = 2_000  # characters
_DAY = re.compile(r"D:(\d{4})(\d\d)(\d\d)")
_MAX_CHARACTERS = 100_000  # of one value or comment
_MAX_TEXT = 300_000  # characters of all of a page: thousands of fields may show the same value
_UNSEEN = 0b100010  # annotation flags: hidden, no view
_PASSWORD, _PUSH_BUTTON = 1 << 13, 1 << 16  # field flags
_TICKED = {"yes", "on", "true", "1", "checked", "ja", "oui"}  # names of the state of a check box that say no more than that
_COMMENTS = frozenset(
    "/Text /Highlight /Underline /Squiggly /StrikeOut /Square /Circle /Line /Ink /Polygon /PolyLine /Caret /Stamp"
    " /FileAttachment".split()
)


@dataclass(frozen=True, slots=True)
class Annotations:
    """What lies on a page.

    lines: values of its form as "label: value", signatures, and text boxes. comments: a line each. files: names of the files that
    are attached to a place.
    """

    lines: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class _TooLongError(BaseException):
    """The signatures of a page take too long. Not an Exception: pypdf would log it and continue with the next form."""


def read_annotations(page: PageObject, number: int) -> Annotations:
    """Return the annotations of a page. number: number of the page. What is damaged, or beyond the limits, is left out."""
    until = process_time() + _SIGNATURE_SECONDS
    n_signatures = 0
    lines: dict[str, None] = {}  # a field may lie at several places of the page
    comments: list[str] = []
    files: list[str] = []
    left = _MAX_TEXT
    for annotation in islice(_annotations(page), _MAX_ANNOTATIONS):
        described: list[str] = []
        with suppress(Exception):  # pypdf raises all kinds of exceptions on damaged objects
            if int(annotation.get("/F", 0)) & _UNSEEN:
                continue
            kind = annotation.get("/Subtype")
            if kind == "/Widget" and _inherited(annotation, "/FT") == "/Sig":
                n_signatures += 1
                described = [_signature(page, annotation, until)] if n_signatures <= _MAX_SIGNATURES else []
            elif kind == "/Widget":
                described = list(_field(annotation))
            elif kind == "/FreeText":
                described = _text(annotation.get("/Contents")).splitlines()
            elif kind in _COMMENTS and (text := " ".join(_text(annotation.get("/Contents")).split())):
                author = " ".join(_text(annotation.get("/T")).split())
                comments.append(comment(author, f"page {number}", text))
                left -= len(text)
            if kind == "/FileAttachment":
                files.append(file_name(annotation["/FS"]))
        lines.update(dict.fromkeys(described))
        left -= sum(map(len, described))
        if left < 0:
            break
    return Annotations(tuple(line for line in lines if line.strip()), tuple(comments), tuple(files))


def file_name(specification: Any) -> str:
    """Return the name of an embedded file by its file specification."""
    return next((name for key in ("/UF", "/F", "/Desc") if (name := " ".join(_text(specification.get(key)).split()))), "a file")


def _annotations(page: PageObject) -> Iterator[Any]:
    with suppress(Exception):
        for annotation in page.get("/Annots") or ():
            with suppress(Exception):
                yield annotation.get_object()


def _field(widget: Any) -> Iterator[str]:
    """Yield the value of a form field in lines, the first with its label; nothing for an empty field, a button or a password."""
    kind, flags = _inherited(widget, "/FT"), _inherited(widget, "/Ff")
    flags = int(flags) if isinstance(flags, int) else 0
    if kind == "/Btn":
        value = "" if flags & _PUSH_BUTTON else _state(widget)
    elif kind in ("/Tx", "/Ch") and not flags & _PASSWORD:
        value = _chosen(widget) if kind == "/Ch" else _text(_inherited(widget, "/V"))
    else:
        value = ""
    if value := value.strip():
        label = " ".join((_text(_inherited(widget, "/TU")) or _text(_inherited(widget, "/T"))).split())
        first, *others = value.splitlines()
        yield f"{label}: {first}" if label else first
        yield from others


def _signature(page: PageObject, widget: Any, until: float) -> str:
    """Return the text that a signature shows, or else who signed and when; "" if nobody has signed.

    until: processor time of this process at which to stop.
    """

    def check(*_: object) -> None:
        if process_time() > until:
            raise _TooLongError

    signature = _inherited(widget, "/V")
    if not isinstance(signature, dict):
        return ""
    shown = ""
    with suppress(Exception, _TooLongError):
        check()
        shown = " ".join(page.extract_xform_text(widget["/AP"]["/N"], visitor_operand_before=check).split())
    if not shown and (name := _text(signature.get("/Name")).strip()):
        day = _DAY.match(_text(signature.get("/M")))
        shown = f"signed by {name}" + (f" on {'-'.join(day.groups())}" if day else "")
    return f"Signature: {without_surrogates(shown[:_MAX_SIGNATURE])}" if shown else ""


def _state(widget: Any) -> str:
    """Return the state of a check box, or that of a radio button that is pressed; "" otherwise."""
    state = str(widget.get("/AS") or _inherited(widget, "/V") or "").removeprefix("/")
    if state in ("", "Off"):
        return ""
    return "checked" if state.lower() in _TICKED else state


def _chosen(widget: Any) -> str:
    """Return the chosen words of a list, as it shows them."""
    values = _inherited(widget, "/V")
    values = values if isinstance(values, list) else [values]
    pairs = [each for each in _inherited(widget, "/Opt") or () if isinstance(each, list) and len(each) == 2]
    shown = {_text(value): _text(words) for value, words in pairs}
    return ", ".join(shown.get(word, word) for word in map(_text, values) if word)


def _inherited(widget: Any, key: str) -> Any:
    """Return a field's entry, its own or that of a field it belongs to; None without one."""
    for _ in range(_MAX_PARENTS):  # a limit, for parents may form a circle
        if key in widget:
            return widget[key]
        if "/Parent" not in widget:
            return None
        widget = widget["/Parent"]
    return None


def _text(value: Any) -> str:
    """Return a string or a stream of text; "" for anything else."""
    from pypdf.generic import StreamObject

    if isinstance(value, StreamObject):
        value = value.get_data()
    if isinstance(value, bytes):
        value = value.decode("utf-16" if value[:2] in (b"\xfe\xff", b"\xff\xfe") else "utf-8", "replace")
    return without_surrogates(value[:_MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n")) if isinstance(value, str) else ""
