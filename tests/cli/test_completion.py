"""Tab completion, asked for as a shell asks: bash by its own script and by the key itself, zsh and fish by their variables."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fbrag_cli.models.catalog import load_catalog
from tests.conftest import ROOT, Run


@pytest.fixture
def environment(clean_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A user whose PATH has `fbrag`, and whose store has one model outside the catalog."""
    command = tmp_path / "bin" / "fbrag"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m fbrag_cli "$@"\n')
    command.chmod(0o755)
    store = tmp_path / "store"
    store.mkdir()
    (store / "my-own.gguf").write_bytes(b"GGUF")
    own = {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "FBRAG_MODELS_DIR": str(store)}
    return clean_environment | own


def in_bash(environment: dict[str, str], folder: Path, *words: str) -> list[str]:
    """Return what bash's own completion function offers for the last of these words, by the script that fbrag prints."""
    listed = " ".join(map(shlex.quote, words))
    script = f"""
        eval "$(fbrag --show-completion bash)"
        COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}
        _fbrag_completion fbrag
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    command = ["bash", "--norc", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["mod"], ["models"]),
        (["models", "p"], ["pull", "path"]),
        (["ask", "--answer-"], ["--answer-only"]),
        (["ask", "--chunk-w"], ["--chunk-words"]),  # which the short help leaves out
        (["ask", "--set", "forw"], ["forward-tokens="]),
        (["ask", "--help"], ["--help", "--help-all"]),
        (["ask", "--method", "v"], ["vanilla"]),
        (["ask", "book.txt", "--sources", ""], ["all", "cited", "none"]),
        (["--color", "al"], ["always"]),
        (["ask", "--small", "my"], ["my-own"]),
        (["ask", "-m", "smollm2-135m"], ["smollm2-135m"]),
        (["ask", "--small", "loc"], ["local"]),
        (["config", "set", "large", "loc"], ["local"]),
        (["models", "rm", "my"], ["my-own"]),
        (["config", "get", "lar"], ["large"]),
        (["config", "set", "gpu", ""], ["auto", "off", "require"]),
        (["config", "set", "exit_zero", "t"], ["true"]),
        (["config", "set", "small", "my"], ["my-own"]),
        (["eval", "--method", "fb-rag,van"], ["fb-rag,vanilla"]),
        (["cache", "clear", "--kind", "emb"], ["embeddings"]),
        (["--version", "do"], ["doctor"]),  # the version is not printed
        (["ask", "bo"], []),  # a file: bash offers those
        (["ask", "book.txt", "--nonsense", "x"], []),
        (["nonsense", "x"], []),
    ],
    ids=" ".join,
)
def test_bash_completes(environment: dict[str, str], tmp_path: Path, words: list[str], offered: list[str]) -> None:
    assert sorted(in_bash(environment, tmp_path, "fbrag", *words)) == sorted(offered)


def test_all_models_of_the_catalog_are_offered(environment: dict[str, str], tmp_path: Path) -> None:
    assert set(in_bash(environment, tmp_path, "fbrag", "models", "pull", "")) == {*load_catalog().models, "my-own"}


def test_no_name_is_offered_that_a_shell_takes_for_code(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("a$(touch owned)", "b\\$(touch owned)", "-c", "d e", "f;g"):
        (tmp_path / "store" / f"{name}.gguf").write_bytes(b"GGUF")
    offered = in_bash(environment, tmp_path, "fbrag", "ask", "--large", "")
    assert set(offered) == {*load_catalog().models, "my-own", "local"}


def test_the_key_completes_a_command(environment: dict[str, str], tmp_path: Path) -> None:
    """A real bash on a terminal, and the key itself."""
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        own = environment | {"PS1": "ready> ", "TERM": "dumb"}
        os.execvpe("bash", ["bash", "--norc", "-i"], own)  # noqa: S606
    try:
        _read_until(terminal, "ready> ")
        os.write(terminal, b'eval "$(fbrag --show-completion bash)"; echo lo""aded\n')
        _read_until(terminal, "loaded\r\n")
        os.write(terminal, b"fbrag mod\t")
        _read_until(terminal, "fbrag models ")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def _read_until(terminal: int, expected: str) -> None:
    seen, until = "", time.monotonic() + 30
    while expected not in seen:
        assert time.monotonic() < until, seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 4096).decode("utf-8", "replace")


def test_zsh_gets_words_with_their_help(fbrag: Run) -> None:
    done = fbrag(env={"_FBRAG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "fbrag mod"})
    assert done.stdout.startswith('_arguments \'*: :(("models":"Download, choose, list, verify and delete')
    assert done.stderr == ""
    files = fbrag(env={"_FBRAG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "fbrag ask bo"})
    assert files.stdout == "_files\n"


def test_fish_gets_words_or_falls_back_to_files(fbrag: Run) -> None:
    asked = {"_FBRAG_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "fbrag ask --method v"}
    assert fbrag(env=asked | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}).stdout == "vanilla\n"
    assert fbrag(env=asked | {"_TYPER_COMPLETE_FISH_ACTION": "is-args"}).returncode == 0
    files = {"_TYPER_COMPLETE_ARGS": "fbrag ask bo", "_TYPER_COMPLETE_FISH_ACTION": "is-args"}
    assert fbrag(env=asked | files).returncode != 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_named_shell_counts(fbrag: Run, shell: str) -> None:
    done = fbrag("--show-completion", shell)
    assert done.returncode == 0
    assert "_FBRAG_COMPLETE" in done.stdout
    assert f"complete_{shell}" in done.stdout


def test_a_shell_that_nobody_knows(fbrag: Run) -> None:
    done = fbrag("--show-completion", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        'error: --show-completion is "tcsh", expected one of bash, zsh, fish, powershell, pwsh',
        "hint: fbrag --help-all",
    ]


def test_a_start_file_that_cannot_be_written_is_an_error(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").mkdir()
    done = fbrag("--install-completion", "bash", env={"HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: could not install tab completion for bash: ")
    assert done.stderr.splitlines()[1:] == ["hint: install it by hand: fbrag --show-completion bash"]


@pytest.mark.parametrize(
    "broken",
    [
        {"COMP_WORDS": "fbrag\nask\n'", "COMP_CWORD": "2"},
        {"COMP_WORDS": "fbrag\nmod", "COMP_CWORD": "x"},
        {"COMP_WORDS": "fbrag\nmod"},
        {},
    ],
)
def test_nothing_is_printed_whatever_goes_wrong(fbrag: Run, broken: dict[str, str]) -> None:
    done = fbrag(env={"_FBRAG_COMPLETE": "complete_bash", **broken, "FBRAG_NONSENSE": "1", "FBRAG_THREADS": "many"})
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize("typed", ["fbrag mod", "fbrag ask --sm", "fbrag config get mo", "fbrag models rm my"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_key_press_loads_nothing_that_takes_long(fbrag: Run, typed: str, shell: str) -> None:
    """How long it takes is measured by `tests/benchmarks/commands.py start`."""
    asked = {"COMP_WORDS": typed.replace(" ", "\n"), "COMP_CWORD": str(typed.count(" ")), "_TYPER_COMPLETE_ARGS": typed}
    done = fbrag(env=asked | {"_FBRAG_COMPLETE": f"complete_{shell}", "PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & {"httpx2", "llama_cpp", "numpy", "pypdf", "rich"}
