"""The application of the server: the routes of all modules, over one `Desk`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from fbrag_cli.errors import FbragError
from fbrag_cli.serving.desk import Desk
from fbrag_cli.serving.failure import respond
from fbrag_cli.serving.http import answers, documents, openai, page, status


def create_app(desk: Desk) -> Starlette:
    """Return the application."""
    routes = [route for each in (status, openai, answers, documents, page) for route in each.routes(desk)]
    return Starlette(routes=routes, exception_handlers={FbragError: respond, HTTPException: respond, Exception: respond})
