"""Patterns of git, in .gitignore, .git/info/exclude and options: whether they match one entry of a folder."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from fbrag_cli.storage.files import open_plain

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_MAX_IGNORE_BYTES = 100_000  # a larger .gitignore is not written by people

# In pathspec's expressions, a wildcard with what follows it, up to the next of its kind: "*" in a name, and "**" for folders.
_FOLDERS = r"\(\?:/\.\+\)\?/"
_IN_NAME = re.compile(rf"\[\^/\]([*+])((?:(?!{_FOLDERS}).)*?)(?=\[\^/\][*+])")
_IN_PATH = re.compile(rf"(?:(\^)\(\?:\.\+/\)\?|{_FOLDERS})(.*?)(?={_FOLDERS})")


class Patterns:
    """The patterns of one .gitignore or option. Paths are relative to its folder, with "/". The last match decides."""

    def __init__(self, patterns: Sequence[GitIgnoreSpecPattern]) -> None:
        self._patterns = [(_compiled(each.regex.pattern), each.include) for each in reversed(patterns) if each.regex]

    def match(self, path: str, is_folder: bool) -> bool | None:
        """Return whether the patterns match the entry at `path`; the folders above it do not count. False: the last pattern that
        matches begins with "!". None: none matches."""
        for regex, include in self._patterns:
            # Its only group is the "/" after a folder: a match that ends before the path does is then one of a folder above.
            entry = f"{path}/" if is_folder and regex.groups else path
            if any(not regex.groups or found.end() == len(entry) for found in regex.finditer(entry)):
                return include
        return None


def _compiled(expression: str) -> re.Pattern[str]:
    """Return an expression of pathspec in which each wildcard but the last takes the first match of what follows it.

    That is as good as any other: the next wildcard takes up the rest. With all of them, `*a*a*a*a*b` would take hours.
    """
    expression = _IN_NAME.sub(r"(?>[^/]\1?\2)", expression)
    expression = _IN_PATH.sub(lambda part: f"{'^(?>(?:.+?/)??' if part[1] else '(?>(?:/.+?)??/'}{part[2]}(?=/))", expression)
    return re.compile(expression.replace("[^", "[^/"))  # for git, "[!a]" does not match a "/"


def parse(lines: Iterable[str]) -> tuple[Patterns | None, tuple[str, ...]]:
    """Return the patterns in `lines` (None if there are none), and the lines that are no pattern: comments, blank or invalid
    ones."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    patterns: list[GitIgnoreSpecPattern] = []
    others: list[str] = []
    for line in lines:
        try:
            # For git, "a/**/" matches the folders in a; pathspec would match its files too.
            pattern = GitIgnoreSpecPattern(re.sub(r"/\*\*/\s*$", "/*/", line.removesuffix("\r")))
        except (ValueError, re.error):
            others.append(line)
            continue
        if pattern.include is None:
            others.append(line)
        else:
            patterns.append(pattern)
    return (Patterns(patterns) if patterns else None), tuple(others)


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


def left_out(folder: Path, path: Path) -> str:
    """Return why a walk of `folder` leaves out the entry at `path` below it: "hidden" or "git-ignored"; "" if it takes it."""
    real = os.path.join(folder, "")
    rules = rules_above(real, [])
    for name in path.relative_to(folder).parts:
        if name.startswith("."):
            return "hidden"
        rules = own_rules(real, {each for each in (".git", ".gitignore") if os.path.lexists(real + each)}, rules, [])
        if is_ignored(rules, name, os.path.isdir(real + name)):
            return "git-ignored"
        rules = rules and tuple(each.below(name) for each in rules)
        real = os.path.join(real, name, "")
    return ""


def is_ignored(rules: tuple[Rules, ...] | None, name: str, is_folder: bool) -> bool:
    """Return whether the rules of a folder leave out an entry of it. The last rules that match decide."""
    verdicts = (patterns.match(relative + name, is_folder) for patterns, relative in reversed(rules or ()))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _read(path: str, warnings: list[str]) -> list[Rules]:
    """Return the patterns in a file; none, as for git, if it is a link or no regular file."""
    try:
        with os.fdopen(open_plain(Path(path)), "rb") as file:
            data = file.read(_MAX_IGNORE_BYTES + 1)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL):
            warnings.append(f"{path} is not used: {os_reason(error)}")
        return []
    if len(data) > _MAX_IGNORE_BYTES:
        warnings.append(f"{path} is not used: it has more than {_MAX_IGNORE_BYTES // 1000} kB")
        return []
    patterns, _ = parse(os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n"))
    return [Rules(patterns, "")] if patterns else []


def os_reason(error: OSError) -> str:
    """Return the system's reason in lower case, as "permission denied"."""
    return (error.strerror or type(error).__name__).lower()
