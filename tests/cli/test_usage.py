"""Wrong input of every kind: one clear line, a hint, and the documented exit code. No model is loaded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli import main
from fbrag_cli.cli.command import FIRST
from fbrag_cli.version import version
from tests.conftest import ROOT, Run
from tests.documents.test_pdf import pdf


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
        (["ask", "fine.txt"], 2, "it goes last, after fine.txt"),
        (["ask", "Who?", "fine.txt"], 2, "the question goes last"),
        (["ask", "missing.txt", "  "], 2, "the question is empty"),
        (["ask", "missing.txt", "?"], 2, "no letter and no digit"),
        (["ask", "missing.txt", "x" * 10_001], 2, "more than 10,000 characters"),
        (["ask", "-", "-"], 2, "stdin"),
        (["ask", "missing.txt", "Who?"], 3, "missing.txt"),
        (["ask", "fine.tx", "Who?"], 3, "fine.txt"),
        (["ask", "empty.txt", "Who?"], 3, "is empty"),
        (["ask", "blank.txt", "Who?"], 3, "white space"),
        (["ask", "folder", "Who?"], 3, "folder"),
        (["ask", "binary.bin", "Who?"], 3, "binary.bin"),
        (["ask", "picture.txt", "Who?"], 3, "a picture"),
        (["ask", "broken.pdf", "Who?"], 3, "broken.pdf"),
        (["ask", "fifo", "Who?"], 3, "fifo"),
        (["ask", "fine.txt", "Who?", "--encoding", "klingon"], 2, "klingon"),
        (["ask", "fine.txt", "Who?", "--selct", "3"], 2, "--select"),
        (["ask", "fine.txt", "Who?", "--select", "many"], 2, '--select is "many"'),
        (["ask", "fine.txt", "Who?", "--samples", "65"], 2, "--samples"),
        (["ask", "fine.txt", "Who?", "--set", "order=cold"], 2, "--set order"),
        (["ask", "fine.txt", "Who?", "--set", "gpu-layers=some"], 2, "--set gpu-layers"),
        (["ask", "fine.txt", "Who?", "--set", "device=CUDA99"], 5, "CUDA99"),
        (["ask", "fine.txt", "Who?", "--set", "tensor-split=3,x"], 2, "--set tensor-split=3,x"),
        (["ask", "fine.txt", "Who?", "--set", "tensor-split=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"], 2, "17 shares"),
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
    assert json.loads(fbrag("models", "lst", "--json").stdout)["error"]["hint"] == "did you mean list?"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ask", "missing.txt", "Who?"), "doc_not_found"),
        (("explain", "missing.txt", "Who?"), "doc_not_found"),
        (("ask", "fine.txt", "Who?", "--nonsense"), "usage"),
        (("ask", "fine.txt"), "usage"),
        (("fine.txt", "Who?"), "usage"),
        (("ask", "fine.txt", "-Who?", "--samples", "x"), "usage"),
        (("ask", "fine.txt", "Who?", "--config", "broken.toml"), "config"),
    ],
)
def test_the_format_makes_errors_json(fbrag: Run, files: Path, arguments: tuple[str, ...], code: str) -> None:
    (files / "broken.toml").write_text("gpu =")
    done = fbrag(*arguments, "--format=json")
    assert json.loads(done.stdout)["error"]["code"] == code
    assert done.stderr.startswith("error: ")
    assert fbrag(*arguments).stdout == ""


def test_the_configuration_file_makes_errors_json_and_the_command_line_goes_first(fbrag: Run, files: Path) -> None:
    (files / "json.toml").write_text('format = "json"\n')
    config = ("--config", "json.toml")
    for arguments in (("missing.txt", "Who?"), ("fine.txt", "Who?", "--nonsense")):
        assert json.loads(fbrag("ask", *arguments, *config).stdout)["schema"] == "fbrag.error/1"
        assert fbrag("ask", *arguments, *config, "-f", "text").stdout == ""
    assert fbrag("models", "rm", "missing", *config).stdout == ""


def test_a_word_that_is_no_command_counts_as_ask_and_may_be_the_name_of_a_key(fbrag: Run, files: Path) -> None:
    (files / "json.toml").write_text('offline = true\nformat = "json"\n')
    for words in (("fine.txt", "Who?"), ("offline", "ask", "fine.txt", "Who?")):
        done = fbrag(*words, "--config", "json.toml")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "usage")


@pytest.mark.parametrize("form", ["md", "jsonl"])
def test_a_format_that_nobody_typed_and_the_command_lacks_is_left_out(fbrag: Run, files: Path, form: str) -> None:
    command = ("explain", "--method", "vanilla", "fine.txt", "brig")
    plain = fbrag(*command)
    assert fbrag("config", "set", "format", form).returncode == 0
    assert fbrag(*command).stdout == plain.stdout != ""
    assert "missing.jsonl" in fbrag("eval", "missing.jsonl").stderr
    assert fbrag(*command, "-f", form).returncode == 2


@pytest.mark.parametrize("option", [("--show-prompt",), ("--chunk", "1")])
def test_explain_has_no_json_of_what_is_text(fbrag: Run, files: Path, option: tuple[str, ...]) -> None:
    done = fbrag("explain", "fine.txt", "brig", "--json", *option)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "usage")
    assert option[0] in done.stderr


def test_a_word_like_an_option_does_not_make_errors_json(fbrag: Run, files: Path) -> None:
    assert fbrag("ask", "missing.txt", "What does --json do?").stdout == ""


def test_without_models_and_terminal_the_error_names_the_command(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", env={"FBRAG_MODELS_DIR": str(files / "none")})
    assert done.returncode == 4
    assert "hint: run fbrag models pull" in done.stderr
    offline = fbrag("ask", "fine.txt", "Who?", "-y", "--offline", env={"FBRAG_MODELS_DIR": str(files / "none")})
    assert offline.returncode == 4
    assert "offline" in offline.stderr


@pytest.mark.parametrize("command", ["ask", "explain"])
@pytest.mark.parametrize("document", ["fine.txt", "folder"])
def test_a_dry_run_with_json_is_json(fbrag: Run, files: Path, command: str, document: str) -> None:
    (files / "folder" / "a.txt").write_text("The brig sailed at noon.")
    asked = (command, document, "Who?", "--dry-run", "--select", "3")
    told = json.loads(fbrag(*asked, "--json").stdout)
    assert (told["schema"], told["documents"], told["words"], told["chunks"], told["method"]) == (
        "fbrag.plan/1",
        1,
        5,
        1,
        "fb-rag",
    )
    assert fbrag(*asked).stdout == f"1 document, 5 words, 1 chunk: {', '.join(told['steps'])}\n"
    from tests.test_docs import keys, section

    assert {*told} - {"schema"} == keys(section("json.md", "`fbrag.plan/1`"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--small", "nothing-like-it"], 4, "unknown model nothing-like-it"),
        (["--large", "qwen2.5-codr-1.5b"], 4, "did you mean qwen2.5-coder-1.5b?"),
        (["--small", "http://"], 2, "http://"),
        (["--retriever", "bm52"], 2, "did you mean bm25?"),
        (["--retriever", "missing.gguf"], 4, "file not found: missing.gguf"),
        (["--retriever", "no/such-model"], 4, "no/such-model is not on this machine"),
        (["--method", "r2ag", "--set", "r2ag=folder"], 4, "folder has no trained components"),
        (["--method", "fit-rag", "--set", "fit-rag=missing"], 4, "missing has no trained components"),
    ],
)
def test_names_are_checked_before_a_dry_run_ends_well_and_before_a_download(
    fbrag: Run, files: Path, arguments: list[str], code: int, said: str
) -> None:
    nothing = {"FBRAG_MODELS_DIR": str(files / "none")}  # a download would be the first error, else
    for run in (["--dry-run"], []):
        done = fbrag("ask", "fine.txt", "Who?", *arguments, *run, env=nothing)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert "Download" not in done.stderr
        assert "pass -y" not in done.stderr


def test_small_mistakes_get_the_right_hint(fbrag: Run, files: Path) -> None:
    (files / "pw.txt").write_text("secret")
    assert "pw.txt" not in fbrag("ask", "emptied.dat", "Who?").stderr
    assert "pw.txt" not in fbrag("ask", "nothing.txt", "Who?").stderr
    assert fbrag("ask", "fine.txt", "Who?", "--samll", "x").stderr.splitlines()[1] == "hint: did you mean --small?"
    assert fbrag("ask", "fine.txt", "Who?", "--model", "x").stderr.splitlines()[0] == "error: unknown model x"
    refused = fbrag("config", "set", "weights", "x", "--config", "own.toml")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "expected X:Y" in refused.stderr
    assert not (files / "own.toml").exists()
    assert fbrag("config", "set", "weights", "1:0", "--config", "own.toml").returncode == 0


def test_quiet_twice_says_nothing_at_all(fbrag: Run, files: Path) -> None:
    for code, words in ((3, ("ask", "missing.txt", "Who?", "-qq")), (2, ("-q", "ask", "fine.txt", "-q", "Who?", "--nonsense"))):
        done = fbrag(*words)
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


#: How llama.cpp is installed for NVIDIA's GPUs: built, or where there is no compiler, from a wheel.
FOR_CUDA = re.compile("GGML_CUDA=on|/whl/cu1")


def test_a_gpu_that_lies_idle_is_a_warning_each_time(fbrag: Run, files: Path, tmp_path: Path) -> None:
    from fbrag_cli.generation.llama.machine import gpu_backends

    if gpu_backends():
        pytest.skip("this build of llama.cpp can use a GPU")
    driver = tmp_path / "driver" / "nvidia-smi"  # what shows that there is one
    driver.parent.mkdir()
    driver.touch(0o755)
    path = {"PATH": f"{driver.parent}{os.pathsep}{os.environ['PATH']}"}
    told = fbrag("ask", "fine.txt", "Who?", "--dry-run", env=path)
    assert told.returncode == 0
    assert "llama.cpp (built without GPU support) cannot use the NVIDIA GPU" in told.stderr
    assert FOR_CUDA.search(told.stderr)
    assert fbrag("ask", "fine.txt", "Who?", "--dry-run", "--gpu", "off", env=path).stderr == ""


def test_a_gpu_that_is_required_and_not_there_is_exit_5(fbrag: Run, files: Path) -> None:
    from fbrag_cli.generation.llama.machine import gpus

    if gpus():
        pytest.skip("this machine has one")
    done = fbrag("ask", "fine.txt", "Who?", "--gpu", "require")
    assert done.returncode == 5
    assert "no GPU" in done.stderr
    assert FOR_CUDA.search(done.stderr)


def test_options_may_stand_anywhere(fbrag: Run, files: Path) -> None:
    plans = {
        fbrag("--no-progress", "ask", "--select", "3", "fine.txt", "--dry-run", "Who?").stdout,
        fbrag("ask", "fine.txt", "Who?", "--dry-run", "--select=3", "--no-progress").stdout,
        fbrag("ask", "--dry-run", "--select", "3", "--", "fine.txt", "Who?").stdout,
    }
    assert len(plans) == 1


def test_version_and_help(fbrag: Run) -> None:
    assert fbrag("--version").stdout == f"fbrag {version()}\n"
    assert "llama-cpp-python" in fbrag("-v", "--version").stdout
    told = fbrag("ask", "--help").stdout
    assert told.index("Examples:") < told.index("Output options:") < told.index("Model options:")
    assert all(len(line) <= 100 for line in told.splitlines())


def all_commands() -> dict[str, Any]:
    """Typer's commands by their path, as "fbrag models list"."""
    found: dict[str, Any] = {"fbrag": main.Commands()}
    for path, command in [*found.items()]:
        found |= {f"{path} {name}": each for name, each in command.commands.items()}
    for path, command in [*found.items()][1:]:
        found |= {f"{path} {name}": each for name, each in getattr(command, "commands", {}).items()}
    return found


def test_the_short_help_is_for_all_commands_with_many_options_and_names_ten() -> None:
    for path, command in all_commands().items():
        options = {name for each in command.params if each.param_type_name == "option" for name in each.opts}
        if sum(each.param_type_name == "option" for each in command.params) > 10:
            first = (FIRST.get(path.removeprefix("fbrag ")) or command.first).split()
            assert len(first) == len(set(first)) <= 10
            assert set(first) <= options


@pytest.mark.parametrize("command", FIRST)
def test_the_short_help_leads_to_the_rest(fbrag: Run, command: str) -> None:
    path = [] if command == "fbrag" else command.split()
    short, whole = fbrag(*path, "--help").stdout, fbrag(*path, "--help-all").stdout
    row = r"^  (?:-\w, )?(--[\w-]+)(?=  | [A-Z</]|$)"  # and no line of prose that begins with an option
    listed = [set(re.findall(row, text, re.MULTILINE)) for text in (short, whole)]
    assert listed[0] - {"--help"} == set(FIRST[command].split()) & listed[1]
    assert listed[0] < listed[1]
    n_more = len(listed[1] - listed[0] - {"--help-all"})
    assert short.splitlines()[-1] == f"Run `{' '.join(['fbrag', *path])} --help-all` for {n_more} more options."


def test_commands_with_few_options_show_all_of_them(fbrag: Run) -> None:
    for command in (["models"], ["models", "verify"]):
        assert fbrag(*command, "--help").stdout == fbrag(*command, "--help-all").stdout
        assert "more option" not in fbrag(*command, "--help").stdout


@pytest.mark.parametrize(
    ("command", "usage", "argument"),
    [
        (["ask"], "fbrag ask [OPTIONS] DOC... QUESTION", "DOC... QUESTION  files, folders or @NAMES of folders to search"),
        (["models", "pull"], "fbrag models pull [OPTIONS] [NAME...]", "NAME...  names from 'list --all'"),
        (
            ["models"],
            "fbrag models [OPTIONS] COMMAND [ARGS]...",
            "rm      Delete models and partial downloads, and print the bytes",
        ),
    ],
)
def test_the_help_names_arguments_as_they_are_typed(fbrag: Run, command: list[str], usage: str, argument: str) -> None:
    lines = fbrag(*command, "--help").stdout.splitlines()
    assert lines[0] == f"Usage: {usage}"
    assert any(line.startswith(f"  {argument}") for line in lines)
    assert not any(line.endswith("...") for line in lines[1:])  # no sentence is cut


def test_headings_are_coloured_where_colour_is_on(fbrag: Run) -> None:
    plain = fbrag("ask", "--help").stdout
    for colored in (
        fbrag("ask", "--help", "--color", "always").stdout,
        fbrag("ask", "--help", env={"FORCE_COLOR": "1"}).stdout,
        fbrag("ask", "--help", env={"FBRAG_COLOR": "always"}).stdout,
    ):
        assert re.findall(r"\x1b\[1;4m(.*?)\x1b\[0m", colored)[:4] == ["Usage", "Examples", "Arguments", "Output options"]
        assert re.findall(r"\x1b\[1m(.*?)\x1b\[0m", colored)[:2] == ["--json", "-o, --output"]
        assert "\x1b[1m-m, --large, --model\x1b[0m MODEL  " in colored
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain
    assert fbrag("ask", "--help", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout == plain
    assert fbrag("ask", "--help", "--color", "never", env={"FORCE_COLOR": "1"}).stdout == plain
    shown = fbrag(env={"FORCE_COLOR": "1"}).stderr
    assert "\x1b[1;4mUsage\x1b[0m:" in shown
    assert "\x1b[1mexplain\x1b[0m" in shown


def test_the_help_of_batch_names_the_columns_that_a_row_has(fbrag: Run) -> None:
    from fbrag_cli.batch.row import COLUMNS

    told = set(re.findall(r"\w+", fbrag("batch", "--help-all").stdout.partition("Columns of CSV:")[2]))
    assert set(COLUMNS) <= told


def test_help_and_version_are_words_too(fbrag: Run) -> None:
    for words, options in (
        (["help"], ["--help"]),
        (["help", "ask"], ["ask", "--help"]),
        (["help", "models", "pull"], ["models", "pull", "--help"]),
        (["models", "help", "pull"], ["models", "pull", "--help"]),
        (["version"], ["--version"]),
        (["--color", "always", "help", "ask"], ["ask", "--help", "--color", "always"]),
    ):
        told = fbrag(*words)
        assert (told.returncode, told.stdout, told.stderr) == (0, fbrag(*options).stdout, "")
    assert "llama-cpp-python" in fbrag("version", "-v").stdout
    unknown = fbrag("help", "akk")
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (2, "error: no such command 'akk'")


def test_the_help_of_every_command_fits_45_lines_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path in all_commands():
        assert main.run([*path.split()[1:], "--help"], Cancellation()) == 0
        assert 1 < len(capsys.readouterr().out.splitlines()) <= 45, path


@pytest.mark.parametrize("command", FIRST)
def test_the_help_fits_sixty_columns_and_its_examples_can_be_pasted(fbrag: Run, command: str) -> None:
    path = [] if command == "fbrag" else command.split()
    wide, narrow = (fbrag(*path, "--help", env={"COLUMNS": columns}).stdout for columns in ("102", "60"))
    examples = [re.search(r"  Examples:\n((?: {4}.*\n)+)", text)[1] for text in (wide, narrow)]  # type: ignore[index]
    assert examples[0] == examples[1]
    assert all(len(line) <= 60 for line in narrow.replace(examples[1], "").splitlines())


def test_the_help_has_no_ranges(fbrag: Run) -> None:
    told = fbrag("ask", "--help-all").stdout
    assert not re.search(r"\[.*x[<>]=", told)
    assert "0000000" not in told


def test_a_question_has_at_most_43_options_of_its_own_and_52_with_those_of_all_commands(fbrag: Run) -> None:
    lines = fbrag("ask", "--help-all").stdout.splitlines()
    own = lines[: lines.index("General options:")]
    counts = [sum(bool(re.match(r"  (-\w, )?--\w", line)) for line in part) for part in (own, lines)]
    assert counts[0] <= 43
    assert counts[1] <= 52


def test_help_and_list_import_nothing_heavy(fbrag: Run, clean_environment: dict[str, str]) -> None:
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
EXAMPLE = 'fbrag ask book.txt "Who sealed the chronometer box?"'
FETCHED = f"fbrag does not download documents: {ADDRESS}"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["ask", "Who is it?"], "name a document and a question (the question goes last)"),
    ],
)
def test_a_first_mistake_gets_an_example(fbrag: Run, files: Path, arguments: list[str], error: str) -> None:
    done = fbrag(*arguments, timeout=60)
    assert done.stderr.splitlines() == [f"error: {error}", f"hint: {EXAMPLE}"]
    assert done.returncode == 2


ABOUT = "https://example.org/a is named where?"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ([ABOUT], f"{ABOUT!r} is a question, not a command", f"fbrag ask '{ABOUT}'"),
        (["ask", ABOUT, "fine.txt"], "the question goes last", f"fbrag ask fine.txt '{ABOUT}'"),
        (["ask", "fine.txt", ABOUT, "Who?"], "one question at a time: 2 were given", f"fbrag ask fine.txt '{ABOUT}'"),
    ],
)
def test_a_question_may_begin_with_an_address(fbrag: Run, files: Path, arguments: list[str], error: str, hint: str) -> None:
    done = fbrag(*arguments)
    assert done.stderr.splitlines() == [f"error: {error}", f"hint: {hint}"]
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", [["ask", ADDRESS, "Who?", "-a"], ["text", ADDRESS]])
def test_an_address_is_no_document(fbrag: Run, files: Path, arguments: list[str]) -> None:
    done = fbrag(*arguments)
    assert done.stderr.splitlines() == [f"error: {FETCHED}", f"hint: curl -sL '{ADDRESS}' | fbrag ask - \"QUESTION\""]
    assert done.returncode == 3


def test_a_missing_question_is_not_waited_for_on_a_terminal(clean_environment: dict[str, str], files: Path) -> None:
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "fbrag_cli", "ask", "fine.txt"]
    done = subprocess.run(
        command, stdin=terminal, capture_output=True, text=True, env=clean_environment, cwd=files, timeout=60, check=False
    )
    os.close(master)
    os.close(terminal)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == "hint: fbrag ask fine.txt QUESTION"


def test_ask_and_explain_differ_in_nothing_but_the_answer_and_the_explanation() -> None:
    from fbrag_cli.cli.ask import ask
    from fbrag_cli.cli.explain import ExplainOutput, explain
    from fbrag_cli.cli.options import AnswerOptions, ExplainOptions, OutputOptions, leaves

    groups = [{leaf for group in each.groups for leaf in leaves(group)} for each in (ask, explain)]
    assert groups[0] - groups[1] == {AnswerOptions, OutputOptions}
    assert groups[1] - groups[0] == {ExplainOptions, ExplainOutput}


def test_a_question_that_names_a_missing_file_is_still_a_question(fbrag: Run, files: Path) -> None:
    """A second document that is not there is what it was: a document that is not there."""
    done = fbrag("ask", "fine.txt", "missing.txt", "Who sealed it?")
    assert done.returncode == 3
    assert "there is no file missing.txt" in done.stderr


# -- wrong values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--samples", "many"], '--samples is "many", expected a whole number from 0 to 64', "fbrag ask --help-all"),
        (["--samples", "65"], '--samples is "65", expected a whole number from 0 to 64', "fbrag ask --help-all"),
        (
            ["--timeout", "soon"],
            '--timeout is "soon", expected seconds, or a duration such as 90s, 15m, 2h or 30d, up to 3 years',
            "fbrag ask --help-all",
        ),
        (["--context", "-1"], '--context is "-1", expected all or a number, at least 0', "fbrag ask --help-all"),
        (["--set", "temperature=all"], '--set temperature is "all", expected a number, at least 0', "fbrag ask --set list"),
        (["--gpu", "of"], '--gpu is "of", expected one of auto, off, require', "did you mean off?"),
        (["--color", "allways"], '--color is "allways", expected one of auto, always, never', "did you mean always?"),
        (["-s", "order=cold"], '--set order is "cold", expected one of auto, read-first, document', "fbrag ask --set list"),
        (["-s", "recal=3"], "--set recal: unknown setting", "did you mean recall?"),
        (["-s", "samples=3"], "--set samples: unknown setting", "it is an option: --samples"),
        (["-s", "recall"], "--set recall: missing value", "--set recall=N"),
        (
            ["--method", "vanilla", "--samples", "3"],
            "--samples has no effect with the method vanilla",
            "leave it out; it is a setting of fb-rag",
        ),
        (
            ["--fast", "-s", "forward-tokens=3"],
            "--set forward-tokens has no effect with --fast",
            "leave out --set forward-tokens, or --fast",
        ),
        (["--json", "-a"], "--answer-only has no effect with --format json", "leave out one of them"),
        (["--sources", "all", "-f", "jsonl"], "--sources has no effect with --format jsonl", "leave out one of them"),
        (["-a", "-C", "2"], "--context has no effect with --answer-only", "leave out one of them"),
    ],
)
def test_a_wrong_value_says_what_is_right(fbrag: Run, files: Path, arguments: list[str], error: str, hint: str) -> None:
    done = fbrag("ask", "fine.txt", "Who?", *arguments)
    assert done.stderr.splitlines() == [f"error: {error}", f"hint: {hint}"]
    assert done.returncode == 2


BOOK = ("ask", "fine.txt", "Who?")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((*BOOK, "--weights", "1:0"), "it is a setting for experts: --set weights=X:Y"),
        ((*BOOK, "--temperature", "0"), "it is a setting for experts: --set temperature=T"),
        ((*BOOK, "--forward-tokens", "5"), "it is a setting for experts: --set forward-tokens=N"),
        ((*BOOK, "--ctx", "8192"), "it is a setting for experts: --set ctx=N"),
        ((*BOOK, "--recall", "3"), "it is a setting for experts: --set recall=N"),
        ((*BOOK, "--again"), "it is --refresh now"),
        ((*BOOK, "--budget", "9"), "it is --select N now"),
        ((*BOOK, "--more"), "it is --select N now"),
        ((*BOOK, "--full"), "it is -C all now"),
        ((*BOOK, "--reads", "x"), "it is --set granularity=chunk|window now"),
        ((*BOOK, "--parallel", "3"), "it is -j/--jobs now"),
        (("explain", *BOOK[1:], "--limit", "3"), "it is --rows now"),
        ((*BOOK, "--limit", "3"), "--limit belongs to fbrag batch"),
        ((*BOOK, "--rows", "5"), "--rows belongs to fbrag explain"),
        ((*BOOK, "--questions", "f"), "--questions belongs to fbrag batch"),
        (("ask", "--version"), "--version belongs to fbrag"),
        ((*BOOK, "--page", "2"), "did you mean --pages?"),
        ((*BOOK, "--jsno"), "did you mean --json?"),
        (("--verson",), "did you mean --version?"),
        (("aks", *BOOK[1:]), "did you mean ask?"),
        ((*BOOK, "-o"), "fbrag ask --help"),
        ((*BOOK, "--timeout", "5min"), "fbrag ask --help-all"),
        (("ask", "fine.txt", "-Who sailed?"), "put -- before what begins with a dash: … -- '-Who sailed?'"),
        (("fine.txt", "Who sailed?"), "fbrag ask fine.txt 'Who sailed?'"),
        (("ask", "Who sailed?", "fine.txt"), "fbrag ask fine.txt 'Who sailed?'"),
        (("explain", "Who sailed?", "fine.txt"), "fbrag explain fine.txt 'Who sailed?'"),
        ((*BOOK, "And who paid?"), "fbrag ask fine.txt 'Who?'"),
        (("explain", "fine.txt", "folder", "the", "box"), "fbrag explain fine.txt folder 'the box'"),
        (("missing.txt", "Who?"), "fbrag ask missing.txt 'Who?'"),
        (("Who sealed it?",), "fbrag ask 'Who sealed it?'"),
        (("ask", "fine.txt", "Who", "sailed", "then"), "fbrag ask fine.txt 'Who sailed then'"),
        (("ask", "fine.txt", "“Who sailed”"), 'put the question in straight quotes: "…"'),
        (("ask", "fine.txt"), "fbrag ask fine.txt QUESTION"),
        ((*BOOK, "--timeout"), "fbrag ask --help-all"),
        (("ask", "--verbose", "2", "fine.txt", "Who?"), "fbrag ask fine.txt 'Who?' --verbose"),
        ((*BOOK, "--verbose", "2"), "fbrag ask fine.txt 'Who?' --verbose"),
        (("batch", "fine.txt", "Who sailed?"), "for one question: fbrag ask fine.txt 'Who sailed?'"),
        (("config", "list"), "fbrag config show"),
        (("search", "fine.txt", "brig"), "fbrag explain DOC QUESTION --fast"),
        (("find", "fine.txt"), "fbrag explain DOC QUESTION --fast"),
        (("ls",), "fbrag models list"),
    ],
)
def test_a_hint_names_what_was_meant(fbrag: Run, files: Path, arguments: tuple[str, ...], hint: str) -> None:
    done = fbrag(*arguments)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (2, [f"hint: {hint}"]), done.stderr


def test_the_commands_of_other_programs_lead_to_some_that_are_here(fbrag: Run) -> None:
    from fbrag_cli.cli.usage import ELSEWHERE

    for there, here in ELSEWHERE.items():
        done = fbrag(*there.split())
        assert (done.returncode, done.stderr.splitlines()[1:]) == (2, [f"hint: {here}"]), there
        if found := re.match(r"fbrag ((?:[a-z]+ ?)+)", here):
            assert fbrag(*found[1].split(), "--help").returncode == 0, here


@pytest.mark.parametrize(
    ("arguments", "code", "error", "hint"),
    [
        ((*BOOK, "-o", "nosuch/x"), 2, "nosuch/x cannot be written: there is no folder nosuch", "choose another -o FILE"),
        (
            (*BOOK, "--retriever", "nosuch"),
            4,
            "the model nosuch is not on this machine",
            "--retriever bm25, or if it is a model of ",
        ),
        (("models", "pull", "qwen3.5-4b", "--offline"), 4, "model qwen3.5-4b is not installed, ", "leave out --offline, "),
        (("ask", "folder", "Who?"), 3, "the folder folder contains no files", "name another folder"),
        (("ask", "pictures", "Who?"), 3, "pictures has no file to read: 1 .png", "choose by name: --include '*.png'"),
        (
            ("ask", "three.pdf", "Who?", "--pages", "2-9"),
            2,
            "--pages: three.pdf has no pages 4-9; its pages are 1-3",
            "--pages 2-3",
        ),
        (("ask", "three.pdf", "Who?", "--pages", "9"), 2, "--pages: three.pdf has no page 9; its pages are 1-3", "--pages 1-3"),
        (("ask", "three.pdf", "Who?", "--pages", "0-2"), 2, "--pages: three.pdf has no page 0; its pages are 1-3", "--pages 1-2"),
    ],
)
def test_an_error_says_what_is_missing(
    fbrag: Run, files: Path, arguments: tuple[str, ...], code: int, error: str, hint: str
) -> None:
    (files / "pictures").mkdir()
    (files / "pictures" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(400))
    (files / "three.pdf").write_bytes(pdf(*[b"(The brig sailed.) Tj"] * 3))
    done = fbrag(*arguments)
    assert done.returncode == code
    first, second = done.stderr.splitlines()
    assert first.startswith(f"error: {error}")
    assert second.startswith(f"hint: {hint}")


def test_a_word_that_is_near_to_nothing_has_no_suggestion(fbrag: Run, files: Path) -> None:
    words = "xyzzy depth creative beam theme tone hyde rerank agent cloud api top motor voice pdf web quick deep judge stream"
    for word in words.split():
        assert fbrag(*BOOK, f"--{word}").stderr.splitlines()[1:] == ["hint: fbrag ask --help"], word


def test_the_changelog_has_the_names_of_before() -> None:
    from fbrag_cli.cli.usage import RENAMED

    table = dict(
        re.findall(r"^\| `(-[^`]*|\w+ -[^`]*)` \| `([^`]*)` \|$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    )
    assert {name: new.replace("\\|", "|") for name, new in table.items()} == RENAMED


def test_a_method_that_is_misspelled(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", "--method", "vanila")
    assert done.stderr.splitlines()[1] == "hint: did you mean vanilla?"


def test_a_wrong_value_of_a_variable_names_the_variable(fbrag: Run, files: Path) -> None:
    done = fbrag("ask", "fine.txt", "Who?", env={"FBRAG_THREADS": "many"})
    assert done.stderr.splitlines()[0] == 'error: FBRAG_THREADS is "many", expected a whole number from 1 to 512'


# -- --set -------------------------------------------------------------------------------------------------------------------


def test_the_settings_for_experts_are_listed_without_a_document(fbrag: Run) -> None:
    done = fbrag("ask", "--set", "list")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["NAME", "DEFAULT", "MEANING"]
    columns = [head.index(name) for name in ("DEFAULT", "MEANING")]
    listed = {row[: columns[0]].strip(): (row[columns[0] : columns[1]].strip(), row[columns[1] :]) for row in rows}
    assert listed["temperature"] == ("1.0", "temperature of the forward samples")
    assert {"ctx", "tensor-split", "weights", "r2ag", "reduce"} <= listed.keys()
    assert len(listed) <= 19
    assert not {"samples", "select", "large"} & listed.keys()
    assert {"samples", "select"} <= {row.split()[0] for row in fbrag("eval", "-s", "list").stdout.splitlines()}


def test_a_setting_comes_from_set_before_the_environment_before_the_file(fbrag: Run, files: Path) -> None:
    def words(*flags: str, **env: str) -> str:
        plan = fbrag("ask", "fine.txt", "Who?", "--dry-run", *flags, env=env)
        return plan.stderr.splitlines()[0].partition(": ")[2]

    (files / "own.toml").write_text("ctx = 'a'\n")
    assert words("--set", "ctx=c", FBRAG_CTX="b", FBRAG_CONFIG="own.toml").startswith('--set ctx is "c"')
    assert words(FBRAG_CTX="b", FBRAG_CONFIG="own.toml").startswith('FBRAG_CTX is "b"')
    assert words(FBRAG_CONFIG="own.toml").startswith('own.toml: ctx is "a"')


def test_a_general_default_that_the_method_does_not_have_is_passed_over(fbrag: Run, files: Path) -> None:
    (files / "own.toml").write_text("recall = 3\nsamples = 3\nanswer_only = true\n")
    done = fbrag("ask", "fine.txt", "Who?", "--dry-run", "--json", "--method", "vanilla", "--config", "own.toml")
    assert (done.returncode, done.stderr) == (0, "")


# -- variables ---------------------------------------------------------------------------------------------------------------


def test_no_variable_changes_what_is_read(fbrag: Run, files: Path) -> None:
    plan = fbrag("ask", "fine.txt", "Who?", "--dry-run")
    unread = fbrag("ask", "fine.txt", "Who?", "--dry-run", env={"FBRAG_SELECT": "3", "FBRAG_ENCODING": "klingon"})
    assert (unread.returncode, unread.stdout) == (0, plan.stdout)
    assert unread.stderr.splitlines() == [
        "warning: unknown variable FBRAG_SELECT; unset FBRAG_SELECT",
        "warning: unknown variable FBRAG_ENCODING; unset FBRAG_ENCODING",
    ]


def test_a_variable_that_is_not_known_is_warned_of(fbrag: Run, files: Path) -> None:
    for words in (("eval", "missing.jsonl"), ("train", "fit-rag", "missing.jsonl")):
        assert "warning: unknown variable FBRAG_THREDS" in fbrag(*words, env={"FBRAG_THREDS": "2"}).stderr
    done = fbrag("ask", "fine.txt", "Who?", "--dry-run", env={"FBRAG_THREDS": "2"})
    assert done.stderr == "warning: unknown variable FBRAG_THREDS; did you mean FBRAG_THREADS?\n"
    assert fbrag("ask", "fine.txt", "Who?", "--dry-run", "-q", env={"FBRAG_THREDS": "2"}).stderr == ""
