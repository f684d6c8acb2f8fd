"""`fbrag mcp` before a client speaks to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fbrag_cli.installation import extra
from tests.conftest import ROOT, Run


def test_without_the_sdk_the_error_names_the_extra(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp', name='mcp')\n")
    run = fbrag("mcp", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])})
    assert run.returncode == 2
    assert run.stdout == ""
    assert extra("mcp") in run.stderr


def test_a_folder_that_is_not_there_is_named(fbrag: Run) -> None:
    run = fbrag("mcp", "--allow", "nowhere")
    assert run.returncode == 2
    assert run.stderr.startswith("error: --allow nowhere: ")


def test_without_a_client_it_ends(fbrag: Run) -> None:
    run = fbrag("mcp")
    assert (run.returncode, run.stdout) == (0, "")


def test_a_home_and_what_holds_it_are_read_only_by_name(clean_environment: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "papers").mkdir(parents=True)
    environment = clean_environment | {"HOME": str(home), "USERPROFILE": str(home), "PYTHONPATH": str(ROOT)}
    allowed = ["--allow", str(home)]
    for folder, options, code in ((home, [], 2), (tmp_path, [], 2), ("/", [], 2), (home / "papers", [], 0), (home, allowed, 0)):
        command = [sys.executable, "-m", "fbrag_cli", "mcp", *options]
        run = subprocess.run(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert (run.returncode, "--allow FOLDER" in run.stderr) == (code, code == 2)
