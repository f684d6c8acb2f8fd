"""`fbrag mcp` before a client speaks to it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conftest import ROOT, Run


def test_without_the_sdk_the_error_names_the_extra(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp', name='mcp')\n")
    run = fbrag("mcp", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])})
    assert run.returncode == 2
    assert run.stdout == ""
    assert "[mcp]" in run.stderr


def test_a_folder_that_is_not_there_is_named(fbrag: Run) -> None:
    run = fbrag("mcp", "--allow", "nowhere")
    assert run.returncode == 2
    assert run.stderr.startswith("error: --allow nowhere: ")


def test_without_a_client_it_ends(fbrag: Run) -> None:
    run = fbrag("mcp")
    assert (run.returncode, run.stdout) == (0, "")
