"""`fbrag serve`: the warm process, whose models and documents stay loaded from question to question."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.options import arguments, option
from fbrag_cli.errors import FbragError
from fbrag_cli.session.settings import CacheSettings, ModelSettings


@dataclass(frozen=True, slots=True)
class ServeOptions:
    documents: list[str] = arguments("documents and folders that are served", "[DOC]...")
    socket: str | None = option(
        None, "--socket", help="Unix socket to listen on (one in the user's folder of sockets)", group="Listen", metavar="PATH"
    )
    allow: list[str] = option(
        (),
        "--allow",
        help="a folder whose files clients may name; may be given several times",
        group="Document",
        metavar="DIR",
    )
    print_ready: bool = option(
        False, "--print-ready", help="print a line of JSON on stdout once it listens", group="Output", envvar=None
    )


@takes(ServeOptions, ModelSettings, CacheSettings)
def serve(console: Console, options: ServeOptions, models: ModelSettings, cache: CacheSettings) -> int:
    """Keep models and documents loaded, and answer over HTTP.

    \b
    Examples:
      fbrag serve &
      fbrag serve reports/ --allow ~/papers
    """
    run = _server()
    from fbrag_cli.cli.session import open_session
    from fbrag_cli.serving.app import State, create_app
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.library import Library
    from fbrag_cli.serving.unix_socket import bound
    from fbrag_cli.storage.places import socket_path

    path = options.socket or str(socket_path())
    door = Door.to(options.allow)
    with open_session(models, cache, console, console.say) as session:
        library = Library(session, options.documents, door)
        with closing(Desk(session, library, console.say)) as desk, bound(path) as listener:
            state = State(session=session, desk=desk, library=library, door=door)

            def ready() -> None:
                console.note(f"listening on {path}", level=1)
                if options.print_ready:
                    print(json.dumps({"socket": path, "address": None, "url": None, "pid": os.getpid()}), flush=True)

            return run([(create_app(state, local=True), listener)], ready, desk.close)


def _server() -> Callable[..., int]:
    """Return `serving.process.serve`. Raises FbragError `usage` where Starlette or uvicorn is not installed."""
    gc.disable()  # two hundred modules are loaded
    try:
        from fbrag_cli.serving.process import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fbrag_cli"):
            raise
        from fbrag_cli.installation import extra

        raise FbragError("usage", "fbrag serve needs Starlette and uvicorn, which are not installed", extra("serve")) from None
    finally:
        gc.enable()
    return run
