"""What a client gets for an error: `fbrag.error/1`, with the HTTP status that fits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from html import escape
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from fbrag_cli.errors import ExitCode, FbragError, lacking
from fbrag_cli.text.printable import dumps

_STATUS = {ExitCode.USAGE: 400, ExitCode.DOCUMENT: 422, ExitCode.MODEL: 503, ExitCode.RESOURCES: 503, ExitCode.INTERNAL: 500}
_STATUS_OF = {"doc_not_found": 404, "too_large": 413, "busy": 429}  # what its exit code does not say


class HttpError(FbragError):
    """An error with a status of its own. retry_after: seconds after which the client may try again; 0 for none."""

    def __init__(self, status: int, message: str, hint: str | None = None, *, code: str = "usage", retry_after: int = 0) -> None:
        super().__init__(code, message, hint)
        self.status, self.retry_after = status, retry_after


def known(error: BaseException) -> FbragError:
    """Return an error as one that a client can read. What is unknown is an internal error, of which only the type is said."""
    if isinstance(error, FbragError):
        return error
    if isinstance(error, HTTPException):
        methods = {*(error.headers or {}).get("Allow", "").split(", ")} - {"HEAD"}
        hints = {404: "check the path: docs/http.md lists them", 405: f"use {' or '.join(sorted(methods))}"}
        what = "nothing is served at this path" if error.status_code == 404 else str(error.detail)
        return HttpError(error.status_code, what, hints.get(error.status_code))
    if isinstance(error, ClientDisconnect):
        return HttpError(400, "the client went away before its request was whole", "send all of it")
    return lacking(error) or FbragError("internal", f"internal error ({type(error).__name__})", "please report it")


def status_of(error: FbragError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, HttpError):
        return error.status
    return _STATUS_OF.get(error.code) or _STATUS.get(error.exit_code, 500)


def as_json(record: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response with one JSON value. Halves of characters, as names of files may have, are written as escapes."""
    return Response(dumps(record) + "\n", status, headers, media_type="application/json")


def as_page(error: FbragError) -> bytes:
    """Return the error as a page of two sentences, for a person who opened an address in a browser."""
    said = [f"{escape(each[0].upper() + each[1:])}." for each in (error.message, error.hint) if each]
    head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>fbrag</title>'
    return "".join([head, "<h1>fbrag</h1>", *(f"<p>{each}</p>" for each in said), "\n"]).encode("utf-8", "replace")


async def respond(request: Request, error: Exception, form: Callable[[FbragError], Any] = FbragError.as_json) -> Response:
    """Return the response to an error that a route raises. What is unknown is logged with its traceback.

    form: makes the JSON of the error.
    """
    failure = known(error)
    if failure.code == "internal":
        logging.getLogger("fbrag").error("%s", failure.message, exc_info=error)
    headers = dict(getattr(error, "headers", None) or {})  # as Allow, of 405
    if seconds := getattr(failure, "retry_after", 0):
        headers["Retry-After"] = str(seconds)
    return as_json(form(failure), status_of(failure), headers)
