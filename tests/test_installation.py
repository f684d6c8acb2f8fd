"""The command that installs more packages beside fbrag, by pip, by pipx, by uv, or from its clone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fbrag_cli import installation
from fbrag_cli.installation import extra, pip_install
from tests.conftest import ROOT

PIP = f"{shlex.quote(sys.executable)} -m pip install"


def test_from_a_clone_the_command_names_the_clone_and_an_extra_that_it_has() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "fbrag_cli").rglob("*.py"))
    named = set(re.findall(r"\b(?:extra|load)\((?:[^()]*, )?\"(\w+)\"\)", sources))
    assert named == {"dense", "eval", "mcp", "ocr", "plots", "ray", "serve", "train"} <= set(extras)
    for name in named:
        assert extra(name) == f"{PIP} -e '{ROOT}[{name}]'"


def test_no_message_names_a_package_that_is_on_no_index() -> None:
    for path in (ROOT / "fbrag_cli").rglob("*.py"):
        assert not re.search(r"install '?\"?fbrag\b", path.read_text("utf-8")), path


def test_from_elsewhere_the_command_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "site-packages" / "fbrag_cli" / "installation.py"))
    assert extra("plots") == f"{PIP} 'matplotlib>=3.8'"


def test_without_pip_uv_installs_into_the_environment_of_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert pip_install("rouge") == f"uv pip install --python {shlex.quote(sys.executable)} rouge"


def test_without_pip_pipx_installs_into_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tmp_path / "fbrag"
    environment.mkdir()
    (environment / "pipx_metadata.json").write_text("{}")
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert pip_install("rouge") == "pipx runpip fbrag install rouge"


@pytest.mark.parametrize(("library", "words"), [("typer", "--version"), ("tomlkit", "config set seed 5")])
def test_a_library_that_an_interrupted_installation_left_out_is_named_in_one_line(
    library: str, words: str, clean_environment: dict[str, str]
) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; from fbrag_cli.__main__ import main; main()"
    command = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment, check=False, cwd=ROOT)
    first = done.stderr.splitlines()[0]
    assert (done.returncode, first) == (2, f"error: the installation of fbrag is incomplete: no module {library}")
    assert "Traceback" not in done.stderr
