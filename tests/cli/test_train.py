"""`fbrag train` as a user runs it, up to the training itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import needs
from tests.training.fit_rag.test_labels import rows_file

_RUN = """
import sys
from fbrag_cli.cli.main import main
from fbrag_cli.training.r2ag.training import R2agTraining
def told(self, work):
    import torch
    print("threads", torch.get_num_threads())
R2agTraining.run = told
sys.argv = ["fbrag", "train", "r2ag", sys.argv[1], "-t", "1", "-o", sys.argv[2]]
main()
"""


def test_threads_limit_torch(tmp_path: Path) -> None:
    for package in ("torch", "transformers", "peft", "gguf"):
        needs(package)
    command = [sys.executable, "-c", _RUN, str(rows_file(tmp_path)), str(tmp_path / "r2ag")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "threads 1" in done.stdout, done.stderr
