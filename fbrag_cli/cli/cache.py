"""`fbrag cache`: print the folder and the size of the cache, and clear it."""

from __future__ import annotations

from fbrag_cli.cli.command import Group
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import Options, configured
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.settings import knob
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.paths import cache_dir, is_nowhere
from fbrag_cli.text.printable import byte_size, dumps, printable, seconds_of
from fbrag_cli.text.suggest import suggestion
from fbrag_cli.text.table import align_columns

HELP = """The cache of texts, indexes and samples that makes the next question quick. It may be deleted at any time.

\b
Examples:
  fbrag cache size
  fbrag cache clear --older-than 30d
"""

cache = Group("cache", HELP)

# Kinds that can be named even when the cache has no entry of them.
_KINDS = ("corpora", "documents", "embeddings", "listings", "pace", "samples")
_ELSEWHERE = "set FBRAG_CACHE_DIR to another folder"


class SizeOptions(Options):
    group = "Output"

    json: bool = knob(False, "one JSON object", variables=())


class ClearOptions(Options):
    group = "Clear"

    older_than: str | None = knob(None, "only entries not used for so long: 30d, 12h, 2w (all)", variables=(), metavar="AGE")
    kind: str | None = knob(
        None,
        "only entries of this kind, as 'fbrag cache size' lists it (all)",
        variables=(),
        metavar="KIND",
        autocompletion=lambda: list(_KINDS),
    )


@cache.command()
def dir_(console: Console) -> None:
    """Print the folder of the cache, which may not exist yet. FBRAG_CACHE_DIR changes it.

    \b
    Examples:
      du -sh "$(fbrag cache dir)"
    """
    if is_nowhere(folder := cache_dir()):
        raise FbragError("config", "this user has no home, and so no folder for the cache", _ELSEWHERE)
    print(printable(str(folder)))


@cache.command(SizeOptions)
def size(console: Console, options: SizeOptions) -> None:
    """Print the entries and bytes of each kind. Beyond the limit the least recently used entries are deleted.

    \b
    Examples:
      fbrag cache size
      fbrag cache size --json | jq .bytes
    """
    opened = _cache(console)
    sizes = opened.size()
    entries, total = (sum(column) for column in zip((0, 0), *sizes.values(), strict=True))
    if options.json:
        kinds = [{"kind": kind, "entries": count, "bytes": bytes_} for kind, (count, bytes_) in sizes.items()]
        record = {"path": str(opened.root), "kinds": kinds, "entries": entries, "bytes": total, "limit": opened.limit}
        print(dumps({"schema": "fbrag.cache/1", **record}))
        return
    rows = [("KIND", "ENTRIES", "SIZE"), *((kind, str(count), byte_size(bytes_)) for kind, (count, bytes_) in sizes.items())]
    rows.append(("total", str(entries), f"{byte_size(total)} of {byte_size(opened.limit)}"))
    print(*align_columns(rows), sep="\n")


@cache.command(ClearOptions)
def clear(console: Console, options: ClearOptions) -> int:
    """Delete cached entries; print the bytes freed. Asks on a terminal; 1 if the answer is no.

    \b
    Examples:
      fbrag cache clear
      fbrag cache clear -y --older-than 30d
      fbrag cache clear --kind corpora
    """
    age = seconds_of(options.older_than, "mhdw") if options.older_than is not None else None
    if age is None and options.older_than is not None:
        hint = "a number and m, h, d or w: minutes, hours, days, weeks, as 30d"
        raise FbragError("usage", f"--older-than {options.older_than} is no time", hint)
    opened, kind = _cache(console), options.kind
    if kind is not None and kind not in (known := {*_KINDS, *opened.size()}):
        hint = suggestion(kind, known, f"one of {', '.join(sorted(known))}")
        raise FbragError("usage", f"there is no kind {kind} in the cache", hint)
    sizes = [entry.bytes for entry in opened.entries(kind, age)]
    entries = f"{len(sizes)} {'entry' if len(sizes) == 1 else 'entries'} ({byte_size(sum(sizes))})"
    if sizes and not console.confirms(f"delete {entries} of {opened.root}"):
        console.info("nothing is deleted")
        return ExitCode.NEGATIVE
    try:
        print(opened.clear(kind, age))
    except OSError as error:
        what = f"{error.filename or opened.root} cannot be deleted: {error.strerror}"
        raise FbragError("output", what, "check the permissions, and that no fbrag is running") from None
    return ExitCode.DONE


def _cache(console: Console) -> Cache:
    """Return the user's cache. Raises FbragError `config` for a folder that is not fbrag's, or cannot be read."""
    found = Cache(cache_dir(), int(float(configured(console, "cache_limit")[0]) * 1e9))
    try:
        found.check_ours()
    except OSError as error:
        raise FbragError("config", f"{found.root} is not used as a cache: {error.strerror}", _ELSEWHERE) from None
    return found
