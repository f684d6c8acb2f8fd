"""Checks of the cache, the configuration file and the environment."""

from __future__ import annotations

import re
from collections.abc import Collection

from fbrag_cli.doctor.check import Check, Situation
from fbrag_cli.errors import FbragError
from fbrag_cli.settings import effective
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.config_file import load
from fbrag_cli.storage.places import cache_dir, is_nowhere
from fbrag_cli.text.near import closest, suggestion
from fbrag_cli.text.printable import byte_size

_SHOWN = re.compile(
    r"FBRAG_.*|HF_.*|CUDA_VISIBLE_DEVICES|NO_COLOR|FORCE_COLOR|SSL_CERT_(FILE|DIR)|PIP_(INDEX_URL|CERT)|UV_(INDEX|INDEX_URL|DEFAULT_INDEX)|(https?|all|no)_proxy",
    re.IGNORECASE,
)
_FIRST = 5  # unknown keys that are named; each is compared with all that are known


def config(situation: Situation) -> Check:
    """Check that the configuration file can be read and has no unknown keys."""
    file = situation.config_file
    if file is None:
        return Check("config", "ok", "none (--config none)")
    try:
        found = load(file, situation.keys)
    except FbragError as error:
        return Check("config", "fail", error.message, error.hint)
    if found.unknown:
        first, more = found.unknown[:_FIRST], len(found.unknown) - _FIRST
        fixes = dict.fromkeys(suggestion(each, situation.keys, "fbrag config show") for each in first)
        rest = f" and {more:,} more" if more > 0 else ""
        return Check("config", "warn", f"{file.path}: unknown: {', '.join(first)}{rest}", "; ".join(fixes))
    if is_nowhere(file.path):
        return Check("config", "ok", "none: this user has no home folder, and none is needed")
    if not found.values:
        return Check("config", "ok", f"{file.path}: " + ("empty" if file.path.exists() else "there is none, and none is needed"))
    return Check("config", "ok", f"{file.path}: {len(found.values)} key{'s' if len(found.values) > 1 else ''} set")


def cache(situation: Situation) -> Check:
    """Check that the cache's folder can be used, and report its size."""
    found = Cache(cache_dir(), situation.cache_limit)
    try:
        found.check_usable()
    except OSError as error:
        where = "this user has no home folder for it" if is_nowhere(found.root) else f"{found.root}: {error.strerror}"
        what = f"no cache, so each question reads the documents anew: {where}"
        return Check("cache", "warn", what, "set FBRAG_CACHE_DIR to a folder that can be written")
    total = sum(size for _, size in found.size().values())
    return Check("cache", "ok", f"{byte_size(total)} of {byte_size(found.limit)} in {found.root}")


def environment(situation: Situation) -> Check:
    """Report the environment variables in force, and check their names and values. It lists names only: a value may be secret."""
    environ = situation.environ
    finding = " ".join(sorted(filter(_SHOWN.fullmatch, environ))) or "no variable that fbrag uses is set"
    try:
        for key in situation.keys.values():
            effective(key, {}, environ)
    except FbragError as error:
        return Check("environment", "fail", f"{error.message}; in force: {finding}", error.hint)
    if unread := [name for name in environ if name.startswith("FBRAG_") and name not in situation.variables]:
        fix = "; ".join(_meant(name, situation.variables) for name in unread)
        return Check("environment", "warn", f"fbrag reads no {', '.join(unread)}; in force: {finding}", fix)
    return Check("environment", "ok", finding)


def _meant(name: str, known: Collection[str]) -> str:
    """Return what to do about a variable FBRAG_* that nothing reads. Its common beginning makes no names alike."""
    near = closest(name.removeprefix("FBRAG_"), [each.removeprefix("FBRAG_") for each in known])
    return f"did you mean FBRAG_{near}?" if near else f"unset {name}"
