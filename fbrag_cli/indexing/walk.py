"""Find the files that the user means: named files, and of a folder those with text that git does not ignore.

--include and --exclude take patterns as in a .gitignore.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.formats import KNOWN_SUFFIXES, PICTURE_SUFFIXES
from fbrag_cli.documents.source import Signature, stat_file
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.ignore import Patterns, Rules, is_ignored, os_reason, own_rules, parse, rules_above
from fbrag_cli.storage.files import on_disk, open_regular
from fbrag_cli.text.printable import cut_middle, one_line, plural

_DIGITS = re.compile("([0-9]+)")
_MOST_OF_A_PATH = 200  # characters in a warning: what is too deep to be read has thousands
_HEAD = 4096  # bytes that tell whether a file without a suffix is text
_MOST_TYPES = 5  # in a warning
_NOT_INCLUDED = "that --include does not name"


class FoundFile(NamedTuple):
    """A file to read. path: as the user can give it. signature: before it is read; stdin ("-") counts as changed just now."""

    path: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that were found, in the order of the given paths. Those of a folder are sorted by path, chapter2 before
    chapter10.

    warnings: one line for each folder or .gitignore that could not be read, and one for all files that are of other types."""

    files: tuple[FoundFile, ...]
    warnings: tuple[str, ...] = ()


def find_files(
    paths: Iterable[str],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    pictures: bool = False,
    cancellation: Cancellation | None = None,
) -> FoundFiles:
    """Return the files that `paths` name, each once. A named file is taken whatever its suffix; "-" means stdin.

    From a folder, at any depth, come the files that have a known suffix, or none and text in UTF-8 (or that match a pattern in
    `include`), are not empty, and are not left out by `exclude` or, within a git repository, by .gitignore and
    .git/info/exclude. Hidden files and folders, links that lead out of the folder, pipes, sockets and devices are skipped.
    include, exclude: patterns as in a .gitignore of the folder. pictures: whether those of a folder are taken too. Paths and
    patterns may be composed (NFC) where the names on the disk are not, and the reverse.

    Raises FbragError: as `stat_file` for a path that is no folder; doc_unreadable for a folder that cannot be read; doc_empty
    if the folders have no such file and no file is named; usage for an invalid pattern. Raises the error of a cancellation.
    """
    included, excluded = _option("--include", include), _option("--exclude", exclude)
    files: list[FoundFile] = []
    warnings: list[str] = []
    barren: list[FbragError] = []
    others: dict[str, str] = {}
    taken: set[str] = set()  # real paths
    for path in map(on_disk, paths):
        if path == "-":
            files.append(FoundFile(path, Signature(0, now := time.time_ns(), now, 0)))
        elif os.path.isdir(path):
            known = KNOWN_SUFFIXES | PICTURE_SUFFIXES if pictures else KNOWN_SUFFIXES
            walk = _Walk(path, known, included, excluded, taken, cancellation or Cancellation())
            inside = walk.run()
            files += inside
            warnings += walk.warnings
            if inside or walk.n_known:
                others |= walk.others
            else:
                barren.append(walk.nothing_found())
        else:
            signature = stat_file(path)
            if (real := os.path.realpath(path)) not in taken:
                taken.add(real)
                files.append(FoundFile(path, signature))
    if barren and not files:
        raise barren[0]
    if unread := Counter(suffix for real, suffix in others.items() if real not in taken):
        n = f"{plural(unread.total(), 'file')} {'was' if unread.total() == 1 else 'were'}"
        warnings.append(f"{n} not read: {_counts(unread)} (--include '*' reads every type)")
    return FoundFiles(tuple(files), (*warnings, *(error.message for error in barren)))


def _made_readable(path: str) -> str | None:
    """Return what turns a file into text, if its format is known and not read."""
    from fbrag_cli.documents.source import Source
    from fbrag_cli.documents.unsupported_formats import refuse_known

    try:
        with open(path, "rb") as file:
            refuse_known(Source(path, os.path.basename(path), file.read(_HEAD)))
    except FbragError as error:
        return error.hint
    except OSError:
        pass
    return None


def _counts(counts: Counter[str]) -> str:
    """Return the largest of some counts, as "12 .png, 3 hidden and 4 others"."""
    first = sorted(counts, key=lambda each: (-counts[each], each))[:_MOST_TYPES]
    rest = counts.total() - sum(counts[each] for each in first)
    return ", ".join(f"{counts[each]:,} {one_line(each, 30)}" for each in first) + (
        f" and {plural(rest, 'other')}" if rest else ""
    )


def _option(name: str, globs: Sequence[str]) -> Patterns | None:
    if not globs:
        return None
    patterns, mistaken = parse(normalize("NFC", glob) for glob in globs)
    for glob in mistaken:
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

    known: suffixes of the files to take. include, exclude: the patterns of the options, None without them. taken: real paths of
    the files found so far, on earlier walks too. cancellation: can stop it. skipped: number of entries by the reason why they are
    not read. others: suffixes of the files that are of other types, by real path.
    """

    root: str
    known: frozenset[str]
    include: Patterns | None
    exclude: Patterns | None
    taken: set[str]
    cancellation: Cancellation = field(default_factory=Cancellation)
    warnings: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    others: dict[str, str] = field(default_factory=dict)
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
        others = Counter(self.others.values())
        reasons = self.skipped + others
        message = (
            f"{self.root} has no file to read: {_counts(reasons)}" if reasons else f"the folder {self.root} contains no files"
        )
        if suffixes := [suffix for suffix in sorted(others) if suffix[0] == "."]:
            most = max(suffixes, key=others.__getitem__)
            example = next(path for path, suffix in self.others.items() if suffix == most)
            hint = _made_readable(example) or f"choose by name: --include {shlex.quote('*' + most)}"
        elif self.skipped[_NOT_INCLUDED]:
            hint = "patterns are relative to the folder, as in its .gitignore: --include '*.txt'"
        else:
            hint = "name the files themselves: they are read whatever their type" if reasons else "name another folder"
        return FbragError("doc_empty", message, hint, document=self.root)

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
            status = entry.stat(follow_symlinks=False)
            self._consider(folder, name, folder.real + name, status if status.st_ino else os.stat(entry.path))
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
        elif stat.S_ISREG(status.st_mode):
            self._consider(folder, name, real, status)

    def _below(self, folder: _Folder, name: str, real: str) -> _Folder | None:
        if self._is_left_out(folder, name, True):
            return None
        rules = folder.rules and tuple(each.below(name) for each in folder.rules)
        relative = normalize("NFC", f"{folder.relative}{name}/")
        return _Folder(folder.path + name + os.sep, real, relative, rules, self._is_included(folder, name, True))

    def _is_included(self, folder: _Folder, name: str, is_folder: bool) -> bool:
        verdict = self.include.match(folder.relative + normalize("NFC", name), is_folder) if self.include else None
        return folder.included if verdict is None else verdict

    def _is_left_out(self, folder: _Folder, name: str, is_folder: bool) -> bool:
        if self.exclude and self.exclude.match(folder.relative + normalize("NFC", name), is_folder):
            self.skipped["excluded"] += 1
            return True
        if is_ignored(folder.rules, name, is_folder):
            self.skipped["git-ignored"] += 1
            return True
        return False

    def _consider(self, folder: _Folder, name: str, real: str, status: os.stat_result) -> None:
        """Take the file `name`, or count it."""
        if self._is_left_out(folder, name, False):
            return
        suffix = _suffix(name)
        if not status.st_size:
            self.skipped["empty"] += 1
        elif self.include and not self._is_included(folder, name, False):
            self.skipped[_NOT_INCLUDED] += 1
        elif real not in self.taken and not self.include and suffix not in self.known and (suffix or not _is_text(real)):
            self.others[real] = suffix or "without a suffix"
        else:
            self.n_known += 1
            if real not in self.taken:
                self.taken.add(real)
                self._found.append(FoundFile(folder.path + name, Signature.of(status)))

    def _unreadable(self, folder: _Folder, error: OSError) -> None:
        path = folder.path.rstrip(os.sep) or os.sep
        if not folder.relative:
            hint = f"ls -ld {shlex.quote(path)}"
            raise FbragError("doc_unreadable", f"{path} cannot be read: {os_reason(error)}", hint, document=self.root)
        self.warnings.append(f"the folder {cut_middle(path, _MOST_OF_A_PATH)} is left out: {os_reason(error)}")


def _suffix(name: str) -> str:
    """Return the suffix of a file's name in lower case, as ".log" of "news.log.1": a number is none, nor is what has a space."""
    stem, suffix = os.path.splitext(name.lower())
    while suffix[1:].isdecimal():
        stem, suffix = os.path.splitext(stem)
    return "" if " " in suffix else suffix


def _is_text(path: str) -> bool:
    """Return whether a file begins with text in UTF-8."""
    try:
        with open_regular(Path(path)) as file:
            head = file.read(_HEAD)
        getincrementaldecoder("utf-8")().decode(head)  # its last character may be cut
    except (OSError, UnicodeDecodeError):
        return False
    return b"\0" not in head


def _with_separator(path: str) -> str:
    return path if path.endswith(os.sep) else path + os.sep


def _natural(path: str) -> tuple[list[str | int], str]:
    """Return the sort key of a path: folder by folder, numbers by their value."""
    parts: list[str | int] = [*_DIGITS.split(path.replace(os.sep, "\0").casefold())]
    parts[1::2] = [int(digits) for digits in parts[1::2]]
    return parts, path
