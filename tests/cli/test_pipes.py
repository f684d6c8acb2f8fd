"""Streams that nobody reads, and output files that cannot be written: the exit code is that of the work, or of the file."""

from __future__ import annotations

import errno
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fbrag_cli.cli.streams import open_output

Shell = Callable[[str], subprocess.CompletedProcess[str]]

EXPLAIN = "$fbrag explain --method vanilla fine.txt brig"


@pytest.fixture
def shell(clean_environment: dict[str, str], tmp_path: Path) -> Shell:
    """Run a line of bash, where `$fbrag` is the command. It exits as the first command of its pipe."""
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    command = f"fbrag={shlex.quote(f'{sys.executable} -m fbrag_cli')}"

    def run(line: str) -> subprocess.CompletedProcess[str]:
        bash = ["bash", "-c", f"{command}; {line}; exit ${{PIPESTATUS[0]}}"]
        return subprocess.run(bash, capture_output=True, text=True, env=clean_environment, cwd=tmp_path, timeout=60, check=False)

    return run


@pytest.mark.parametrize("arguments", ["ask --json missing.txt Who?", "ask -a missing.txt Who?"])
@pytest.mark.parametrize("stdout", ["| true", "> /dev/full"])
def test_an_error_keeps_its_code_where_stdout_is_gone(shell: Shell, arguments: str, stdout: str) -> None:
    done = shell(f"$fbrag {arguments} {stdout}")
    assert done.returncode == 3
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] in (["error"], ["error", "hint"])
    assert "missing.txt" in done.stderr


def test_work_goes_on_where_nobody_reads_its_messages(shell: Shell, tmp_path: Path) -> None:
    assert shell("$fbrag ask missing.txt Who? 2>&1 | true").returncode == 3
    done = shell(f"{EXPLAIN} -v -o a.txt 2>&1 | true")
    assert (done.returncode, (tmp_path / "a.txt").read_text()) == (0, shell(EXPLAIN).stdout)


def test_a_page_is_not_blamed_for_a_pipe(shell: Shell) -> None:
    done = shell(f"{EXPLAIN} --html p.html | true")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_not_blamed_for_the_work(tmp_path: Path) -> None:
    def work() -> None:
        with open_output(str(tmp_path / "a.txt")) as stream:
            stream.write("a")
            raise OSError(errno.EIO, "work")

    with pytest.raises(OSError, match="work"):
        work()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_a_full_disk_is_exit_5_and_the_hint_names_the_option(shell: Shell, option: str) -> None:
    done = shell(f"{EXPLAIN} {option} /dev/full")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-2:] == [
        "error: /dev/full cannot be written: No space left on device",
        f"hint: choose another {option} FILE",
    ]


@pytest.mark.parametrize("command", ["ask fine.txt Who? -o", "batch fine.txt -Q fine.txt --method vanilla -o"])
def test_a_name_that_is_too_long_is_an_error_of_the_file(shell: Shell, command: str) -> None:
    done = shell(f"$fbrag {command} {300 * 'x'}")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"error: {300 * 'x'} cannot be written: File name too long"
