"""Text for people: untrusted text without control characters that a terminal would obey, and sizes in bytes."""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, line and paragraph separators, and the marks that reorder or hide text:
# bidirectional embeddings, overrides and isolates, zero-width characters but the joiners that scripts need.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return `text` with a visible substitute for each control character: one for one, so that offsets stay valid."""
    return _UNSAFE.sub(lambda found: _visible(found.group()), text)


def one_line(text: str, width: int | None = None) -> str:
    """Return `text` as one printable line: white space collapsed, cut to `width` characters with an ellipsis."""
    line = printable(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def byte_size(count: float) -> str:
    """Return a number of bytes for people, as "1.1 GB", "98 MB" or "0 kB"."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: ESC is ␛
    return "\u2421" if code == 0x7F else "\ufffd"
