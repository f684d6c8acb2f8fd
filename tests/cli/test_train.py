"""`fbrag train` as a user runs it, up to the training itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import needs
from tests.training.ships import rows_file

_RUN = """
import sys
from types import SimpleNamespace
from fbrag_cli.cli.main import main
from fbrag_cli.training.registry import TRAININGS
def told(work, settings):
    import torch
    print("threads", torch.get_num_threads())
sys.modules["told"] = SimpleNamespace(train=told)
training = next(iter(TRAININGS))
TRAININGS[training] = "told"
sys.argv = ["fbrag", "train", training.name, sys.argv[1], "-t", "1", "-o", sys.argv[2]]
main()
"""


def test_threads_limit_torch(tmp_path: Path) -> None:
    for package in ("torch", "transformers", "peft", "gguf"):
        needs(package)
    command = [sys.executable, "-c", _RUN, str(rows_file(tmp_path)), str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "threads 1" in done.stdout, done.stderr
