"""Find the files that the user means: named files, and of a folder those of a known type that git does not ignore.

--include and --exclude take patterns as in a .gitignore.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.formats import KNOWN_SUFFIXES
from fbrag_cli.documents.source import Signature, stat_file
from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import on_disk
from fbrag_cli.text.printable import cut_middle

if TYPE_CHECKING:
    from gitmatch import Regex


_DIGITS = re.compile("([0-9]+)")
_MAX_IGNORE_BYTES = 100_000  # a larger .gitignore is not written by people
# How gitmatch writes "*" and "**/". If it wrote them in another way, patterns would match the same, but more slowly.
_STAR = r"[^/\0]*"
_ANYWHERE = r"(?:[^/\0]+/)*"
# Patterns in one expression. The time of a match grows with the square of their number.
_JOINED = 50
_ROOTED_ANYWHERE = re.compile(r"^(!?)/(?=\*\*(/|[ \t]*$))")  # "/**/x" is "**/x", which gitmatch 0.3 does not know
_MOST_OF_A_PATH = 200  # characters in a warning: what is too deep to be read has thousands


class FoundFile(NamedTuple):
    """A file to read. path: as the user can give it. signature: before it is read; stdin ("-") counts as changed just now."""

    path: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that were found, in the order of the given paths. Those of a folder are sorted by path, chapter2 before
    chapter10.

    warnings: one line for each folder or .gitignore that could not be read."""

    files: tuple[FoundFile, ...]
    warnings: tuple[str, ...] = ()


def find_files(
    paths: Iterable[str], include: Sequence[str] = (), exclude: Sequence[str] = (), cancellation: Cancellation | None = None
) -> FoundFiles:
    """Return the files that `paths` name, each once. A named file is taken whatever its suffix; "-" means stdin.

    From a folder, at any depth, come the files that have a known suffix (or match a pattern in `include`), are not empty, and are
    not left out by `exclude` or, within a git repository, by .gitignore and .git/info/exclude. Hidden files and folders, links
    that lead out of the folder, pipes, sockets and devices are skipped. include, exclude: patterns as in a .gitignore of the
    folder. Paths and patterns may be composed (NFC) where the names on the disk are not, and the reverse.

    Raises FbragError: as `stat_file` for a path that is no folder; doc_unreadable for a folder that cannot be read; doc_empty
    if the folders have no such file and no file is named; usage for an invalid pattern. Raises the error of a cancellation.
    """
    included, excluded = _option("--include", include), _option("--exclude", exclude)
    files: list[FoundFile] = []
    warnings: list[str] = []
    barren: list[FbragError] = []
    taken: set[str] = set()  # real paths
    for path in map(on_disk, paths):
        if path == "-":
            files.append(FoundFile(path, Signature(0, now := time.time_ns(), now, 0)))
        elif os.path.isdir(path):
            walk = _Walk(path, included, excluded, taken, cancellation or Cancellation())
            found = walk.run()
            files += found
            warnings += walk.warnings
            if not found and not walk.n_known:
                barren.append(walk.nothing_found())
        else:
            signature = stat_file(path)
            if (real := os.path.realpath(path)) not in taken:
                taken.add(real)
                files.append(FoundFile(path, signature))
    if barren and not files:
        raise barren[0]
    return FoundFiles(tuple(files), (*warnings, *(error.message for error in barren)))


def _option(name: str, globs: Sequence[str]) -> Patterns | None:
    if not globs:
        return None
    patterns, mistaken = parse(normalize("NFC", glob) for glob in globs)
    for glob in (*mistaken, *(glob for glob in globs if not glob.strip() or glob.startswith("#"))):
        raise FbragError("usage", f"{name} {shlex.quote(glob)}: not a pattern", f"use one as in .gitignore files: {name} '*.txt'")
    return patterns


# -- the walk through a folder -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder on the walk. path: path as the user can give it; real: path without links; both end with a separator. relative:
    path from the folder that the user named, in NFC; "" or with a "/" at its end. rules: the weakest first; None outside a
    repository. included: whether --include names it or a folder above it."""

    path: str
    real: str
    relative: str
    rules: tuple[Rules, ...] | None
    included: bool = False


@dataclass
class _Walk:
    """One walk through the folder `root`.

    include, exclude: the patterns of the options, None without them. taken: real paths of the files found so far, on earlier
    walks too. cancellation: can stop it. skipped: number of entries by reason. suffixes: number of files of other types by
    suffix.
    """

    root: str
    include: Patterns | None
    exclude: Patterns | None
    taken: set[str]
    cancellation: Cancellation = field(default_factory=Cancellation)
    warnings: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    suffixes: Counter[str] = field(default_factory=Counter)
    n_known: int = 0  # files found here, also those in `taken` before

    def run(self) -> list[FoundFile]:
        """Return the files in natural order of their paths. Raises FbragError doc_unreadable if the root cannot be read, and the
        error of a cancellation."""
        self._found: list[FoundFile] = []
        self._links: list[tuple[_Folder, str]] = []
        self._visited: set[str] = set()
        real = _with_separator(os.path.realpath(self.root))
        self._real_root = real
        self._look_into(_Folder(_with_separator(self.root), real, "", rules_above(real, self.warnings)))
        while self._links:  # last: most links lead to files that are found without them
            links, self._links = sorted(self._links, key=lambda link: _natural(link[0].path + link[1])), []
            for folder, name in links:
                self._follow(folder, name)
        return sorted(self._found, key=lambda found: _natural(found.path))

    def nothing_found(self) -> FbragError:
        """Return the error for a folder without files: how many were skipped and why."""
        reasons = [f"{-count} {reason}" for count, reason in sorted((-count, reason) for reason, count in self.skipped.items())]
        what = f"{self.root} has no file to read" + (f": {', '.join(reasons)}" if reasons else ", it is empty")
        if self.suffixes and not self.include:
            suffix = max(sorted(self.suffixes), key=self.suffixes.__getitem__)
            hint = f"choose by name: --include {shlex.quote('*' + suffix)}"
        elif self.suffixes:
            hint = "patterns are relative to the folder, as in its .gitignore: --include '*.txt'"
        else:
            hint = "name the files themselves: they are read whatever their type" if reasons else "name another folder"
        return FbragError("doc_empty", what, hint, document=self.root)

    def _look_into(self, folder: _Folder) -> None:
        pending = [folder]
        while pending:
            folder = pending.pop()
            if folder.real in self._visited:
                continue
            self._visited.add(folder.real)
            try:
                with os.scandir(folder.path) as listing:
                    entries = list(listing)
            except OSError as error:
                self._unreadable(folder, error)
                continue
            names = {entry.name for entry in entries if entry.name.startswith(".git")}
            folder = replace(folder, rules=own_rules(folder.path, names, folder.rules, self.warnings))
            try:
                for entry in entries:
                    self.cancellation.raise_if_requested()
                    with suppress(FileNotFoundError):  # gone in the meantime
                        if below := self._take(folder, entry):
                            pending.append(below)
            except OSError as error:  # it may be listed, but not entered
                self._unreadable(folder, error)

    def _take(self, folder: _Folder, entry: os.DirEntry[str]) -> _Folder | None:
        """Note the entry if it is a file to take. Return it if it is a folder to look into."""
        name = entry.name
        if name[0] == ".":
            self.skipped["hidden"] += 1
        elif entry.is_dir(follow_symlinks=False):
            real = folder.real + name
            if os.name != "nt" or os.path.realpath(real) == real:
                return self._below(folder, name, real + os.sep)
            self._links.append((folder, name))  # a junction
        elif entry.is_file(follow_symlinks=False):
            if self._is_wanted(folder, name):
                status = entry.stat(follow_symlinks=False)
                self._note(folder.path + name, folder.real + name, status if status.st_ino else os.stat(entry.path))
        elif entry.is_symlink():
            self._links.append((folder, name))
        else:
            self.skipped["pipes, sockets or devices"] += 1
        return None

    def _follow(self, folder: _Folder, name: str) -> None:
        path = folder.path + name
        try:
            real = os.path.realpath(path)
            status = os.stat(path)
        except OSError:  # it leads nowhere, or in a circle
            self.skipped["broken links"] += 1
            return
        if not _with_separator(real).startswith(self._real_root):
            self.skipped["links that lead out of it"] += 1
        elif stat.S_ISDIR(status.st_mode):
            if below := self._below(folder, name, real + os.sep):
                self._look_into(below)
        elif stat.S_ISREG(status.st_mode) and self._is_wanted(folder, name):
            self._note(path, real, status)

    def _below(self, folder: _Folder, name: str, real: str) -> _Folder | None:
        included = folder.included
        if self.include:
            verdict = self.include.match(folder.relative, normalize("NFC", name), True)
            included = included if verdict is None else verdict
        if self._is_left_out(folder, name, True):
            return None
        rules = folder.rules and tuple(each.below(name) for each in folder.rules)
        return _Folder(folder.path + name + os.sep, real, normalize("NFC", f"{folder.relative}{name}/"), rules, included)

    def _is_wanted(self, folder: _Folder, name: str) -> bool:
        suffix = os.path.splitext(name)[1].lower()
        if self.include:
            verdict = self.include.match(folder.relative, normalize("NFC", name), False)
            wanted = folder.included if verdict is None else verdict
        else:
            wanted = suffix in KNOWN_SUFFIXES
        if not wanted:
            self.skipped["that --include does not name" if self.include else "of other types"] += 1
            self.suffixes[suffix] += 1
            return False
        return not self._is_left_out(folder, name, False)

    def _is_left_out(self, folder: _Folder, name: str, is_folder: bool) -> bool:
        if self.exclude and self.exclude.match(folder.relative, normalize("NFC", name), is_folder):
            self.skipped["excluded"] += 1
            return True
        for patterns, relative in reversed(folder.rules or ()):
            if (verdict := patterns.match(relative, name, is_folder)) is not None:
                self.skipped["git-ignored"] += verdict
                return verdict
        return False

    def _note(self, path: str, real: str, status: os.stat_result) -> None:
        if not status.st_size:
            self.skipped["empty"] += 1
            return
        self.n_known += 1
        if real not in self.taken:
            self.taken.add(real)
            self._found.append(FoundFile(path, Signature.of(status)))

    def _unreadable(self, folder: _Folder, error: OSError) -> None:
        path = folder.path.rstrip(os.sep) or os.sep
        if not folder.relative:
            hint = f"ls -ld {shlex.quote(path)}"
            raise FbragError("doc_unreadable", f"{path} cannot be read: {os_reason(error)}", hint, document=self.root)
        self.warnings.append(f"the folder {cut_middle(path, _MOST_OF_A_PATH)} is left out: {os_reason(error)}")


def _with_separator(path: str) -> str:
    return path if path.endswith(os.sep) else path + os.sep


def _natural(path: str) -> tuple[list[str | int], str]:
    """Return the sort key of a path: folder by folder, numbers by their value."""
    parts: list[str | int] = [*_DIGITS.split(path.replace(os.sep, "\0").casefold())]
    parts[1::2] = [int(digits) for digits in parts[1::2]]
    return parts, path


# -- patterns of git, in .gitignore, .git/info/exclude and options -------------------------------------------------------------


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
