"""`fbrag serve` and `fbrag ui`: the server, whose models and documents stay loaded from question to question."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import named_folders
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import PORT, ListenOptions, Options, PasswordOptions
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import Terminated
from fbrag_cli.cli.streams import read_password
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.installation import load
from fbrag_cli.methods.registry import DEFAULT, find_method
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import byte_size, counted_names, dumps, one_line

if TYPE_CHECKING:
    from fbrag_cli.serving.process.access import Access
    from fbrag_cli.serving.process.running import Running

_NONE = "no fbrag server is running"
_END_SECONDS = 20.0  # in which a process that is stopped ends
_POLL_SECONDS = 0.05


class ServeOptions(ListenOptions):
    group = "Output"

    open: bool = option(False, "open the page in the browser, as fbrag ui does", once=True)
    json: bool = option(False, "of serve status: one JSON object", once=True)


class ServerSettings(Options):
    """What the session of a server is opened with."""

    password: PasswordOptions
    reading: DocumentSettings
    models: ModelSettings
    cache: CacheSettings


@command(ServeOptions, ServerSettings)
def serve(console: Console, options: ServeOptions, settings: ServerSettings) -> int:
    """Keep models and documents loaded, and answer over HTTP.

    `fbrag serve status` lists the running servers, `fbrag serve stop [PORT]` stops one.

    \b
    Examples:
      fbrag serve &
      fbrag serve reports/ --port 8377 --idle 1h
      fbrag serve status
    \f
    It listens only on this machine, unless you pass --host. Programs send the token of --token-file, or your own, which is made
    once. Status shows addresses and token files. Status and stop exit with 1 if no server runs. A document of that name is
    ./status.
    """
    words = options.documents
    if words == ["status"]:
        return print_status(console, in_json=options.json)
    if words[:1] == ["stop"] and len(words) <= 2 and all(each.isdigit() for each in words[1:]):
        return stop(words[1:], console)
    if options.json:
        raise FbragError("usage", "--json is an option of fbrag serve status", "fbrag serve status --json")
    return run_server("serve", console, options, settings, page=options.open)


@command(ListenOptions, ServerSettings)
def ui(console: Console, options: ListenOptions, settings: ServerSettings) -> int:
    """Ask questions in your browser, with the document next to them.

    The page is only reachable from this machine, at a private URL that is also printed. Press Ctrl-C to stop. It is the same as
    `fbrag serve --open`.

    \b
    Examples:
      fbrag ui book.txt
      fbrag ui reports/ --large llama-3.2-3b
    """
    return run_server("ui", console, options, settings, page=True)


def run_server(name: str, console: Console, options: ListenOptions, settings: ServerSettings, *, page: bool) -> int:
    """Serve until the end, and return the exit code. name: of the command. page: whether a browser shows the page."""
    lacking = f"fbrag {name} needs Starlette and uvicorn, which are not installed"
    run = load("fbrag_cli.serving.process.run", lacking, "serve").serve
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.library import Library
    from fbrag_cli.serving.process.access import Access
    from fbrag_cli.serving.process.running import Running, announced, listening, token_in, user_token

    idle, door, code = options.idle_seconds, Door.to(options.allow, named_folders(console)), ExitCode.DONE
    with ExitStack() as stack:
        password = read_password(settings.password.password_file, console)
        private = password is not None
        session = stack.enter_context(open_session(settings.models, settings.cache, console, console.report, private=private))
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
            closing(Desk(session, library, console.report, parallel=options.at_once or 1, limit=options.time_limit))
        )
        this = Running(os.getpid(), access.address, os.path.abspath(file))
        with announced(this):
            try:
                ready = partial(_ready, console, options, this, access if page else None)
                run(desk, access, listener, idle=idle, ready=ready, log=partial(console.info, level=1))
            except (KeyboardInterrupt, Terminated) as stop:
                code = getattr(stop, "exit_code", ExitCode.INTERRUPTED)
        if desk.is_stuck:  # within a library: its models are not freed under it
            os._exit(code)
        return code


def _ready(console: Console, options: ListenOptions, this: Running, page: Access | None) -> None:
    """Say where the process listens, and show the page. page: the access to it, None if nobody asked for it."""
    if options.print_ready:
        print(dumps({"schema": "fbrag.ready/1", **asdict(this), "address": urlsplit(this.url).netloc}), flush=True)
    if page:
        _show(page, console)
    else:
        console.info(f"listening on {this.url}; programs send the token in {one_line(this.token_file)}")


def _show(page: Access, console: Console) -> None:
    """Open the page in the browser, and print its address. Without a screen, say how another machine reaches it."""
    from fbrag_cli.cli.browser import has_screen, open_address

    console.info(f"serving the page until Ctrl-C: {page.page}")
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


# -- other processes: fbrag serve status, fbrag serve stop ----------------------------------------------------------------------


def print_status(console: Console, *, in_json: bool) -> int:
    """Print what each process does. The exit code is 1 if there is none."""
    from fbrag_cli.serving.process.running import running

    with_status = [(each, each.status()) for each in running()]
    if in_json:
        print(
            dumps({"schema": "fbrag.processes/1", "processes": [asdict(each) | (status or {}) for each, status in with_status]})
        )
    elif not with_status:
        console.info(_NONE)
    else:
        print("\n\n".join("\n".join(_lines(each, status)) for each, status in with_status))
    return ExitCode.DONE if with_status else ExitCode.NEGATIVE


def _lines(each: Running, status: Mapping[str, Any] | None) -> list[str]:
    rows = {"address": each.url, "token": f"in {one_line(each.token_file)}", "process": f"{each.pid}, which does not answer"}
    if status:
        questions, since = status["questions"], datetime.fromisoformat(status["since"]).astimezone()
        documents = [one_line(each["name"]) for each in status["documents"]]
        models = [f"{one_line(each['name'])} ({byte_size(each['bytes'])})" for each in status["models"]]
        rows |= {
            "process": f"{each.pid}, fbrag {status['version']}, since {since:%Y-%m-%d %H:%M:%S}",
            "documents": counted_names(documents, "document") if documents else "none",
            "models": ", ".join(models) or "none loaded",
            "memory": byte_size(status["bytes"]),
            "questions": f"{questions['running']} running, {questions['waiting']} waiting",
        }
    return [f"{name + ':':11}{value}" for name, value in rows.items()]


def stop(ports: Sequence[str], console: Console) -> int:
    """End a process, and wait for its end. The exit code is 1 if there is none.

    ports: its port; none is needed for the only one. Raises FbragError `usage`; `timeout` for a process that does not end.
    """
    import psutil

    from fbrag_cli.serving.process.running import running

    servers = [each for each in running() if not ports or [str(each.port)] == [*ports]]
    if len(servers) > 1:
        shown = ", ".join(str(each.port) for each in servers)
        raise FbragError("usage", f"{len(servers)} processes serve, at the ports {shown}", f"fbrag serve stop {servers[0].port}")
    if not servers:
        console.info(_NONE + (f" at port {one_line(ports[0])}" if ports else ""))
        return ExitCode.NEGATIVE
    pid = servers[0].pid
    with suppress(psutil.NoSuchProcess):  # once it has ended
        process, end = psutil.Process(pid), monotonic() + _END_SECONDS
        process.terminate()
        while process.status() != psutil.STATUS_ZOMBIE:  # whose parent has not looked yet
            if monotonic() >= end:
                raise FbragError("timeout", f"fbrag serve (process {pid}) did not end", f"kill -9 {pid}")
            sleep(_POLL_SECONDS)
    console.info(f"fbrag serve (process {pid}) has ended")
    return ExitCode.DONE
