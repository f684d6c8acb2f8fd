"""The application of the server: the routes of all modules, over one `State`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from fbrag_cli.errors import FbragError
from fbrag_cli.serving.failure import respond
from fbrag_cli.serving.http import answers, documents, openai, page, status
from fbrag_cli.serving.http.state import State


def create_app(state: State, *, local: bool) -> Starlette:
    """Return the application. local: whether it serves this user alone, over the Unix socket."""
    routes: list[BaseRoute] = status.routes(state, local=local)
    routes += openai.routes(state)
    routes += answers.routes(state)
    routes += documents.routes(state)
    routes += page.routes(state)
    app = Starlette(routes=routes, exception_handlers={FbragError: respond, HTTPException: respond, Exception: respond})
    app.state.fbrag = state
    return app
