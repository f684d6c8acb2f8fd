"""The application of the warm process: the routes of all modules, over one `State`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from fbrag_cli.errors import FbragError
from fbrag_cli.serving import answers, documents, model_calls, openai, page, status
from fbrag_cli.serving.failure import respond
from fbrag_cli.serving.lifetime import Lifetime

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.library import Library
    from fbrag_cli.session.session import Session


@dataclass(frozen=True, kw_only=True)
class State:
    """What the routes share. door: lets through the paths that clients may name. lifetime: of the process."""

    session: Session
    desk: Desk
    library: Library
    door: Door
    lifetime: Lifetime = field(default_factory=Lifetime)


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
