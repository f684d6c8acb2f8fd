"""`fbrag serve`: the server, whose models and documents stay loaded from question to question."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.listen import PORT, ListenOptions
from fbrag_cli.cli.options import PasswordOptions, option
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import Terminated
from fbrag_cli.cli.streams import read_password
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.methods.registry import DEFAULT, find_method
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import dumps, one_line

if TYPE_CHECKING:
    from fbrag_cli.serving.process.access import Access
    from fbrag_cli.serving.process.running import Running


@dataclass(frozen=True, slots=True)
class ServeOptions(ListenOptions):
    open: bool = option(False, "--open", help="open the page in the browser, as fbrag ui does", group="Output", envvar=None)
    json: bool = option(False, "--json", help="of serve status: one JSON object", group="Output", envvar=None)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the session of a server is opened with."""

    password: PasswordOptions
    reading: DocumentSettings
    models: ModelSettings
    cache: CacheSettings


@takes(ServeOptions, ServerSettings)
def serve(console: Console, options: ServeOptions, settings: ServerSettings) -> int:
    """Keep models and documents loaded, and answer over HTTP.

    It listens on this machine alone, unless --host says otherwise. Programs send the token of --token-file, or the user's own,
    which is made once. `fbrag serve status` lists the processes that serve, with their addresses and the files of their tokens;
    `fbrag serve stop [PORT]` ends one; both exit with 1 if there is none. A document of that name is ./status.

    \b
    Examples:
      fbrag serve &
      fbrag serve reports/ --port 8377 --idle 1h
      fbrag serve status
    """
    words = options.documents
    if words == ["status"] or (words[:1] == ["stop"] and len(words) <= 2 and all(each.isdigit() for each in words[1:])):
        from fbrag_cli.cli.serve_control import print_status, stop

        return print_status(in_json=options.json) if words == ["status"] else stop(words[1:], console)
    if options.json:
        raise FbragError("usage", "--json is an option of fbrag serve status", "fbrag serve status --json")
    return run_server(console, options, settings, page=options.open)


def run_server(console: Console, options: ListenOptions, settings: ServerSettings, *, page: bool) -> int:
    """Serve until the end, and return the exit code. page: whether the page is shown in a browser."""
    run = _server()
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.library import Library
    from fbrag_cli.serving.process.access import Access
    from fbrag_cli.serving.process.running import Running, announced, listening, token_in, user_token

    idle, door, code = options.idle_seconds, Door.to(options.allow), ExitCode.DONE
    with ExitStack() as stack:
        password = read_password(settings.password.password_file, console)
        private = password is not None
        session = stack.enter_context(open_session(settings.models, settings.cache, console, console.say, private=private))
        library = Library(session, options.documents, door, settings.reading, password=password)
        if options.documents:
            session.prepare(find_method(DEFAULT))
        listener = stack.enter_context(listening(options.host or "127.0.0.1", options.port, PORT))
        host, port = listener.getsockname()[:2]
        file, token = (options.token_file, token_in(options.token_file)) if options.token_file else user_token()
        access = Access(host=host, port=port, token=token, origins=options.origins)
        if not access.is_loopback:
            console.hint("what is asked goes over the network as it is: put a proxy with TLS before it, or use ssh -L")
        session.models.fetch = session.models.offer = None  # no client makes it download
        desk = stack.enter_context(
            closing(Desk(session, library, console.say, parallel=options.at_once or 1, limit=options.timeout))
        )
        this = Running(os.getpid(), access.address, os.path.abspath(file))
        with announced(this):
            try:
                ready = partial(_ready, console, options, this, access if page else None)
                run(desk, access, listener, idle=idle, ready=ready, log=partial(console.note, level=1))
            except (KeyboardInterrupt, Terminated) as stop:
                code = getattr(stop, "exit_code", ExitCode.INTERRUPTED)
        if desk.is_stuck:  # within a library: its models are not freed under it
            os._exit(code)
        return code


def _server() -> Callable[..., None]:
    """Return `serving.process.run.serve`. Raises FbragError `usage` where Starlette or uvicorn is not installed."""
    gc.disable()  # two hundred modules are loaded
    try:
        from fbrag_cli.serving.process.run import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fbrag_cli"):
            raise
        from fbrag_cli.installation import extra

        raise FbragError("usage", "fbrag serve needs Starlette and uvicorn, which are not installed", extra("serve")) from None
    finally:
        gc.enable()
    return run


def _ready(console: Console, options: ListenOptions, this: Running, page: Access | None) -> None:
    """Say where the process listens, and show the page. page: the access to it, None where nobody asked for it."""
    if options.print_ready:
        print(dumps({"schema": "fbrag.ready/1", **asdict(this), "address": urlsplit(this.url).netloc}), flush=True)
    if page:
        _show(page, console)
    else:
        console.note(f"listening on {this.url}; programs send the token in {one_line(this.token_file)}")


def _show(page: Access, console: Console) -> None:
    """Open the page in the browser, and print its address. Without a screen, say how another machine reaches it."""
    from fbrag_cli.cli.browser import has_screen, open_address

    console.note(f"serving the page until Ctrl-C: {page.address}?token={page.token}")
    if has_screen():
        open_address(page.ticket())
    else:
        console.note(f"no browser can be opened here; from another machine: ssh -L {page.port}:127.0.0.1:{page.port} {_here()}")


def _here() -> str:
    """Return the user and this machine, as ssh takes them."""
    import getpass
    import platform

    server = os.environ.get("SSH_CONNECTION", "").split(" ")[2:3] or [platform.node()]
    try:
        return f"{getpass.getuser()}@{server[0]}"
    except (OSError, KeyError, ImportError):  # a user without a name
        return server[0]
