"""The application of the server: the routes of all modules, over one `Desk`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fbrag_cli.errors import FbragError
from fbrag_cli.render import page_words
from fbrag_cli.serving.desk import Desk
from fbrag_cli.serving.failure import respond
from fbrag_cli.serving.http import answers, documents, openai, page, status

#: The form of errors, by how a path begins; of other paths it is `fbrag.error/1`.
_FORMS: dict[str, Callable[[FbragError], Any]] = {
    "/v1/models": openai.error_of,
    "/v1/chat/": openai.error_of,
    "/page/": lambda failure: page_words.error(failure).as_json(),
}


def create_app(desk: Desk) -> Starlette:
    """Return the application."""
    routes = [route for each in (status, openai, answers, documents, page) for route in each.routes(desk)]
    return Starlette(routes=routes, exception_handlers=dict.fromkeys((FbragError, HTTPException, Exception), _refused))


async def _refused(request: Request, error: Exception) -> Response:
    """Return the response to an error, in the form of what was asked."""
    forms = (form for start, form in _FORMS.items() if request.scope["path"].startswith(start))
    return await respond(request, error, next(forms, FbragError.as_json))
