"""Seconds of `fbrag ask` on the models of `fbrag serve`, beside `--warm false`, in turns: cached and uncached answers.

Above the models: the wall time of a process, start of Python included, less the seconds of its stages in which models run. The
cache and the socket are the benchmark's own. Compile the modules before it (`python -m compileall fbrag_cli`), and unset
PYTHONDONTWRITEBYTECODE: a user has .pyc files. Where other work runs, `--before "chrt -f 50"` keeps it from the cores of what is
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_OF_MODELS = ("forward", "answer", "verify")
_QUESTION = "Where was the anchor that lost its fluke forged?"
_FEW = ("--samples", "2", "--recall", "1", "--select", "1", "--max-tokens", "16")
_FBRAG = (sys.executable, "-m", "fbrag_cli")


def measured(command: Sequence[str], environ: dict[str, str]) -> tuple[float, float]:
    """Run a command that prints JSON. Return its seconds of wall time, and those above the models."""
    begun = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    assert done.returncode in (0, 1), done.stderr
    stages = json.loads(done.stdout)["stages"]
    return seconds, seconds - sum(each["seconds"] for each in stages if each["name"] in _OF_MODELS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document")
    parser.add_argument("--large", required=True)
    parser.add_argument("--small")
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--before", default="", help="what each command is run by")
    options = parser.parse_args()
    models = ["--large", options.large, "--small", options.small or options.large]
    asked = [*shlex.split(options.before), *_FBRAG, "ask", options.document, _QUESTION, *models, *_FEW, "--json"]
    with tempfile.TemporaryDirectory() as folder:
        names = ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        for name in names:
            Path(folder, name).mkdir(mode=0o700)
        environ = {**os.environ, **{name: str(Path(folder, name)) for name in names}}
        server = [*shlex.split(options.before), *_FBRAG, "serve", "--print-ready"]
        with subprocess.Popen(server, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.stdout
                process.stdout.readline()
                measured(asked, environ)  # so that the document and the replies are cached, and the models loaded
                print("| answer | wall, `--warm false` | through it | ratio | above the models, `--warm false` | through it |")
                print("|---|---|---|---|---|---|")
                for label, more in (("cached", []), ("not cached", ["--again"])):
                    rounds = [
                        [measured([*asked, *more, "--warm", warm], environ) for warm in ("false", "auto")]
                        for _ in range(options.times)
                    ]
                    here, there = (list(zip(*each, strict=True)) for each in zip(*rounds, strict=True))
                    ratio = statistics.median(b / a for a, b in zip(here[0], there[0], strict=True))
                    walls, above = ([statistics.median(each[i]) for each in (here, there)] for i in (0, 1))
                    print(
                        f"| {label} | {walls[0]:.3f} | {walls[1]:.3f} | {ratio:.2f} | {above[0]:.3f} | {above[1]:.3f} |",
                        flush=True,
                    )
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
