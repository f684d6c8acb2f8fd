"""Match paths with patterns as in .gitignore files, which --include and --exclude take too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitmatch import Regex

# How gitmatch writes "*" and "**/". If it wrote them in another way, patterns would match the same, but more slowly.
_STAR = r"[^/\0]*"
_ANYWHERE = r"(?:[^/\0]+/)*"

# Patterns in one expression. The time of a match grows with the square of their number.
_JOINED = 50

_ROOTED_ANYWHERE = re.compile(r"^(!?)/(?=\*\*(/|[ \t]*$))")  # "/**/x" is "**/x", which gitmatch 0.3 does not know


class Patterns:
    """The patterns of one .gitignore or option. Paths are relative to its folder, with "/". The last match decides."""

    def __init__(self, regexes: Sequence[Regex[str]]) -> None:
        self._negative = [regex.negative for regex in regexes]
        self._of_files = _combine([(i, regex) for i, regex in enumerate(regexes) if not regex.dir_only])
        self._of_folders = _combine(list(enumerate(regexes)))

    def match(self, folder: str, name: str, is_folder: bool) -> bool | None:
        """Return whether the patterns match the entry `name` of `folder` ("" or with a "/" at its end); folders above it do not
        count. False: the last pattern that matches begins with "!". None: none matches."""
        by_name, by_path = self._of_folders if is_folder else self._of_files
        last = max(_number(by_name, name), _number(by_path, folder + name))
        return None if last < 0 else not self._negative[last]


def parse(lines: Iterable[str]) -> tuple[Patterns | None, tuple[str, ...]]:
    """Return the patterns in `lines` (None if there are none), and the lines that are no valid pattern."""
    from gitmatch import InvalidPatternError, pattern2regex

    regexes, mistaken = [], []
    for line in lines:
        pattern = line.rstrip("\r\n")
        try:
            if regex := pattern2regex(_ROOTED_ANYWHERE.sub(r"\1", pattern)):
                regexes.append(regex)
        except InvalidPatternError:
            mistaken.append(pattern)
    return (Patterns(regexes) if regexes else None), tuple(mistaken)


_Pair = tuple[list[re.Pattern[str]], list[re.Pattern[str]]]


def _combine(regexes: Sequence[tuple[int, Regex[str]]]) -> _Pair:
    """Return the expressions for all patterns without a slash, which match names, and those for the others, which match paths."""
    by_name = [(i, regex.regex.replace(_ANYWHERE, "", 1)) for i, regex in regexes if "/" not in regex.pattern.rstrip("/")]
    by_path = [(i, regex.regex) for i, regex in regexes if "/" in regex.pattern.rstrip("/")]
    return _alternatives(by_name), _alternatives(by_path)


def _alternatives(expressions: Sequence[tuple[int, str]]) -> list[re.Pattern[str]]:
    """Join patterns as named alternatives, the last one first: the name of the group that matches is the one that decides."""
    named = [f"(?P<p{i}>{_without_choices(i, expression)})" for i, expression in reversed(expressions)]
    return [re.compile("|".join(named[start : start + _JOINED])) for start in range(0, len(named), _JOINED)]


def _without_choices(number: int, expression: str) -> str:
    """Return an expression that matches the same, where each wildcard but the last tries only its shortest match: the next
    wildcard can take the rest. Without this, `*a*a*a*a*b` takes hours for a name of many a."""
    head, *pieces = expression.split(_ANYWHERE)  # each but the last ends with a "/", which no star in it can pass
    pieces = [_shortest(f"s{number}_{i}", _STAR, piece.split(_STAR)) for i, piece in enumerate(pieces)]
    return _shortest(f"a{number}", _ANYWHERE, [_shortest(f"h{number}", _STAR, head.split(_STAR)), *pieces])


def _shortest(group: str, wildcard: str, parts: Sequence[str]) -> str:
    """Join `parts` with the wildcard, whose shortest match is taken but for the last."""
    expression, *others = parts
    for i, part in enumerate(others[:-1]):
        expression += f"(?=(?P<{group}_{i}>{wildcard}?{part}))(?P={group}_{i})"
    return expression + wildcard + others[-1] if others else expression


def _number(expressions: Sequence[re.Pattern[str]], text: str) -> int:
    for expression in expressions:
        if found := expression.fullmatch(text):
            assert found.lastgroup
            return int(found.lastgroup[1:])
    return -1
