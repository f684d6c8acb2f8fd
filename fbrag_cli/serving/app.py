"""The application of the warm process: the routes of all modules, over one `State`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fbrag_cli import __version__
from fbrag_cli.errors import FbragError
from fbrag_cli.serving import answers, documents, model_calls, openai, page
from fbrag_cli.serving.failure import as_json, respond

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.library import Library
    from fbrag_cli.session.session import Session


@dataclass(frozen=True, kw_only=True)
class State:
    """What the routes share. door: lets through the paths that clients may name."""

    session: Session
    desk: Desk
    library: Library
    door: Door


def create_app(state: State, *, local: bool) -> Starlette:
    """Return the application. local: whether it serves this user alone, over the Unix socket, and may lend the models."""
    routes: list[BaseRoute] = [Route("/healthz", _health)]
    routes += openai.routes(state)
    # routes += module.routes(state), one line for each module
    routes += answers.routes(state)
    routes += documents.routes(state)
    routes += page.routes(state)
    if local:
        routes += model_calls.routes(state.session.models)
    app = Starlette(routes=routes, exception_handlers={FbragError: respond, HTTPException: respond, Exception: respond})
    app.state.fbrag = state
    return app


async def _health(request: Request) -> Response:
    return as_json({"status": "ok", "version": __version__})
