"""The command that installs more packages beside fbrag, for each way in which fbrag may have been installed."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from fbrag_cli import installation
from fbrag_cli.installation import extra, pip_install
from tests.conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PIP = f"{shlex.quote(sys.executable)} -m pip install"


def test_from_a_clone_the_command_names_the_clone_and_an_extra_that_it_has() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "fbrag_cli").rglob("*.py"))
    named = set(re.findall(r"\bextra\(\"(\w+)\"\)", sources))
    assert named == {"dense", "eval", "mcp", "plots", "ray", "serve", "train"} <= set(extras)
    for name in named:
        assert extra(name) == f"{PIP} -e '{ROOT}[{name}]'"


def test_no_message_names_a_package_that_is_on_no_index() -> None:
    for path in (ROOT / "fbrag_cli").rglob("*.py"):
        assert not re.search(r"install '?\"?fbrag\b", path.read_text("utf-8")), path


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"url": "https://example.org/fbrag.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, "'fbrag[plots] @ git+https://example.org/fbrag.git@abc'"),
        ({"url": "{clone}", "dir_info": {}}, "'{path}[plots]'"),
        ({"url": "{clone}/fbrag-0.3.0.whl", "archive_info": {}}, "'{path}/fbrag-0.3.0.whl[plots]'"),
        ({"url": "file:///is/gone", "dir_info": {}}, "'matplotlib>=3.8'"),
        ({}, "'matplotlib>=3.8'"),
    ],
)  # fmt: skip
def test_from_elsewhere_the_command_names_where_fbrag_came_from_or_the_packages(
    origin: dict[str, object], expected: str, tmp_path: Path
) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    (clone / "pyproject.toml").write_text('[project]\nname = "fbrag"\n')
    (clone / "fbrag-0.3.0.whl").touch()
    origin = {**origin, "url": str(origin.get("url", "")).replace("{clone}", clone.as_uri())}
    told = installation._extra("plots", tmp_path / "site-packages", origin, tmp_path)
    assert told == f"{PIP} {expected.replace('{path}', str(clone))}"


GIT = {"url": "https://example.org/fbrag.git", "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "v1"}}


@pytest.mark.parametrize(
    ("origin", "extras", "expected"),
    [
        (GIT, "", "'fbrag[plots] @ git+https://example.org/fbrag.git@v1'"),
        ({**GIT, "vcs_info": {"vcs": "git", "commit_id": "abc"}}, "", "'fbrag[plots] @ git+https://example.org/fbrag.git'"),
        (GIT, 'extras = ["train", "eval"], ', "'fbrag[eval,plots,train] @ git+https://example.org/fbrag.git@v1'"),
    ],
)
def test_a_tool_of_uv_is_installed_anew_with_the_extras_that_it_has_and_is_not_held_at_a_commit(
    origin: dict[str, object], extras: str, expected: str, tmp_path: Path
) -> None:
    receipt = f'[tool]\nrequirements = [{{ name = "fbrag", {extras}git = "https://example.org/fbrag.git" }}]\n'
    (tmp_path / "uv-receipt.toml").write_text(receipt)
    assert installation._extra("plots", tmp_path / "site-packages", origin, tmp_path) == f"uv tool install {expected}"


def test_a_tool_of_uv_from_a_file_that_is_gone_gets_the_packages(tmp_path: Path) -> None:
    (tmp_path / "uv-receipt.toml").write_text('[tool]\nrequirements = [{ name = "fbrag", path = "/is/gone.whl" }]\n')
    assert installation._extra("plots", tmp_path / "site-packages", {}, tmp_path) == f"{PIP} 'matplotlib>=3.8'"


def test_pipx_injects_the_packages_into_the_environment_by_its_name(tmp_path: Path) -> None:
    environment = tmp_path / "fbrag-next"
    environment.mkdir()
    (environment / "pipx_metadata.json").touch()
    assert installation._extra("plots", environment, GIT, environment) == "pipx inject 'fbrag-next' 'matplotlib>=3.8'"


def test_without_pip_uv_installs_into_the_environment_of_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert pip_install("rouge") == f"uv pip install --python {shlex.quote(sys.executable)} rouge"


def test_without_pip_pipx_installs_into_an_environment_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert pip_install("rouge") == f"pipx runpip '{tmp_path.name}' install rouge"
