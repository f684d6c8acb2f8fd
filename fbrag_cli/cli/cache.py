"""`fbrag cache`: print the folder and the size of the cache, and clear it."""

from __future__ import annotations

from fbrag_cli.cli.command import Group
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import configured
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.settings import DURATION, seconds_of
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.paths import cache_dir, is_nowhere
from fbrag_cli.text.printable import byte_size, dumps, printable
from fbrag_cli.text.suggest import suggestion
from fbrag_cli.text.table import align_columns

HELP = """View and clear the cache. It makes repeated questions fast, and is safe to delete.

\b
Examples:
  fbrag cache size
  fbrag cache clear --older-than 30d
"""

cache = Group("cache", HELP)

# Kinds that --kind accepts even if the cache has no such entry.
_KINDS = ("corpora", "documents", "embeddings", "eval", "listings", "pace", "samples", "scans")
_ELSEWHERE = "set FBRAG_CACHE_DIR to another folder"


class SizeOptions(Options):
    group = "Output"

    json: bool = option(False, "print JSON", once=True)


class ClearOptions(Options):
    group = "Clear"

    older_than: str | None = option(
        None,
        "only entries unused for TIME, such as 12h or 30d (default: all)",
        once=True,
        metavar="TIME",
        form=seconds_of,
        accepts=DURATION,
    )
    kind: str | None = option(
        None,
        "only entries of this kind, from 'fbrag cache size' (default: all)",
        once=True,
        metavar="KIND",
        autocompletion=lambda: list(_KINDS),
    )


@cache.command()
def dir_(console: Console) -> None:
    """Print the folder of the cache, which need not exist. FBRAG_CACHE_DIR changes it.

    \b
    Examples:
      du -sh "$(fbrag cache dir)"
    """
    if is_nowhere(folder := cache_dir()):
        raise FbragError("config", "no cache: this user has no home directory", _ELSEWHERE)
    print(printable(str(folder)))


@cache.command(SizeOptions)
def size(console: Console, options: SizeOptions) -> None:
    """Print the number and bytes of entries by kind. Over the limit, the least recently used entries are deleted.

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
    """Delete cached entries, and print the bytes freed. Asks on a terminal; exit code 1 if the answer is no.

    \b
    Examples:
      fbrag cache clear
      fbrag cache clear -y --older-than 30d
      fbrag cache clear --kind corpora
    """
    age = None if options.older_than is None else seconds_of(options.older_than)
    opened, kind = _cache(console), options.kind
    if kind is not None and kind not in (known := {*_KINDS, *opened.size()}):
        hint = suggestion(kind, known, f"use one of {', '.join(sorted(known))}")
        raise FbragError("usage", f"unknown cache kind {kind}", hint)
    sizes = [entry.bytes for entry in opened.entries(kind, age)]
    entries = f"{len(sizes)} {'entry' if len(sizes) == 1 else 'entries'} ({byte_size(sum(sizes))})"
    if sizes and not console.confirms(f"delete {entries} from {opened.root}"):
        console.info("nothing deleted")
        return ExitCode.NEGATIVE
    try:
        print(opened.clear(kind, age))
    except OSError as error:
        what = f"could not delete {error.filename or opened.root}: {error.strerror}"
        raise FbragError("output", what, "check the permissions, and stop other fbrag processes") from None
    return ExitCode.DONE


def _cache(console: Console) -> Cache:
    """Return the user's cache. Raises FbragError `config` if the folder is not a cache or cannot be read."""
    store = Cache(cache_dir(), int(float(configured(console, "cache_limit")[0]) * 1e9))
    try:
        store.check_ours()
    except OSError as error:
        raise FbragError("config", f"{store.root} cannot be the cache: {error.strerror}", _ELSEWHERE) from None
    return store
