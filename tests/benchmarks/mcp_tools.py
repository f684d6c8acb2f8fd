"""Seconds of the handshake and of each tool of `fbrag mcp`, by the SDK's own client: medians, cold and warm.

Cold: the first call of a new process, whose documents and replies are in the cache. Warm: the later calls of one process. Answers
are asked for once before, so that they are in the cache; `wait_s` 0 is measured on a changed question, which is cancelled.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

_TIMES = 20
_INQUIRY = "Where was the anchor that lost its fluke forged?"


def tools(novel: str, inquiry: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the calls by their name in the table. `{i}` in a question becomes the number of the call."""
    asked = {"paths": [inquiry], "question": _INQUIRY, "wait_s": 600}
    return {
        "find_passages, the novel": ("find_passages", {"paths": [novel], "question": "Who paid for the wedding of Lydia?"}),
        "find_passages, the inquiry": ("find_passages", {"paths": [inquiry], "question": _INQUIRY}),
        "read_passage, the novel": ("read_passage", {"path": novel, "start_line": 1000, "end_line": 1040}),
        "ask_document, cached": ("ask_document", asked),
        "ask_document, wait_s 0": ("ask_document", {**asked, "question": "Who forged anchor {i}?", "wait_s": 0}),
        "explain_selection, cached": ("explain_selection", asked),
    }


@asynccontextmanager
async def opened(allowed: str) -> AsyncIterator[Any]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "fbrag_cli", "mcp", "--allow", allowed], env={**os.environ}
    )
    with open(os.devnull, "w") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            yield client


async def seconds(client: Any, name: str, arguments: dict[str, Any], i: int) -> float:
    numbered = {key: value.replace("{i}", str(i)) if key == "question" else value for key, value in arguments.items()}
    begun = time.perf_counter()
    result = await client.call_tool(name, numbered)
    elapsed = time.perf_counter() - begun
    assert not result.is_error, result.content[0].text
    if result.structured_content.get("status") == "running":  # its cancellation stops the job
        with anyio.move_on_after(0.2):
            await client.call_tool("ask_result", {"job": result.structured_content["job"], "wait_s": 60})
        await anyio.sleep(1)
    return elapsed


async def main(novel: str, inquiry: str) -> None:
    allowed = os.path.commonpath([novel, inquiry])
    shakes = []
    print("| call | cold | warm |\n|---|---|---|")
    for label, (name, arguments) in tools(novel, inquiry).items():
        cold, warm = [], []
        async with opened(allowed) as client:
            await seconds(client, name, arguments, 0)
            warm = [await seconds(client, name, arguments, i) for i in range(1, _TIMES + 1)]
        for i in range(_TIMES):
            begun = time.perf_counter()
            async with opened(allowed) as client:
                shakes.append(time.perf_counter() - begun)
                cold.append(await seconds(client, name, arguments, 100 + i))
        print(f"| {label} | {statistics.median(cold):.3f} | {statistics.median(warm):.3f} |", flush=True)
    print(f"| handshake | {statistics.median(shakes):.3f} | |")


if __name__ == "__main__":
    anyio.run(main, *(str(Path(each).resolve()) for each in sys.argv[1:]))
