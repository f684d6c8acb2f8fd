"""What the names of files and folders say of their texts: a label above passages, and words that count as words of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import NamedTuple
from unicodedata import normalize

import regex

from fbrag_cli.text.printable import one_line

_LONGEST = 100  # characters of a label
# A date in full ("2025-12-31", "20251231"), a month ("2025-12") or a year; then words of letters, "OrlaFinch" being two.
_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>0[1-9]|[12]\d|3[01])"
_PART = regex.compile(
    rf"(?<!\d){_YEAR}(?:[-_. ]?{_MONTH}[-_. ]?{_DAY}(?!\d)|[-_. ]{_MONTH}(?!\d)|(?!\d))"
    r"|(?P<word>[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー]{2,}|"
    r"\p{Lu}[\p{Ll}\p{Lo}\p{M}]{2,}|[\p{Ll}\p{Lo}\p{M}]{4,}|[\p{Lu}\p{M}]{4,})"
)
_RANDOM = regex.compile(r"(?=[\p{L}-]*\d)(?=[\d-]*\p{L})[0-9A-Fa-f-]{16,}")  # a hash, or a UUID


class Name(NamedTuple):
    """label: the file's name as it is shown to models, with the folders that the files do not share. words: see `names_of`."""

    label: str
    words: tuple[str, ...]


def names_of(paths: Sequence[str]) -> list[Name]:
    """Return what the names of files say, and those of the folders that the files do not share. A file alone has no label.

    words: those of four letters or more, or of three with a capital; years, months as "--12", and days as "--12-31"; each once.
    A word that half of the names have, of files or of folders, says nothing.
    """
    parts = [PurePath(path).parts for path in paths]
    levels = zip(*(each[:-1] for each in parts), strict=False)
    n_shared = sum(1 for _ in takewhile(lambda level: len({*level}) == 1, levels))
    stems = [_words(PurePath(path).stem) for path in paths]
    folders = {name: _words(name) for each in parts for name in each[n_shared:-1]}
    in_files, in_folders = (Counter(word for own in words for word in own) for words in (stems, folders.values()))
    names = []
    for path_parts, stem in zip(parts, stems, strict=True):
        above = {
            word: None
            for name in path_parts[n_shared:-1]
            for word in folders[name]
            if in_folders[word] < max(2, len(folders) / 2)
        }
        own = {word: None for word in stem if in_files[word] < max(2, len(paths) / 2)}
        label = one_line("/".join(path_parts[n_shared:]), _LONGEST) if len(paths) > 1 else ""
        names.append(Name(label, (*(above | own),)))
    return names


def _words(stem: str) -> dict[str, None]:
    """Return the words of a file's name, each once, in order."""
    words: dict[str, None] = {}
    for part in _PART.finditer(_RANDOM.sub(" ", normalize("NFC", stem))):
        if part["word"]:
            words[part["word"].casefold()] = None
        else:
            month, day = (part["month"] and f"--{part['month']}"), (part["day"] and f"--{part['month']}-{part['day']}")
            words |= dict.fromkeys(filter(None, (part["year"], month, day)))
    return words
