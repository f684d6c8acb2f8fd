"""`fbrag batch --engine ray` with one worker and with two, a core each, on a cluster that this script starts.

    python tests/benchmarks/ray_workers.py [--documents 8] [--questions 6] [--model smollm2-135m]

The documents are parts of the inquiry (`tests/documents`), the questions its own. Prints the wall seconds of both runs, loading
included, their ratio, and whether their rows are equal to those of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from batch_loop import make
from ray.cluster_utils import Cluster

FBRAG = [sys.executable, "-m", "fbrag_cli", "batch"]


def rows(command: list[str], folder: Path) -> tuple[dict[tuple[str, str], object], float]:
    output = folder / "rows.jsonl"
    output.unlink(missing_ok=True)
    started = perf_counter()
    subprocess.run([*command, "-q", "-o", output.name], cwd=folder, check=True)
    took = perf_counter() - started
    found = map(json.loads, output.read_text("utf-8").splitlines())
    return {(row["document"], row["id"]): {**row, "seconds": None} for row in found}, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--questions", type=int, default=6)
    parser.add_argument("--model", default="smollm2-135m")
    options = parser.parse_args()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder, options.documents, options.questions, 400)
        documents = [f"{i + 1}.txt" for i in range(options.documents)]
        shared = ["-Q", "questions", "--no-cache", "--offline", "-t", "1", "--small", options.model, "--large", options.model]
        command = [*FBRAG, *documents, *shared, "--max-tokens", "32"]
        here, _ = rows(command, folder)
        took = []
        for n in (1, 2):
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
            for _ in range(n):
                cluster.add_node(num_cpus=1)
            found, seconds = rows([*command, "--engine", "ray", "--address", cluster.address], folder)
            cluster.shutdown()
            took.append(seconds)
            same = sum(found[key] == here[key] for key in here)
            print(f"{n} worker(s): {seconds:.1f} s, {same} of {len(here)} rows equal to those of one process", flush=True)
        print(f"two take {took[1] / took[0]:.2f} of the time of one")


if __name__ == "__main__":
    main()
