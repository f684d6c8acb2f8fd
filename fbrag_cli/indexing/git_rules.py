"""The .gitignore files and .git/info/exclude that apply in a folder. --include and --exclude take such patterns, too."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gitmatch import Regex

_MAX_IGNORE_BYTES = 100_000  # a larger .gitignore is not written by people

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


# -- files of patterns -------------------------------------------------------------------------------------------------------


class Rules(NamedTuple):
    """The patterns of one file. folder: the folder that is looked into, relative to the file's; "" or with a "/" at its end."""

    patterns: Patterns
    folder: str

    def below(self, name: str) -> Rules:
        """Return the same patterns for the folder `name` in this one."""
        return Rules(self.patterns, f"{self.folder}{name}/")


def rules_above(real: str, warnings: list[str]) -> tuple[Rules, ...] | None:
    """Return the rules of the repository that the folder `real` lies in, the weakest first, without those of the folder itself.

    None if it lies in no repository or is the root of one. warnings: gets a line for each file that cannot be read.
    """
    above = [real, *(str(parent) + os.sep for parent in PurePath(real).parents)]
    roots = (i for i, folder in enumerate(above) if os.path.lexists(os.path.join(folder, ".git")))
    if not (depth := next(roots, 0)):
        return None
    rules: list[Rules] = _read(os.path.join(above[depth], ".git", "info", "exclude"), warnings)
    for folder in reversed(above[1 : depth + 1]):
        rules += _read(os.path.join(folder, ".gitignore"), warnings)
        name = PurePath(above[above.index(folder) - 1]).name
        rules = [each.below(name) for each in rules]
    return tuple(rules)


def own_rules(folder: str, names: set[str], inherited: tuple[Rules, ...] | None, warnings: list[str]) -> tuple[Rules, ...] | None:
    """Return the rules in `folder`: those from above, then its own. names: its entries whose names begin with ".git"."""
    rules = inherited
    if ".git" in names:  # a repository begins here, perhaps within another
        rules = tuple(_read(os.path.join(folder, ".git", "info", "exclude"), warnings))
    if ".gitignore" in names and rules is not None:
        rules += tuple(_read(os.path.join(folder, ".gitignore"), warnings))
    return rules


def _read(path: str, warnings: list[str]) -> list[Rules]:
    """Return the patterns in a file; none, as for git, if it is a link or no regular file."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return []
        if status.st_size > _MAX_IGNORE_BYTES:
            warnings.append(f"{path} is not used: it has more than {_MAX_IGNORE_BYTES // 1000} kB")
            return []
        with open(path, "rb") as file:
            lines = os.fsdecode(file.read(_MAX_IGNORE_BYTES).removeprefix(b"\xef\xbb\xbf")).split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        warnings.append(f"{path} is not used: {os_reason(error)}")
        return []
    patterns, _ = parse(lines)
    return [Rules(patterns, "")] if patterns else []


def os_reason(error: OSError) -> str:
    """Return the system's reason in lower case, as "permission denied"."""
    return (error.strerror or type(error).__name__).lower()
