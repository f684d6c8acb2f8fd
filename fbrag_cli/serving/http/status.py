"""Routes about the process itself: that it is there, and what it does now."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fbrag_cli.serving.failure import as_json
from fbrag_cli.version import version

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk


def routes(desk: Desk) -> list[Route]:
    """Return the routes /healthz and /process/status."""
    since = datetime.now(UTC).isoformat(timespec="seconds")

    async def health(request: Request) -> Response:
        return as_json({"status": "ok", "version": version()})

    async def status(request: Request) -> Response:
        return as_json(await anyio.to_thread.run_sync(_record, desk, since))

    return [Route("/healthz", health), Route("/process/status", status)]


def _record(desk: Desk, since: str) -> dict[str, object]:
    """Return what the process does now, as `fbrag.process/1`."""
    import psutil

    return {
        "schema": "fbrag.process/1",
        "pid": os.getpid(),
        "version": version(),
        "since": since,
        "documents": [{"id": each.id, "name": each.name} for each in desk.library.entries()],
        "models": [{"name": name, "bytes": size} for name, size in desk.session.models.sizes().items()],
        "bytes": psutil.Process().memory_info().rss,
        "questions": {"running": desk.n_running - desk.n_waiting, "waiting": desk.n_waiting},
    }
