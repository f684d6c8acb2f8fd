"""What an attack found: full disks, closed streams, numbers out of range, signals. Nothing ends in a traceback, or in 1."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.conftest import INQUIRY, ROOT, Run, heed_hangup

FBRAG = f"{shlex.quote(sys.executable)} -m fbrag_cli"
Environ = dict[str, str]
Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(clean_environment: Environ, tmp_path: Path) -> Shell:
    """Run a line of bash, where `$fbrag` is the command."""

    def run(line: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
        return subprocess.run(
            ["bash", "-c", line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=clean_environment | {"fbrag": FBRAG, "PYTHONUNBUFFERED": ""},
            cwd=tmp_path,
            timeout=60,
            check=False,
        )

    return run


def _one_error(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    """Check for one error line, at most one hint, and the exit code."""
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: "), done.stderr
    assert said in lines[0]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), done.stderr


# -- streams -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "--version",
        "ask --help",
        "models list --all",
        "models list --json",
        "config show",
        "ask --dry-run fine.txt Who?",
        "explain --method vanilla fine.txt brig",
        "explain --method vanilla fine.txt brig --json",
        f"text {shlex.quote(str(INQUIRY))}",
    ],
)
@pytest.mark.parametrize("buffered", [True, False])
def test_stdout_that_cannot_be_written_is_exit_5(shell: Shell, arguments: str, buffered: bool) -> None:
    done = shell(f"PYTHONUNBUFFERED={'' if buffered else 1} $fbrag {arguments} > /dev/full")
    _one_error(done, 5, "could not write to stdout: No space left on device")


@pytest.mark.parametrize(("arguments", "code"), [("ask --dry-run fine.txt Who?", 0), ("ask missing.txt Who?", 3), ("--help", 0)])
@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams_change_no_exit_code(shell: Shell, tmp_path: Path, arguments: str, code: int, closed: str) -> None:
    done = shell(f"$fbrag {arguments} {closed}")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "fine.txt").read_text() == "The brig sailed at noon."  # nobody wrote an error into a file of number 2


def test_stdin_that_is_closed_is_empty(shell: Shell) -> None:
    _one_error(shell("$fbrag ask --dry-run - Who? <&-"), 3, "stdin")


def test_a_pipe_that_nobody_reads_is_no_error(shell: Shell) -> None:
    for arguments in ("--help", "--version", "models list --all"):
        done = shell(f"$fbrag {arguments} | true; echo ${{PIPESTATUS[0]}}")
        assert (done.stdout, done.stderr) == ("0\n", "")


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


def test_a_question_arrives_as_utf_8_whatever_the_locale(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "straße.txt").write_text("Die Straße heißt Mühlweg.\n" + "Ein Satz ohne das Wort.\n" * 200, "utf-8")
    arguments = ("explain", "--method", "vanilla", "straße.txt", "Wie heißt die Straße?", "--json")
    plain, bare = fbrag(*arguments), fbrag(*arguments, env=C_LOCALE)
    assert (bare.returncode, bare.stderr.splitlines()[:-1]) == (0, plain.stderr.splitlines()[:-1])  # the last one has seconds
    assert json.loads(bare.stdout)["question"] == "Wie heißt die Straße?"
    scores = [[chunk["backward_score"] for chunk in json.loads(each.stdout)["chunks"]] for each in (bare, plain)]
    assert scores[0] == scores[1]
    assert scores[0][0] > 0


def test_a_question_with_bytes_that_are_no_text_is_asked(shell: Shell) -> None:
    done = shell("$fbrag explain --method vanilla fine.txt $'brig \\xff\\xfe?'")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", ["--lang", "--encoding", "--large", "--pages", "--method", "--format", "--select", "--gpu"])
def test_a_message_repeats_no_argument_of_100_kb(fbrag: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    done = fbrag("ask", "fine.txt", "Who?", option, "x" * 100_000)
    assert done.returncode in (2, 4), done.stderr[:1000]
    assert all(len(line) < 1100 for line in done.stderr.splitlines())
    assert done.stderr.startswith("error: ")


# -- folders -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_temporary_folder(tmp_path: Path) -> str:
    """Code for `python -c` that runs the command where no temporary folder can be written, as in a read-only container."""
    return (
        "import sys, tempfile\n"
        "def nowhere(*args, **names): raise FileNotFoundError(2, 'No usable temporary directory found in [...]')\n"
        "tempfile._get_default_tempdir = nowhere\n"
        "from fbrag_cli.__main__ import main\n"
    )


def _python(code: str, environment: Environ, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=60, check=False)


def test_without_a_temporary_folder_it_answers_from_memory(
    clean_environment: Environ, tmp_path: Path, no_temporary_folder: str
) -> None:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    code = no_temporary_folder + "main()"
    done = _python(code, clean_environment, tmp_path, "ask", "--no-cache", "--dry-run", "fine.txt", "Who?")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr == ""  # nothing is missing
    done = _python(code, clean_environment, tmp_path, "ask", "--no-cache", "--dry-run", ".", "fine.txt", "Who?")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_internal_error_whose_log_cannot_be_written_prints_its_last_line(
    clean_environment: Environ, tmp_path: Path, no_temporary_folder: str
) -> None:
    fault = "import fbrag_cli.cli.config\nfbrag_cli.cli.config.locate = lambda *given: {}['gone']\nmain()"
    done = _python(no_temporary_folder + fault, clean_environment, tmp_path, "config", "path")
    _one_error(done, 70, "KeyError: 'gone'")


def test_the_working_folder_was_deleted(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "notes" / name).write_text("The brig sailed at noon.")
    gone = "mkdir gone && cd gone && rmdir ../gone &&"
    for options in ("", "FBRAG_CACHE_DIR=c FBRAG_MODELS_DIR=m"):
        done = shell(f"{gone} {options} $fbrag ask --dry-run ../notes Who?".replace("../notes", str(tmp_path / "notes")))
        assert done.returncode in ((0, 5) if options else (0,)), done.stderr
        assert "Traceback" not in done.stderr
    assert shell(f"{gone} FBRAG_MODELS_DIR=m $fbrag models list").returncode == 0
    assert shell(f"{gone} $fbrag ask --dry-run fine.txt Who?").returncode == 3
    _one_error(shell(f"{gone} $fbrag ask --dry-run {tmp_path / 'fine.txt'} Who? -o out.txt"), 2, "out.txt")


@pytest.mark.parametrize("most", [6, 8, 10, 12])
def test_too_few_open_files_is_exit_5(shell: Shell, tmp_path: Path, most: int) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "notes" / name).write_text("The brig sailed at noon.")
    for arguments in ("explain --method vanilla fine.txt brig", "ask --dry-run notes Who?"):
        done = shell(f"ulimit -n {most}; $fbrag {arguments}")
        assert done.returncode in (0, 5), (most, done.stderr)
        assert "Traceback" not in done.stderr
        if done.returncode:
            _one_error(done, 5, "open")


# -- numbers -----------------------------------------------------------------------------------------------------------------

MANY = "9" * 31


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--timeout", value] for value in ("inf", "nan", "1e10", "1e300")),
        *(["--select", value] for value in ("infk", "nank", "1e400k")),
        *(["--select", value] for value in ("infk", "1e400k")),
        *(["--set", f"cache-limit={value}"] for value in ("inf", "nan", "1e300")),
        *(["--threads", value] for value in ("1000000", MANY)),
        *(["--set", f"weights={value}:1"] for value in ("inf", "nan", "1e38", "1e300")),
        ["--set", "weights=1:1e38", "--json"],
        ["--set", "temperature=inf"],
    ],
)
def test_a_number_out_of_range_is_a_usage_error(fbrag: Run, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    _one_error(fbrag("ask", "--dry-run", "fine.txt", "Who?", *arguments), 2, arguments[0].strip("-"))


@pytest.mark.parametrize("name", ["chunk-words", "select", "rows", "chunk", "seed"])
def test_a_whole_number_of_31_digits_is_taken_or_refused(fbrag: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    done = fbrag("explain", "--method", "vanilla", "fine.txt", "Who?", f"--{name}", MANY)
    assert done.returncode in (0, 2), done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "{a=" * 5000 + "1" + "}" * 5000,
        "select = " + "9" * 5000,
        "x = " + "9" * 5000,
        "cache_limit = " + "9" * 400,
        "threads = " + "9" * 400,
        "seed = 1e400",
        "cache_limit = inf",
        "timeout = nan",
    ],
    ids=lambda text: text[:20],
)
def test_a_configuration_file_that_goes_too_far_is_one_line(fbrag: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "own.toml").write_text(text + "\n")
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    _one_error(fbrag("ask", "--dry-run", "fine.txt", "Who?", "--config", "own.toml"), 2, "own.toml")
    _one_error(fbrag("config", "show", "--config", "own.toml"), 2, "own.toml")
    done = fbrag("config", "set", "gpu", "off", "--config", "own.toml")
    assert done.returncode in (0, 2)
    if done.returncode:
        _one_error(done, 2, "own.toml")


def test_a_key_of_5000_dots_is_one_line(fbrag: Run, tmp_path: Path) -> None:
    dots = ".".join("a" * 5000)
    for arguments in (["set", dots, "1"], ["get", dots], ["unset", dots]):
        _one_error(fbrag("config", *arguments), 2, "unknown setting")
    (tmp_path / "own.toml").write_text(f"{dots} = 1\n")
    done = fbrag("config", "set", "gpu", "off", "--config", "own.toml")
    assert done.returncode in (0, 2), done.stderr


# -- signals -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [0.03, 0.06, 0.1, 0.15, 0.2, 0.3])
def test_ctrl_c_at_the_start_says_nothing(clean_environment: Environ, tmp_path: Path, wait: float) -> None:
    """The wait is counted from the "!" that the first call of `signal.signal` prints."""
    code = "import signal, sys\nfrom fbrag_cli import __main__\nset_ = signal.signal\n"
    code += "def told(*given):\n  signal.signal = set_\n  done = set_(*given)\n  print('!', flush=True)\n  return done\n"
    code += "signal.signal = told\n__main__.main()"
    command = [sys.executable, "-c", code, "explain", "--method", "vanilla", str(INQUIRY), "Who was the master?"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment, cwd=tmp_path
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "!\n"
        sleep(wait)
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=30)
    assert run.returncode in (-signal.SIGINT, 130, 0)  # a shell sees 130 for the first two
    assert stderr == ""


def test_a_hangup_ends_with_129_and_takes_the_temporary_files_along(clean_environment: Environ, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "fbrag_cli", "ask", "--no-cache", "--dry-run", str(INQUIRY), "-", "-o", "out.txt"]
    environment = clean_environment | {"TMPDIR": str(tmp_path / "tmp")}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=tmp_path, preexec_fn=heed_hangup
    ) as run:
        started = monotonic()
        while not list(tmp_path.glob(".out.txt.*.part")):
            assert monotonic() - started < 30
            sleep(0.02)
        sleep(0.3)  # it waits for the question now
        run.send_signal(signal.SIGHUP)
        run.wait(timeout=30)  # stdin stays open: its end would be an empty question
        assert run.stderr is not None
        stderr = run.stderr.read()
    assert (run.returncode, stderr) == (129, b"")
    assert not list(tmp_path.glob(".out.txt*"))
    assert not list((tmp_path / "tmp").iterdir())


def test_nohup_is_obeyed(clean_environment: Environ, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "ask", "--dry-run", str(INQUIRY), "-", "-o", "out.txt"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=clean_environment,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as run:
        started = monotonic()
        while not list(tmp_path.glob(".out.txt.*.part")):
            assert monotonic() - started < 30
            sleep(0.02)
        run.send_signal(signal.SIGHUP)
        run.communicate(b"Who?", timeout=30)
    assert run.returncode == 0
    assert (tmp_path / "out.txt").exists()


# -- the last resort ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("class Panic(BaseException): pass\nfault = Panic('in Rust')", 70, "internal error (Panic)"),
        ("fault = ValueError('no')", 70, "internal error (ValueError)"),
        ("fault = MemoryError()", 5, "out of memory"),
        ("fault = OSError(24, 'Too many open files')", 5, "too many open files"),
        ("fault = ImportError('libz.so: failed to map segment from shared object')", 5, "out of memory"),
    ],
)
def test_nothing_unforeseen_is_exit_1(clean_environment: Environ, tmp_path: Path, fault: str, code: int, said: str) -> None:
    """Raised in a command, and while the command line is loaded."""
    raised = f"{fault}\ndef fail(*given):\n  raise fault\n"
    in_command = f"import fbrag_cli.cli.config\n{raised}fbrag_cli.cli.config.locate = fail\n"
    at_load = (
        f"import importlib.machinery, sys\n{raised}class Finder:\n  find_spec = staticmethod(fail)\nsys.modules.pop('typer', 0)\n"
    )
    at_load += "sys.meta_path.insert(0, Finder)\n"
    for program in (in_command, f"from fbrag_cli import __main__\n{at_load}"):
        start = "from fbrag_cli.__main__ import main\n" + program + "main()"
        done = _python(start, clean_environment | {"TMPDIR": str(tmp_path)}, tmp_path, "config", "path")
        _one_error(done, code, said)


def test_an_error_for_scripts_is_one_object_also_where_memory_is_short(clean_environment: Environ, tmp_path: Path) -> None:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    program = (
        "from fbrag_cli.__main__ import main\nimport fbrag_cli.cli.ask as a\ndef fail(*given): raise OSError(24, 'Too many')\n"
    )
    program += "a.read_question = fail\nmain()"
    done = _python(program, clean_environment, tmp_path, "ask", "--json", "--dry-run", "fine.txt", "Who?")
    assert json.loads(done.stdout)["error"]["code"] == "out_of_memory"


@pytest.mark.parametrize(("stop", "code"), [("KeyboardInterrupt()", 130), ("Terminated(15)", 143)])
def test_a_signal_that_python_wraps_is_no_internal_error(
    clean_environment: Environ, tmp_path: Path, stop: str, code: int
) -> None:
    """What is raised while a class is made, in a `__set_name__`, reaches the caller as the cause of a RuntimeError."""
    fault = f"""
import sys
from fbrag_cli.cli import main
from fbrag_cli.cli.signals import Terminated
def wrapped():
    raise RuntimeError("Error calling __set_name__") from {stop}
main.Commands = wrapped
sys.argv = ["fbrag", "config", "path"]
main.main()
"""
    done = _python(fault, clean_environment, tmp_path, "config", "path")
    assert (done.returncode, done.stderr) == (code, "")


def test_a_limit_of_processor_time_that_ends_a_reading_is_named() -> None:
    """`ulimit -t` kills the process that reads, as a system does that lacks memory."""
    pytest.importorskip("resource", reason="Windows has no such limits")
    code = (
        "import math, resource; resource.setrlimit(resource.RLIMIT_CPU, (2, 2))\n"
        "from fbrag_cli.workers import run_jobs\n"
        "((_, found),) = run_jobs(math.factorial, [100_000_000], processes=1)\n"
        "print(found.error.code, int(found.error.exit_code), found.error.message)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.stdout.startswith("timeout 5 a document took more than the 2 s of CPU time"), (done.stdout, done.stderr)


def test_many_unknown_keys_take_no_time_and_five_lines(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text("".join(f"unknown_{i} = 1\n" for i in range(20_000)))
    began = monotonic()
    done = shell('$fbrag ask fine.txt "Who?" --dry-run --config many.toml')
    assert monotonic() - began < 20
    assert done.returncode == 0
    assert done.stderr.count("unknown setting") == 5
