"""Seconds of the tools of `fbrag mcp`, by the SDK's own client over a real process: the first call of a process, and later ones.

    python tests/benchmarks/tool_calls.py BOOK QUESTION [--repeat 20]

Models and cache are the user's. The question is asked once before, so that the models' replies are in the cache: what is measured
is fbrag, not the models. A cold call is the first one of a new process, without the handshake, which has a line of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


def calls(book: str, question: str) -> dict[str, dict[str, Any]]:
    asked = {"paths": [book], "question": question}
    return {
        "find_passages": asked,
        "ask_document": {**asked, "wait_s": 600},
        "explain_selection": {**asked, "find": "the", "wait_s": 600},
        "read_passage": {"path": book, "start_line": 100, "end_line": 120},
    }


async def measured(book: Path, question: str, repeat: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return the seconds of cold and of warm calls, by tool."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "fbrag_cli", "-q", "mcp", "--allow", str(book.parent)], env=dict(os.environ)
    )
    found: dict[str, tuple[list[float], list[float]]] = {"handshake": ([], [])}
    for name, arguments in calls(str(book), question).items():
        cold, warm = found.setdefault(name, ([], []))
        for _ in range(repeat + 1):
            begun = perf_counter()
            async with Client(stdio_client(server)) as client:
                found["handshake"][0].append(perf_counter() - begun)
                for seconds in (cold, warm):
                    begun = perf_counter()
                    result = await client.call_tool(name, arguments)
                    seconds.append(perf_counter() - begun)
                    assert not result.is_error, result.content[0].text
        del cold[0], warm[0]  # these fill the cache
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path)
    parser.add_argument("question")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    for name, (cold, warm) in anyio.run(measured, options.book.resolve(), options.question, options.repeat).items():
        print(f"| `{name}` | {median(cold):.2f} | {f'{median(warm):.2f}' if warm else ''} |")


if __name__ == "__main__":
    main()
