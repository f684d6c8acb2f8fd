"""Seconds until a terminal shows the first excerpt, the first word of the answer and the whole of it, and what was forecast.

    python -m tests.benchmarks.first_words DOCUMENT QUESTION... [--columns 100] [--options "--fast"]

Each question is a process of `fbrag ask` on a pseudo-terminal of its own. They share an empty cache: the first one has no
forecast. Prints the screens as a person saw them, too.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from time import monotonic

from tests.cli.screen import Screen, on_screen

_LEFT = re.compile(r"about (\d+) s left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--options", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FBRAG_CACHE_DIR": folder}
        for question in options.questions:
            command = ["ask", str(options.document.resolve()), question, *shlex.split(options.options)]
            _ask(command, options.columns, environment, Path(folder))


def _ask(command: list[str], columns: int, environment: dict[str, str], folder: Path) -> None:
    began = monotonic()
    seen: dict[str, float] = {}
    forecasts: list[tuple[float, int]] = []
    screens: dict[str, list[str]] = {}

    def look(screen: Screen, process: subprocess.Popen[bytes], terminal: int) -> None:
        now, lines = monotonic() - began, screen.lines()
        for what, mark in (("first excerpt", "Nearest to"), ("first word", "unchecked: "), ("check", "checking the answer")):
            if what not in seen and any(line.startswith(mark) for line in lines):
                seen[what], screens[what] = now, lines
        if "Sources:" in lines or "Closest:" in lines:
            seen.setdefault("whole answer", now)
        elif lines and (found := _LEFT.search(lines[-1])):
            forecasts.append((now, int(found[1])))

    screen, code = on_screen(columns, 30, command, environment, folder, look)
    print(f"\n$ fbrag {shlex.join(command)}   (exit {code})")
    print(", ".join(f"{what}: {seconds:.1f} s" for what, seconds in seen.items()))
    for share in (0, 0.25, 0.5, 0.75):
        if forecasts:
            at, left = forecasts[int(share * len(forecasts))]
            print(f"forecast at {at:.1f} s: the answer at {at + left:.0f} s")
    for what in ("first excerpt", "check"):
        print(f"--- {what}", *screens.get(what, []), sep="\n")
    print("--- at the end", *screen.lines(), sep="\n")


if __name__ == "__main__":
    main()
