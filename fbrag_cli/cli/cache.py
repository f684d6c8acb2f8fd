"""`fbrag cache`: print the folder and the size of the cache, and clear it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import typer

from fbrag_cli.cli.config_keys import configured
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.help import Command, Group
from fbrag_cli.cli.options import option
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.places import cache_dir, is_nowhere
from fbrag_cli.text.near import suggestion
from fbrag_cli.text.printable import byte_size, dumps, printable
from fbrag_cli.text.table import aligned

HELP = """The cache of texts, indexes and samples that makes the next question quick. It may be deleted at any time.

\b
Examples:
  fbrag cache size
  fbrag cache clear --older-than 30d
"""

cache_app = typer.Typer(cls=Group, help=HELP, no_args_is_help=True, rich_markup_mode=None)

# Kinds that can be named even when the cache has no entry of them.
_KINDS = ("corpora", "documents", "embeddings", "listings", "pace", "samples")
_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_ELSEWHERE = "set FBRAG_CACHE_DIR to another folder"


@dataclass(frozen=True, slots=True)
class SizeOptions:
    json: bool = option(False, "--json", help="one JSON object", group="Output", envvar=None)


@dataclass(frozen=True, slots=True)
class ClearOptions:
    older_than: str | None = option(
        None,
        "--older-than",
        help="only entries not used for so long: 30d, 12h, 2w (all)",
        group="Clear",
        metavar="AGE",
        envvar=None,
    )
    kind: str | None = option(
        None,
        "--kind",
        help="only entries of this kind, as 'fbrag cache size' lists it (all)",
        group="Clear",
        metavar="KIND",
        envvar=None,
        autocompletion=lambda: list(_KINDS),
    )


@cache_app.command("dir", cls=Command)
@takes()
def dir_(console: Console) -> None:
    """Print the folder of the cache, which may not exist yet. FBRAG_CACHE_DIR changes it.

    \b
    Examples:
      du -sh "$(fbrag cache dir)"
    """
    if is_nowhere(folder := cache_dir()):
        raise FbragError("config", "this user has no home, and so no folder for the cache", _ELSEWHERE)
    print(printable(str(folder)))


@cache_app.command(cls=Command)
@takes(SizeOptions)
def size(console: Console, options: SizeOptions) -> None:
    """Print the entries and bytes of each kind. Beyond the limit the least recently used entries are deleted.

    \b
    Examples:
      fbrag cache size
      fbrag cache size --json | jq .bytes
    """
    cache = _cache(console)
    sizes = cache.size()
    entries, total = (sum(column) for column in zip((0, 0), *sizes.values(), strict=True))
    if options.json:
        kinds = [{"kind": kind, "entries": count, "bytes": bytes_} for kind, (count, bytes_) in sizes.items()]
        record = {"path": str(cache.root), "kinds": kinds, "entries": entries, "bytes": total, "limit": cache.limit}
        print(dumps({"schema": "fbrag.cache/1", **record}))
        return
    rows = [("KIND", "ENTRIES", "SIZE"), *((kind, str(count), byte_size(bytes_)) for kind, (count, bytes_) in sizes.items())]
    rows.append(("total", str(entries), f"{byte_size(total)} of {byte_size(cache.limit)}"))
    for line in aligned(rows):
        print(line)


@cache_app.command(cls=Command)
@takes(ClearOptions)
def clear(console: Console, options: ClearOptions) -> int:
    """Delete cached entries; print the bytes freed. Asks on a terminal; 1 if the answer is no.

    \b
    Examples:
      fbrag cache clear
      fbrag cache clear -y --older-than 30d
      fbrag cache clear --kind corpora
    """
    age = _seconds(options.older_than)
    cache = _cache(console)
    kind = _known_kind(options.kind, cache)
    sizes = [entry.bytes for entry in cache.entries(kind, age)]
    entries = f"{len(sizes)} {'entry' if len(sizes) == 1 else 'entries'} ({byte_size(sum(sizes))})"
    if sizes and not console.confirms(f"delete {entries} of {cache.root}"):
        console.note("nothing is deleted")
        return ExitCode.NEGATIVE
    try:
        print(cache.clear(kind, age))
    except OSError as error:
        what = f"{error.filename or cache.root} cannot be deleted: {error.strerror}"
        raise FbragError("output", what, "check the permissions, and that no fbrag is running") from None
    return ExitCode.DONE


def _cache(console: Console) -> Cache:
    """Return the user's cache. Raises FbragError `config` for a folder that is not fbrag's, or cannot be read."""
    cache = Cache(cache_dir(), int(float(configured(console, "cache_limit")[0]) * 1e9))
    try:
        cache.check_ours()
    except OSError as error:
        raise FbragError("config", f"{cache.root} is not used as a cache: {error.strerror}", _ELSEWHERE) from None
    return cache


def _known_kind(kind: str | None, cache: Cache) -> str | None:
    known = {*_KINDS, *cache.size()}
    if kind in {None, *known}:
        return kind
    hint = suggestion(str(kind), known, f"one of {', '.join(sorted(known))}")
    raise FbragError("usage", f"there is no kind {kind} in the cache", hint)


def _seconds(age: str | None) -> float | None:
    """Return the seconds of an age such as "30d"."""
    if age is None:
        return None
    if found := re.fullmatch(r"([0-9]{1,9})([mhdw])", age):
        return int(found[1]) * _UNIT_SECONDS[found[2]]
    raise FbragError("usage", f"--older-than {age} is no time", "a number and m, h, d or w: minutes, hours, days, weeks, as 30d")
