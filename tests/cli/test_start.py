"""What a command loads before it does anything: the start of every command is paid for by what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fbrag_cli
from fbrag_cli.cli.keys import known_keys
from fbrag_cli.cli.main import COMMANDS, Commands
from tests.conftest import ROOT

CODE = """
import sys
from fbrag_cli.__main__ import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {"numpy", "regex", "llama_cpp", "pydantic"}


def loaded(environment: dict[str, str], *arguments: str) -> set[str]:
    """Return the modules that are loaded when `fbrag` with these arguments ends."""
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return set(done.stderr.splitlines()[-1].split())


QUICK = ["--version", "--help", "config path", "config get gpu", "config set gpu off", "config unset gpu", "config show --help"]
QUICK += ["cache dir", "cache size", "cache clear -y", "cache --help", "models list", "models path", "models pull --help"]
QUICK += ["doctor --help", "-q --offline models path"]


@pytest.mark.parametrize("command", QUICK)
@pytest.mark.parametrize("text", ["", 'gpu = "off"\nlarge = "smollm2-135m"\n'], ids=["", "file"])
def test_a_quick_command_loads_no_library_of_numbers_and_no_method(
    command: str, text: str, clean_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(text)
    own = {"FBRAG_CACHE_DIR": str(tmp_path / "cache"), "FBRAG_CONFIG": str(tmp_path / "config.toml")}
    modules = loaded(clean_environment | own, *command.split())
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    homes = ("fbrag_cli.methods.", "fbrag_cli.documents", "fbrag_cli.retrieval", "fbrag_cli.trace")
    assert not [name for name in modules if name.startswith(homes)]


@pytest.mark.parametrize("command", ["config show", "config get seed"])
def test_the_settings_of_the_methods_load_no_library_of_numbers(command: str, clean_environment: dict[str, str]) -> None:
    modules = loaded(clean_environment, *command.split())
    assert "fbrag_cli.methods.registry" in modules
    assert not {name.partition(".")[0] for name in modules} & HEAVY


def test_one_command_does_not_load_another(clean_environment: dict[str, str]) -> None:
    for arguments in (["--help"], ["doctor", "--help"], ["-v", "--color=never", "doctor", "--help"]):
        modules = loaded(clean_environment, *arguments)
        assert {f"fbrag_cli.cli.{name}" for name in COMMANDS} & modules <= {"fbrag_cli.cli.doctor"}


def test_the_list_of_commands_has_the_first_sentence_of_each_help() -> None:
    assert {name: each.get_short_help_str(limit=1000) for name, each in Commands().commands.items()} == COMMANDS


def test_the_file_sets_each_option_of_a_question_that_outlasts_it() -> None:
    commands = Commands().commands
    options = {each.name for name in ("ask", "explain", "batch") for each in commands[name].settings.values() if not each.once}
    of_one_run = {"output", "pages", "include", "exclude", "yes", "refresh", "password_file"}
    assert options - of_one_run <= {*known_keys()}


def test_a_program_that_imports_fbrag_keeps_its_environment(clean_environment: dict[str, str]) -> None:
    code = """
import contextlib, importlib, os, pkgutil, fbrag_cli
before = dict(os.environ)
for each in pkgutil.walk_packages(fbrag_cli.__path__, "fbrag_cli."):
    if "__main__" not in each.name and not each.name.startswith("fbrag_cli.training"):  # torch changes it
        with contextlib.suppress(ImportError):
            importlib.import_module(each.name)
assert dict(os.environ) == before
"""
    subprocess.run([sys.executable, "-c", code], env=clean_environment, cwd=ROOT, check=True)


def test_little_is_loaded_before_ctrl_c_ends_the_process_without_a_traceback() -> None:
    code = "import sys; before = {*sys.modules}; import fbrag_cli.__main__; print(*sorted({*sys.modules} - before))"
    environment = os.environ | {"PYTHONPATH": str(Path(fbrag_cli.__file__).parent.parent)}  # without site, which loads much
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert not {"typing", "re", "dataclasses", "warnings"} & {*done.stdout.split()}
