"""Wrong input of every kind: one clear line, a hint, and the documented exit code. No model is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fbrag_cli import __version__
from tests.conftest import Run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text(" \n\t\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(400))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<<")
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ask"], 2, "missing argument"),
        (["ask", "fine.txt"], 2, "the question comes last"),
        (["ask", "Who?", "fine.txt"], 2, "the question comes last"),
        (["ask", "fine.txt", "  "], 2, "the question is empty"),
        (["ask", "-", "-"], 2, "stdin"),
        (["ask", "missing.txt", "Who?"], 3, "missing.txt"),
        (["ask", "fine.tx", "Who?"], 3, "fine.txt"),
        (["ask", "empty.txt", "Who?"], 3, "is empty"),
        (["ask", "blank.txt", "Who?"], 3, "white space"),
        (["ask", "folder", "Who?"], 3, "folder"),
        (["ask", "binary.bin", "Who?"], 3, "binary.bin"),
        (["ask", "picture.txt", "Who?"], 3, "PNG"),
        (["ask", "broken.pdf", "Who?"], 3, "broken.pdf"),
        (["ask", "fifo", "Who?"], 3, "fifo"),
        (["ask", "fine.txt", "Who?", "--encoding", "klingon"], 2, "klingon"),
        (["ask", "fine.txt", "Who?", "--selct", "3"], 2, "--select"),
        (["ask", "fine.txt", "Who?", "--select", "many"], 2, "--select many"),
        (["ask", "fine.txt", "Who?", "--samples", "0"], 2, "--samples"),
        (["ask", "fine.txt", "Who?", "--fusion", "cold"], 2, "--fusion"),
        (["ask", "fine.txt", "Who?", "--gpu-layers", "some"], 2, "--gpu-layers"),
        (["ask", "fine.txt", "Who?", "--device", "CUDA99"], 5, "CUDA99"),
        (["ask", "fine.txt", "Who?", "--tensor-split", "3,x"], 2, "--tensor-split 3,x"),
        (["ask", "fine.txt", "Who?", "--tensor-split", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"], 2, "17 shares"),
        (["ask", "fine.txt", "Who?", "-m", "qwen2.5-coder-15b"], 4, "qwen2.5-coder-1.5b"),
        (["ask", "fine.txt", "Who?", "--small", "fine.txt", "-m", "fine.txt"], 4, "fine.txt"),
        (["ask", "fine.txt", "Who?", "--instructions", "@missing"], 2, "missing"),
        (["ask", "fine.txt", "Who?", "--password-file", "missing"], 2, "missing"),
        (["aks", "fine.txt", "Who?"], 2, "ask"),
        (["explain", "fine.txt", "Who?", "-f", "md"], 2, "format"),
    ],
)
def test_bad_input(fbrag: Run, files: Path, arguments: list[str], code: int, said: str) -> None:
    done = fbrag(*arguments, timeout=60)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert said in done.stderr


def test_an_error_with_json_is_an_object_on_stdout_too(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "missing.txt", "Who?", "--json")
    told = json.loads(done.stdout)
    assert told["schema"] == "fbrag.error/1"
    assert told["error"]["code"] == "doc_not_found"
    assert told["error"]["document"] == "missing.txt"
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")


def test_without_models_and_terminal_the_error_names_the_command(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", env={"FBRAG_MODELS_DIR": str(files / "none")})
    assert done.returncode == 4
    assert "hint: fbrag models pull" in done.stderr
    offline = fbrag("ask", "fine.txt", "Who?", "-y", "--offline", env={"FBRAG_MODELS_DIR": str(files / "none")})
    assert offline.returncode == 4
    assert "offline" in offline.stderr


def test_quiet_twice_says_nothing_at_all(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "missing.txt", "Who?", "-qq")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_a_gpu_that_lies_idle_is_a_warning_each_time(fbrag: Run, files: Path, tmp_path: Path) -> None:
    from fbrag_cli.generation.llama.machine import built_for_gpu

    if built_for_gpu():
        pytest.skip("this build of llama.cpp can use a GPU")
    driver = tmp_path / "driver" / "nvidia-smi"  # what shows that there is one
    driver.parent.mkdir()
    driver.touch(0o755)
    path = {"PATH": f"{driver.parent}{os.pathsep}{os.environ['PATH']}"}
    told = fbrag("ask", "fine.txt", "Who?", "--dry-run", env=path)
    assert told.returncode == 0
    assert "NVIDIA GPU, and this build of llama.cpp cannot use it" in told.stderr
    assert "GGML_CUDA=on" in told.stderr
    assert fbrag("ask", "fine.txt", "Who?", "--dry-run", "--gpu", "off", env=path).stderr == ""


def test_a_gpu_that_is_required_and_not_there_is_exit_5(fbrag: Run, files: Path) -> None:
    from fbrag_cli.generation.llama.machine import gpus

    if gpus():
        pytest.skip("this machine has one")
    done = fbrag("ask", "fine.txt", "Who?", "--gpu", "require")
    assert done.returncode == 5
    assert "no GPU" in done.stderr


def test_options_may_stand_anywhere_and_the_environment_counts(fbrag: Run, files: Path) -> None:
    plans = {
        fbrag("--no-progress", "ask", "--select", "3", "fine.txt", "--dry-run", "Who?").stdout,
        fbrag("ask", "fine.txt", "Who?", "--dry-run", "--select=3", "--no-progress").stdout,
        fbrag("ask", "--dry-run", "--", "fine.txt", "Who?", env={"FBRAG_SELECT": "3"}).stdout,
    }
    assert len(plans) == 1


def test_version_and_help(fbrag: Run) -> None:
    assert fbrag("--version").stdout == f"fbrag {__version__}\n"
    assert "llama-cpp-python" in fbrag("-v", "--version").stdout
    told = fbrag("ask", "--help").stdout
    assert told.index("Examples:") < told.index("Output options:") < told.index("Models options:")
    assert all(len(line) <= 100 for line in told.splitlines())


def test_help_and_list_import_nothing_heavy(fbrag: Run, clean_environment: dict[str, str]) -> None:
    import subprocess
    import sys

    for arguments in (["--help"], ["--version"], ["models", "list"], ["config", "path"]):
        code = f"import sys; sys.argv = ['fbrag', *{arguments!r}]\n"
        code += "from fbrag_cli.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
        code += (
            "print([name for name in ('numpy', 'llama_cpp', 'pypdf', 'huggingface_hub', 'rich.console') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment, check=True)
        assert done.stdout.splitlines()[-1] == "[]", (arguments, done.stdout)


# -- the likeliest first mistakes ---------------------------------------------------------------------------------------------

ADDRESS = "https://example.org/a b.html?page=1&all"


@pytest.mark.parametrize(
    ("arguments", "code", "error", "command"),
    [
        (
            ["ask", "fine.txt", "Who", "sealed", "it?", "--json"],
            2,
            "there is no file Who: a question of several words needs quotes",
            "fbrag ask fine.txt 'Who sealed it?' --json",
        ),
        (
            ["explain", "-n", "3", "fine.txt", "folder", "the", "captain's", "box"],
            2,
            "there is no file the: a question of several words needs quotes",
            """fbrag explain -n 3 fine.txt folder 'the captain'"'"'s box'""",
        ),
        (["fine.txt", "Who sealed it?"], 2, "fine.txt is a document, not a command", "fbrag ask fine.txt 'Who sealed it?'"),
        (
            ["-q", "fine.txt", "Who", "sealed", "it?", "-a"],
            2,
            "fine.txt is a document, not a command",
            "fbrag -q ask fine.txt 'Who sealed it?' -a",
        ),
        (["missing.txt", "Who?"], 2, "there is no command missing.txt", "fbrag ask missing.txt 'Who?'"),
        (["Who sealed it?"], 2, "'Who sealed it?' is a question, not a command", "fbrag ask DOC 'Who sealed it?'"),
        (["fine.txt"], 2, "fine.txt is a document, not a command", "fbrag ask fine.txt 'Who …?'"),
        (
            ["ask", ADDRESS, "Who?", "-a"],
            3,
            f"{ADDRESS} is an address: fbrag reads files and stdin, and fetches no document",
            f"curl -sL '{ADDRESS}' | fbrag ask - 'Who?' -a",
        ),
        (
            ["explain", "--text", ADDRESS],
            3,
            f"{ADDRESS} is an address: fbrag reads files and stdin, and fetches no document",
            f"curl -sL '{ADDRESS}' | fbrag explain --text -",
        ),
        (
            ["ask", "fine.txt", ADDRESS, "http://example.org", "Who?"],
            3,
            f"{ADDRESS} is an address: fbrag reads files and stdin, and fetches no document",
            f"curl -sLO '{ADDRESS}'",
        ),
        (
            ["ask", "fine.txt", "-a"],
            2,
            "fine.txt is a document, not a question: the question comes last",
            "fbrag ask fine.txt 'Who …?' -a",
        ),
        (
            ["ask", "Who is it?", "fine.txt"],
            2,
            "fine.txt is a document, not a question: the question comes last",
            "fbrag ask fine.txt 'Who is it?'",
        ),
        (
            ["ask", "Who is it?"],
            2,
            "a document and a question are needed: the question comes last",
            "fbrag ask DOC 'Who is it?'",
        ),
        (["ask", "fine.txt", " "], 2, "the question is empty", "fbrag ask fine.txt 'Who …?'"),
    ],
)
def test_a_first_mistake_gets_the_command_to_type(
    fbrag: Run, files: Path, arguments: list[str], code: int, error: str, command: str
) -> None:
    done = fbrag(*arguments, timeout=60)
    assert done.stderr.splitlines() == [f"error: {error}", f"hint: {command}"]
    assert done.returncode == code


def test_the_command_of_a_hint_can_be_pasted(fbrag: Run, files: Path) -> None:
    import shlex

    told = fbrag("fine.txt", "the", "captain's", "$HOME", "--dry-run").stderr.splitlines()[1].removeprefix("hint: ")
    assert shlex.split(told) == ["fbrag", "ask", "fine.txt", "the captain's $HOME", "--dry-run"]
    assert fbrag(*shlex.split(told)[1:]).returncode == 0


def test_a_missing_question_is_not_waited_for_on_a_terminal(clean_environment: dict[str, str], files: Path) -> None:
    import pty
    import subprocess
    import sys

    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "fbrag_cli", "ask", "fine.txt"]
    done = subprocess.run(
        command, stdin=terminal, capture_output=True, text=True, env=clean_environment, cwd=files, timeout=60, check=False
    )
    os.close(master)
    os.close(terminal)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == "hint: fbrag ask fine.txt 'Who …?'"


def test_a_question_that_names_a_missing_file_is_still_a_question(fbrag: Run, files: Path) -> None:
    """A second document that is not there is what it was: a document that is not there."""
    done = fbrag("ask", "fine.txt", "missing.txt", "Who sealed it?")
    assert done.returncode == 3
    assert "there is no file missing.txt" in done.stderr


# -- wrong values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--samples", "many"], "--samples many: expected a whole number from 1 to 64", "fbrag ask --help"),
        (["--samples", "0"], "--samples 0: expected a whole number from 1 to 64", "fbrag ask --help"),
        (["--context", "-1"], "--context -1: expected a whole number, at least 0", "fbrag ask --help"),
        (["--top-p", "all"], "--top-p all: expected a number from 0 to 1", "fbrag ask --help"),
        (["--gpu", "of"], "--gpu of: expected one of auto, off, require", "did you mean off?"),
        (["--color", "allways"], "--color allways: expected one of auto, always, never", "did you mean always?"),
        (["--fusion", "cold"], "--fusion cold: expected one of raw, minmax", "fbrag ask --help"),
    ],
)
def test_a_wrong_value_says_what_is_right(fbrag: Run, files: Path, arguments: list[str], error: str, hint: str) -> None:
    done = fbrag("ask", "fine.txt", "Who?", *arguments)
    assert done.stderr.splitlines() == [f"error: {error}", f"hint: {hint}"]
    assert done.returncode == 2


def test_a_method_that_is_misspelled(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", "--method", "vanila")
    assert done.stderr.splitlines()[1] == "hint: did you mean vanilla?"


def test_a_wrong_value_of_a_variable_names_the_variable(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", env={"FBRAG_SAMPLES": "many"})
    assert done.stderr.splitlines()[0] == "error: FBRAG_SAMPLES many: expected a whole number from 1 to 64"


# -- variables ---------------------------------------------------------------------------------------------------------------


def test_every_long_option_has_its_variable_or_belongs_to_one_run() -> None:
    from dataclasses import fields

    from fbrag_cli.cli.config_keys import OF_ONE_RUN, every_group
    from fbrag_cli.cli.options import RootOptions
    from fbrag_cli.cli.takes import option_of

    for group in [RootOptions, *every_group()]:
        for each in fields(group):
            option = option_of(each)
            if any(name.startswith("--") for name in option.param_decls or ()):
                assert option.envvar or each.name in OF_ONE_RUN, f"{group.__name__}.{each.name}"


def test_a_variable_sets_the_encoding(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", "--dry-run", env={"FBRAG_ENCODING": "klingon"})
    assert done.returncode == 2
    assert "klingon" in done.stderr


def test_a_variable_that_nothing_reads_is_a_warning(fbrag: Run, files: Path) -> None:
    unknown = {"FBRAG_SAMPELS": "3", "FBRAG_WEIGHTS": "1:0", "FBRAG_MODELS_DIR": str(files)}
    done = fbrag("ask", "fine.txt", "Who?", "--dry-run", env=unknown)
    assert done.returncode == 0
    assert done.stderr == "warning: fbrag reads no FBRAG_SAMPELS; did you mean FBRAG_SAMPLES?\n"
    assert fbrag("-q", "ask", "fine.txt", "Who?", "--dry-run", env=unknown).stderr == ""
