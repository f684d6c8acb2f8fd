"""Routes about the process itself: what it does now, and its end. They answer over the Unix socket alone, but for two."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fbrag_cli import __version__
from fbrag_cli.serving.failure import as_json

if TYPE_CHECKING:
    from fbrag_cli.serving.http.state import State


def routes(state: State, *, local: bool) -> list[BaseRoute]:
    """Return the routes. local: whether this user alone can ask."""

    async def status(request: Request) -> Response:
        return as_json(record(state))

    async def stop(request: Request) -> Response:
        state.lifetime.stop()
        return as_json({"pid": os.getpid()})

    own = [Route("/process/status", status), Route("/process/stop", stop, methods=["POST"])]
    return [Route("/healthz", _health), Route("/page/alive", _alive), *(own if local else [])]


async def _health(request: Request) -> Response:
    return as_json({"status": "ok", "version": __version__})


async def _alive(request: Request) -> Response:
    """Answer a page that is open, for which the process stays."""
    return Response(status_code=204)


def _real(paths: Sequence[str]) -> list[str]:
    return [os.path.realpath(each) for each in paths]


def record(state: State) -> dict[str, Any]:
    """Return what the process does now, as `fbrag.process/1`."""
    import psutil

    lifetime, desk = state.lifetime, state.desk
    return {
        "schema": "fbrag.process/1",
        "pid": os.getpid(),
        "version": __version__,
        "since": lifetime.since.isoformat(timespec="seconds"),
        "socket": lifetime.socket,
        "url": lifetime.url,
        "documents": [{"id": each.id, "name": each.name, "paths": _real(each.paths)} for each in state.library.entries()],
        "pair": [*state.session.names()],
        "models": [{"name": name, "bytes": size} for name, size in state.session.pool.sizes().items()],
        "bytes": psutil.Process().memory_info().rss,
        "requests": lifetime.running,
        "questions": {"running": desk.n_running - desk.n_waiting, "waiting": desk.n_waiting},
        "idle": round(lifetime.idle_seconds, 1),
        "ends_after": lifetime.idle,
    }
