"""`fbrag serve status`, `fbrag serve stop`, and what a second `fbrag serve` says of the first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

from fbrag_cli.cli.console import Console
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.serving.process.unix_socket import GoneError, is_trusted, owner, reply, wait_for_end
from fbrag_cli.text.printable import byte_size, counted_names, dumps, one_line

_READY_SECONDS = 20.0  # in which a process that begins listens
_END_SECONDS = 20.0  # in which one that is stopped ends
_POLL_SECONDS = 0.05


def status_of(path: Path) -> dict[str, Any] | None:
    """Return what the process at a socket does now, once it listens; None where there is none. Raises FbragError `timeout`."""
    end = monotonic() + _READY_SECONDS
    while (pid := owner(path)) is not None:
        try:
            if is_trusted(path):
                return reply(path, "GET", "/process/status")
        except GoneError:  # it begins, or ends
            pass
        if monotonic() >= end:
            raise FbragError("timeout", f"fbrag serve (process {pid}) does not answer", f"kill {pid}")
        sleep(_POLL_SECONDS)
    return None


def print_status(path: Path, *, in_json: bool) -> int:
    """Print what the process at a socket does. The exit code is 1 where there is none."""
    status = status_of(path)
    if in_json:
        print(dumps(status or {"schema": "fbrag.process/1", "pid": None, "socket": str(path)}))
    elif status is None:
        print(f"no fbrag serve runs at {one_line(str(path))}")
    else:
        for line in _lines(status):
            print(line)
    return ExitCode.DONE if status else ExitCode.NEGATIVE


def _lines(status: Mapping[str, Any]) -> list[str]:
    questions, since = status["questions"], datetime.fromisoformat(status["since"]).astimezone()
    models = [f"{one_line(each['name'])} ({byte_size(each['bytes'])})" for each in status["models"]]
    ends = status["ends_after"]
    documents = [one_line(each["name"]) for each in status["documents"]]
    rows = {
        "process": f"{status['pid']}, fbrag {status['version']}, since {since:%Y-%m-%d %H:%M:%S}",
        "socket": status["socket"],
        "page": status["url"],
        "documents": counted_names(documents, "document") if documents else "none",
        "models": ", ".join(models) or "none loaded",
        "memory": byte_size(status["bytes"]),
        "questions": f"{questions['running']} running, {questions['waiting']} waiting",
        "idle": f"{status['idle']:.0f} s" + ("" if ends is None else f" of {ends:.0f} s, after which it ends"),
    }
    return [f"{name + ':':11}{value}" for name, value in rows.items() if value]


def stop(path: Path, console: Console) -> int:
    """End the process at a socket, and wait for its end. The exit code is 1 where there is none. Raises FbragError `timeout`."""
    if (status := status_of(path)) is None:
        console.note(f"no fbrag serve runs at {path}")
        return ExitCode.NEGATIVE
    with suppress(GoneError):  # it ends by itself
        reply(path, "POST", "/process/stop")
    if not wait_for_end(path, _END_SECONDS):
        raise FbragError("timeout", f"fbrag serve (process {status['pid']}) did not end", f"kill -9 {status['pid']}")
    console.note(f"fbrag serve (process {status['pid']}) has ended")
    return ExitCode.DONE


def ready_line(pid: int, socket: str | None, url: str | None) -> str:
    """Return the line of --print-ready."""
    address = urlsplit(url).netloc if url else None
    return dumps({"schema": "fbrag.ready/1", "pid": pid, "socket": socket, "address": address, "url": url})
