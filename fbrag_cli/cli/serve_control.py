"""`fbrag serve status` and `fbrag serve stop`: the processes of this user that serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from time import monotonic, sleep
from typing import Any

import psutil

from fbrag_cli.cli.console import Console
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.serving.process.running import Running, running
from fbrag_cli.text.printable import byte_size, counted_names, dumps, one_line

_END_SECONDS = 20.0  # in which a process that is stopped ends
_POLL_SECONDS = 0.05


def print_status(*, in_json: bool) -> int:
    """Print what each process does. The exit code is 1 if there is none."""
    found = [(each, each.status()) for each in running()]
    if in_json:
        print(dumps({"schema": "fbrag.processes/1", "processes": [asdict(each) | (status or {}) for each, status in found]}))
    elif not found:
        print("no fbrag serve runs")
    else:
        print("\n\n".join("\n".join(_lines(each, status)) for each, status in found))
    return ExitCode.DONE if found else ExitCode.NEGATIVE


def _lines(each: Running, status: Mapping[str, Any] | None) -> list[str]:
    rows = {"address": each.url, "token": f"in {one_line(each.token_file)}", "process": f"{each.pid}, which does not answer"}
    if status:
        questions, since = status["questions"], datetime.fromisoformat(status["since"]).astimezone()
        documents = [one_line(each["name"]) for each in status["documents"]]
        models = [f"{one_line(each['name'])} ({byte_size(each['bytes'])})" for each in status["models"]]
        rows |= {
            "process": f"{each.pid}, fbrag {status['version']}, since {since:%Y-%m-%d %H:%M:%S}",
            "documents": counted_names(documents, "document") if documents else "none",
            "models": ", ".join(models) or "none loaded",
            "memory": byte_size(status["bytes"]),
            "questions": f"{questions['running']} running, {questions['waiting']} waiting",
        }
    return [f"{name + ':':11}{value}" for name, value in rows.items()]


def stop(ports: Sequence[str], console: Console) -> int:
    """End a process, and wait for its end. The exit code is 1 if there is none.

    ports: its port; none is needed for the only one. Raises FbragError `usage`; `timeout` for a process that does not end.
    """
    found = [each for each in running() if not ports or [str(each.port)] == [*ports]]
    if len(found) > 1:
        shown = ", ".join(str(each.port) for each in found)
        raise FbragError("usage", f"{len(found)} processes serve, at the ports {shown}", f"fbrag serve stop {found[0].port}")
    if not found:
        console.note("no fbrag serve runs" + (f" at port {one_line(ports[0])}" if ports else ""))
        return ExitCode.NEGATIVE
    pid = found[0].pid
    with suppress(psutil.NoSuchProcess):  # once it has ended
        process, end = psutil.Process(pid), monotonic() + _END_SECONDS
        process.terminate()
        while process.status() != psutil.STATUS_ZOMBIE:  # whose parent has not looked yet
            if monotonic() >= end:
                raise FbragError("timeout", f"fbrag serve (process {pid}) did not end", f"kill -9 {pid}")
            sleep(_POLL_SECONDS)
    console.note(f"fbrag serve (process {pid}) has ended")
    return ExitCode.DONE
