"""The .gitignore files and .git/info/exclude that apply in a folder."""

from __future__ import annotations

import os
import stat
from pathlib import PurePath
from typing import NamedTuple

from fbrag_cli.indexing.patterns import Patterns, parse

_MAX_IGNORE_BYTES = 100_000  # a larger .gitignore is not written by people


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
