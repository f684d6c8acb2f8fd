"""Untrusted text made safe to print: nothing that comes from a document or a model reaches a terminal as a command."""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, line and paragraph separators, and the marks that reorder or hide text:
# bidirectional embeddings, overrides and isolates, zero-width characters but the joiners that scripts need.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    """`text` with every control character as a visible substitute of one character, so that offsets into it still hold."""
    return _UNSAFE.sub(lambda found: _visible(found.group()), text)


def one_line(text: str, width: int | None = None) -> str:
    """`text` on one line: white space collapsed, made printable, cut to `width` characters with an ellipsis."""
    line = printable(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: ESC is ␛
    return "\u2421" if code == 0x7F else "\ufffd"
