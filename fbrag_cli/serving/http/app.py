"""The application of the warm process: the routes of all modules, over one `State`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from fbrag_cli.errors import FbragError
from fbrag_cli.serving.failure import respond
from fbrag_cli.serving.http import answers, documents, model_calls, openai, page, status
from fbrag_cli.serving.http.state import State


def create_app(state: State, *, local: bool) -> Starlette:
    """Return the application. local: whether it serves this user alone, over the Unix socket, and may lend the models."""
    routes: list[BaseRoute] = status.routes(state, local=local)
    routes += openai.routes(state)
    routes += answers.routes(state)
    routes += documents.routes(state)
    routes += page.routes(state)
    if local:
        routes += model_calls.routes(state.session.models)
    app = Starlette(routes=routes, exception_handlers={FbragError: respond, HTTPException: respond, Exception: respond})
    app.state.fbrag = state
    return app
