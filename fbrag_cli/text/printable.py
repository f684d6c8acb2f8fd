"""Text for people: untrusted text without control and invisible characters; JSON; counts and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

# C0 except tab and newline, DEL, C1, line and paragraph separators, the marks that reorder text (bidirectional embeddings,
# overrides and isolates), and Unicode's default-ignorable characters (zero-width characters, fillers, tags), except the soft
# hyphen and the joiners and vowel separators that scripts need.
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\u3164"
    r"\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# A variation selector changes the look of the character before it, which emoji and names need; a second one only hides data.
_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSAFE = re.compile(f"[{_HIDDEN}]|(?<=[{_SELECTORS}])[{_SELECTORS}]")


def printable(text: str) -> str:
    """Return `text` with one visible substitute for each control character, so that offsets stay valid."""
    return _UNSAFE.sub(lambda found: _visible(found.group()), text)


def one_line(text: str, width: int | None = None) -> str:
    """Return `text` as one printable line: white space collapsed, cut to `width` characters with an ellipsis."""
    line = printable(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def cut_middle(text: str, width: int) -> str:
    """Return `text`, or if it has more than `width` (3 or more) characters, its beginning and end with an ellipsis between."""
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"


def dumps(value: Any) -> str:
    """Return one line of JSON. Unicode is unescaped, except characters that `printable` would replace."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda found: json.dumps(found.group())[1:-1], text)


def plural(count: int, unit: str) -> str:
    """Return a count with its unit, such as "1 chunk" or "1,200 chunks"."""
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"


def counted_names(names: Collection[str], unit: str, most: int = 5) -> str:
    """Return a count with its unit and the first names, such as "7 attachments (a.pdf, b.pdf and 5 more)". most: number of
    names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{plural(len(names), unit)} ({', '.join(islice(names, most))}{more})"


def in_short(named: Iterable[tuple[str, str]], most: int = 12) -> list[str]:
    """Return warnings of many files, with their names, in at most `most` lines: each kind once, and how many files have it."""
    kinds: dict[str, list[str]] = {}  # without names, numbers and plurals
    for name, warning in named:
        kinds.setdefault(re.sub(r"\d[\d,]*(?: (\w+?)s?\b)?", r"# \1", warning.replace(name, "", 1)), []).append(warning)
    lines = [f"{first} (and {plural(len(more), 'more file')} alike)" if more else first for first, *more in kinds.values()]
    rest = len(lines) - most + 1
    return lines if rest <= 1 else [*lines[: most - 1], f"{rest} more kinds of warnings (--json lists all)"]


def minutes(seconds: float) -> str:
    """Return a duration in words, such as "8 min" or "2.5 h"."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"


def byte_size(count: float) -> str:
    """Return a number of bytes for people, such as "1.1 GB", "98 MB" or "0 kB"."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures: ESC is ␛
    return "\u2421" if code == 0x7F else "\ufffd"
