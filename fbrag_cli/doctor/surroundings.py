"""Checks of the cache, the configuration file, the environment, the terminal and the network."""

from __future__ import annotations

import locale
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from threading import Thread

from fbrag_cli.doctor.check import Check, Situation
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import effective
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.config_file import load
from fbrag_cli.storage.places import cache_dir, is_nowhere
from fbrag_cli.text.near import closest, suggestion
from fbrag_cli.text.printable import byte_size

_SHOWN = re.compile(
    r"FBRAG_.*|HF_.*|CUDA_VISIBLE_DEVICES|NO_COLOR|FORCE_COLOR|SSL_CERT_(FILE|DIR)|PIP_(INDEX_URL|CERT)|UV_(INDEX|INDEX_URL|DEFAULT_INDEX)|(https?|all|no)_proxy",
    re.IGNORECASE,
)
_SECRET = re.compile("TOKEN|PASSWORD|SECRET|KEY", re.IGNORECASE)
_ADDRESS = re.compile("PROXY|URL|ENDPOINT|INDEX", re.IGNORECASE)  # also without "http://"
# What stands before the last "@", as a password may hold "@", "/" and "#"; in other variables not behind a host: "http://h/v1#m@q8"
_LOGIN_OF_ADDRESS = re.compile(r"^(\w+://)?.*@", re.DOTALL)
_LOGIN = re.compile(r"(//)(?!([\w.-]+|\[[\da-f:.]+\])(:\d+)?([/?#,]|$)).*@", re.DOTALL)
_NETWORK_SECONDS = 5
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
    """Report the environment variables in force, without secrets and logins, and check their values and names."""
    environ = situation.environ
    shown = [f"{name}={_public(name, value)}" for name, value in sorted(environ.items()) if _SHOWN.fullmatch(name)]
    finding = " ".join(shown) or "no variable that fbrag uses is set"
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


def _public(name: str, value: str) -> str:
    """Return the value of a variable without its secret."""
    if _SECRET.search(name):
        return "set" if value else "empty"
    return (_LOGIN_OF_ADDRESS if _ADDRESS.search(name) else _LOGIN).sub(r"\1…@", value)


def terminal(situation: Situation) -> Check:
    """Report the terminal and colour, and check for UTF-8."""
    streams = {"stdout": sys.stdout.isatty(), "stderr": sys.stderr.isatty()}
    described = ", ".join(f"{name} {'is a' if is_terminal else 'is no'} terminal" for name, is_terminal in streams.items())
    encoding = locale.getpreferredencoding(False)
    finding = f"{described}, {encoding}, colour {'on' if situation.colored else 'off'}"
    if os.name == "posix" and encoding.lower().replace("-", "") != "utf8":
        return Check("terminal", "warn", f"{finding}: fbrag writes UTF-8", "export LC_ALL=C.UTF-8")
    return Check("terminal", "ok", finding)


def network(situation: Situation) -> Iterator[Check]:
    """Check that the servers of models and packages answer within 5 seconds. Both are asked at the same time."""
    places = {
        "hub": situation.environ.get("HF_ENDPOINT") or "https://huggingface.co",
        "package index": _package_index(situation.environ),
    }
    if situation.offline:
        yield from (Check(name, "ok", "not asked (--offline)") for name in places)
        return
    problems: dict[str, str | None] = {}

    def ask(name: str) -> None:
        problems[name] = _problem(places[name])

    threads = [Thread(target=ask, args=(name,), daemon=True) for name in places]  # a name look-up has no time limit of its own
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_NETWORK_SECONDS + 1)
    for name, address in places.items():
        url = _public("URL", address)
        if problem := problems.get(name, f"no answer within {_NETWORK_SECONDS} s"):
            yield Check(name, "warn", f"{url}: {problem}", _fix_of_network(name, problem, situation.environ))
        else:
            yield Check(name, "ok", f"{url} answers")


def _package_index(environ: Mapping[str, str]) -> str:
    """Return the address of the index that models are downloaded from."""
    named = next(filter(None, map(environ.get, _variables_of_index(environ))), "https://pypi.org/simple")
    return re.sub(r"^[\w.-]+=(?=\w+://)", "", named)  # uv's indexes may have names


def _variables_of_index(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that name this index to what downloads them, the first one that counts first."""
    from fbrag_cli.models.wheels import uv

    return ("UV_DEFAULT_INDEX", "UV_INDEX_URL") if uv(environ) else ("PIP_INDEX_URL",)


def _problem(url: str) -> str | None:
    """Return why the server does not answer, None if it answers anything. The login in the URL is not sent."""
    from http.client import HTTPException, InvalidURL
    from urllib.error import HTTPError
    from urllib.parse import urlsplit
    from urllib.request import Request, urlopen

    try:
        parts = urlsplit(url)
        if parts.scheme == "file":
            return None if os.path.exists(parts.path) else "there is no such folder"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        urlopen(Request(url, method="HEAD", headers={"User-Agent": "fbrag"}), timeout=_NETWORK_SECONDS).close()
    except HTTPError as error:
        return f"it answers with HTTP {error.code}" if error.code >= 500 else None
    except (ValueError, InvalidURL):  # its message may hold a password
        return "this address, or that of the proxy, is no URL"
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return getattr(reason, "strerror", None) or str(reason)
    return None


def _fix_of_network(name: str, problem: str, environ: Mapping[str, str]) -> str:
    if "CERTIFICATE" in problem.upper():
        return "set SSL_CERT_FILE to your organisation's certificates"
    mirror = "HF_ENDPOINT" if name == "hub" else _variables_of_index(environ)[0]
    return f"check the connection (HTTPS_PROXY for a proxy, {mirror} for a mirror); models that are here need none"
