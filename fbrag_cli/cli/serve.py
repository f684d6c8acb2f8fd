"""`fbrag serve` and `fbrag ui`: the server, whose models and documents stay loaded from question to question."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import PORT, ListenOptions, Options, PasswordOptions
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.streams import read_password
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.installation import load
from fbrag_cli.methods.registry import DEFAULT, find_method
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.settings import knob
from fbrag_cli.text.printable import byte_size, counted_names, dumps, one_line

if TYPE_CHECKING:
    import socket

    from fbrag_cli.serving.lifetime import Lifetime
    from fbrag_cli.serving.process.entrance import Entrance

    Listener = tuple[socket.socket, Entrance | None]


_READY_SECONDS = 20.0  # in which a process that begins listens
_END_SECONDS = 20.0  # in which one that is stopped ends
_POLL_SECONDS = 0.05


class ServeOptions(ListenOptions):
    group = "Output"

    socket: str | None = knob(
        None, "Unix socket to listen on (serve.sock in the user's folder for sockets)", group="Listen", metavar="PATH", once=True
    )
    open: bool = knob(False, "open the page in the browser, as fbrag ui does", variables=())
    json: bool = knob(False, "of serve status: one JSON object", variables=())


class ServerSettings(Options):
    """What the session of a server is opened with."""

    password: PasswordOptions
    reading: DocumentSettings
    models: ModelSettings
    cache: CacheSettings


@command(ServeOptions, ServerSettings)
def serve(console: Console, options: ServeOptions, settings: ServerSettings) -> int:
    """Keep models and documents loaded, and answer over HTTP.

    `fbrag serve status` says what it does, `fbrag serve stop` ends it.

    \b
    Examples:
      fbrag serve &
      fbrag serve reports/ --port 8377 --idle 1h
      fbrag serve status
    \f
    It listens on a Unix socket that only its user can open, and over TCP where --host, --port or --open asks for that. Status and
    stop exit with 1 where none runs. A document of that name is ./status.
    """
    path = socket_path(options.socket)
    if options.documents in (["status"], ["stop"]):
        return print_status(path, in_json=options.json) if options.documents == ["status"] else stop(path, console)
    if options.json:
        raise FbragError("usage", "--json is an option of fbrag serve status", "fbrag serve status --json")
    return run_server(console, options, settings, path, page=options.open)


@command(ListenOptions, ServerSettings)
def ui(console: Console, options: ListenOptions, settings: ServerSettings) -> int:
    """Open a page in the browser that answers questions about documents.

    The page is served on this machine alone, under an address with a token of its own, which is printed too. It ends with Ctrl-C,
    or --idle after the page was closed. It is `fbrag serve --open`.

    \b
    Examples:
      fbrag ui book.txt
      fbrag ui reports/ --large llama-3.2-3b
    """
    return run_server(console, options, settings, socket_path(), page=True)


def socket_path(named: str | None = None) -> Path:
    """Return the path of the Unix socket: the named one, else the user's."""
    from fbrag_cli.storage.paths import socket_path

    return Path(os.path.abspath(os.path.expanduser(named))) if named else socket_path()


def run_server(console: Console, options: ListenOptions, settings: ServerSettings, path: Path, *, page: bool) -> int:
    """Serve until the end, and return the exit code. path: of the Unix socket. page: whether the page is shown in a browser."""
    lacking = "fbrag serve needs Starlette and uvicorn, which are not installed"
    run = load("fbrag_cli.serving.process.run", lacking, "serve").serve
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.http.state import State
    from fbrag_cli.serving.library import Library
    from fbrag_cli.serving.lifetime import Lifetime
    from fbrag_cli.serving.process.unix_socket import TakenError

    idle, door = options.idle_seconds, Door.to(options.allow)
    with ExitStack() as stack:
        password = read_password(settings.password.password_file, console)
        private = password is not None
        session = stack.enter_context(open_session(settings.models, settings.cache, console, console.report, private=private))
        library = Library(session, options.documents, door, settings.reading, password=password)
        if options.documents:
            session.prepare(find_method(DEFAULT))
        sockets = stack.enter_context(ExitStack())
        tcp = sockets.enter_context(_over_tcp(console, options, page=page))
        try:
            unix = sockets.enter_context(_over_unix(path, may_fail=bool(tcp) and path == socket_path()))
        except TakenError:
            return _found(path, options, session.names(), console)
        session.models.fetch = session.models.offer = None  # no client makes it download
        desk = stack.enter_context(
            closing(Desk(session, library, console.report, parallel=options.at_once or 1, limit=options.timeout))
        )
        entrance = tcp[0][1] if tcp else None
        lifetime = Lifetime(
            idle,
            lambda: desk.n_running > 0,
            socket=str(path) if unix else None,
            url=entrance.address if entrance else None,
        )
        state = State(session=session, desk=desk, library=library, door=door, lifetime=lifetime)
        ready = partial(_ready, console, options, lifetime, entrance if page else None)
        code: int = run(state, [*tcp, *unix], ready, partial(console.info, level=1))
        if lifetime.is_stuck:  # its models are not freed under it
            sockets.close()
            os._exit(code)
        return code


@contextmanager
def _over_tcp(console: Console, options: ListenOptions, *, page: bool) -> Iterator[list[Listener]]:
    """Listen over TCP until the block ends, where the options or the page ask for that. Yield the listener, if any.

    Raises FbragError `usage` for another address than loopback without a token.
    """
    import secrets

    from fbrag_cli.serving.process.entrance import Entrance
    from fbrag_cli.serving.process.peers import are_told
    from fbrag_cli.serving.process.tcp_socket import listening

    token = options.token
    if not page and options.host is None and options.port is None:
        yield []
        return
    with listening(options.host or "127.0.0.1", options.port, PORT) as listener:
        host, port = listener.getsockname()[:2]
        token = token or (secrets.token_urlsafe(32) if page else None)
        entrance = Entrance(host=host, port=port, token=token, origins=options.origins)
        if not entrance.is_loopback and options.token_file is None:
            what = f"--host {options.host} can be reached from other machines, and needs a token"
            raise FbragError("usage", what, "add --token-file FILE, or leave --host out")
        if not entrance.is_loopback:
            console.hint("what is asked goes over the network as it is: put a proxy with TLS before it, or use ssh -L")
        elif entrance.token is None and not are_told():
            console.warning("all users of this machine can ask what is served")
            console.hint("add --token-file FILE")
        yield [(listener, entrance)]


@contextmanager
def _over_unix(path: Path, *, may_fail: bool) -> Iterator[list[Listener]]:
    """Listen on the Unix socket until the block ends, and yield the listener.

    may_fail: whether there may be none, where another process has it or this system has no such sockets. Raises TakenError, and
    FbragError as `unix_socket.listening`.
    """
    from fbrag_cli.serving.process.unix_socket import TakenError, is_possible, listening

    with ExitStack() as stack:
        listeners: list[Listener] = []
        try:
            if is_possible() or not may_fail:
                listeners.append((stack.enter_context(listening(path)), None))
        except TakenError:
            if not may_fail:
                raise
        yield listeners


def _found(path: Path, options: ListenOptions, pair: tuple[str, str], console: Console) -> int:
    """Say that another process has the socket. Raises FbragError `usage` where it was asked for what that one does not do.

    pair: names of the small and the large model.
    """
    if (status := status_of(path)) is None:
        raise FbragError("timeout", f"the fbrag serve at {path} has just ended", "start it again")
    runs = f"fbrag serve runs already, as process {status['pid']} at {path}"
    served = {path for each in status["documents"] for path in each["paths"]}
    if others := [each for each in (*options.documents, *options.allow) if os.path.realpath(each) not in served]:
        what = f"{runs}, and does not serve {one_line(others[0])}"
        raise FbragError("usage", what, "fbrag serve stop; or --socket PATH for one beside it; or fbrag ui")
    if [*pair] != status["pair"]:
        what = f"{runs}, with {' and '.join(map(one_line, status['pair']))}"
        raise FbragError("usage", what, "fbrag serve stop, and start it again")
    console.info(runs)
    if options.print_ready:
        print(ready_line(status["pid"], status["socket"], status["url"]), flush=True)
    return ExitCode.DONE


def _ready(console: Console, options: ListenOptions, lifetime: Lifetime, page: Entrance | None) -> None:
    """Say where the process listens, and show the page. page: the entrance to it, None where nobody asked for it."""
    if options.print_ready:
        print(ready_line(os.getpid(), lifetime.socket, lifetime.url), flush=True)
    if page:
        _show(page, console)
    elif lifetime.url:
        console.info(f"listening on {lifetime.url}")
    else:
        console.info(f"listening on {lifetime.socket}")


def _show(page: Entrance, console: Console) -> None:
    """Open the page in the browser, and print its address. Without a screen, say how another machine reaches it."""
    from fbrag_cli.cli.browser import has_screen, open_address

    console.info(f"serving the page until Ctrl-C: {page.address}?token={page.token}")
    if has_screen():
        open_address(page.ticket())
    else:
        console.info(f"no browser can be opened here; from another machine: ssh -L {page.port}:127.0.0.1:{page.port} {_here()}")


def _here() -> str:
    """Return the user and this machine, as ssh takes them."""
    import getpass
    import platform

    server = os.environ.get("SSH_CONNECTION", "").split(" ")[2:3] or [platform.node()]
    try:
        return f"{getpass.getuser()}@{server[0]}"
    except (OSError, KeyError, ImportError):  # a user without a name
        return server[0]


# -- another process: fbrag serve status, fbrag serve stop -----------------------------------------------------------------------


def status_of(path: Path) -> dict[str, Any] | None:
    """Return what the process at a socket does now, once it listens; None where there is none. Raises FbragError `timeout`."""
    from fbrag_cli.serving.process.unix_socket import GoneError, is_trusted, owner, reply

    end = monotonic() + _READY_SECONDS
    while (pid := owner(path)) is not None:
        try:
            if is_trusted(path):
                return reply(path, "GET", "/process/status")
        except GoneError:  # it begins, or ends
            pass
        if monotonic() >= end:
            raise FbragError("timeout", f"fbrag serve (process {pid}) does not answer", f"kill {pid}")
        sleep(_POLL_SECONDS)
    return None


def print_status(path: Path, *, in_json: bool) -> int:
    """Print what the process at a socket does. The exit code is 1 where there is none."""
    status = status_of(path)
    if in_json:
        print(dumps(status or {"schema": "fbrag.process/1", "pid": None, "socket": str(path)}))
    elif status is None:
        print(f"no fbrag serve runs at {one_line(str(path))}")
    else:
        questions, since = status["questions"], datetime.fromisoformat(status["since"]).astimezone()
        models = [f"{one_line(each['name'])} ({byte_size(each['bytes'])})" for each in status["models"]]
        ends = status["ends_after"]
        documents = [one_line(each["name"]) for each in status["documents"]]
        rows = {
            "process": f"{status['pid']}, fbrag {status['version']}, since {since:%Y-%m-%d %H:%M:%S}",
            "socket": status["socket"],
            "page": status["url"],
            "documents": counted_names(documents, "document") if documents else "none",
            "models": ", ".join(models) or "none loaded",
            "memory": byte_size(status["bytes"]),
            "questions": f"{questions['running']} running, {questions['waiting']} waiting",
            "idle": f"{status['idle']:.0f} s" + ("" if ends is None else f" of {ends:.0f} s, after which it ends"),
        }
        print("\n".join(f"{name + ':':11}{value}" for name, value in rows.items() if value))
    return ExitCode.DONE if status else ExitCode.NEGATIVE


def stop(path: Path, console: Console) -> int:
    """End the process at a socket, and wait for its end. The exit code is 1 where there is none. Raises FbragError `timeout`."""
    from fbrag_cli.serving.process.unix_socket import GoneError, reply, wait_for_end

    if (status := status_of(path)) is None:
        console.info(f"no fbrag serve runs at {path}")
        return ExitCode.NEGATIVE
    with suppress(GoneError):  # it ends by itself
        reply(path, "POST", "/process/stop")
    if not wait_for_end(path, _END_SECONDS):
        raise FbragError("timeout", f"fbrag serve (process {status['pid']}) did not end", f"kill -9 {status['pid']}")
    console.info(f"fbrag serve (process {status['pid']}) has ended")
    return ExitCode.DONE


def ready_line(pid: int, socket: str | None, url: str | None) -> str:
    """Return the line of --print-ready."""
    address = urlsplit(url).netloc if url else None
    return dumps({"schema": "fbrag.ready/1", "pid": pid, "socket": socket, "address": address, "url": url})
