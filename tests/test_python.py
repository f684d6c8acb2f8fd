"""The door for Python: the page about it is true, the names load when they are asked for, and the package has types."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fbrag_cli
from fbrag_cli.session.models import Models
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

#: What the programs read and write here, so that they take seconds.
LESS = "select=1, recall=1, samples=1, forward_tokens=8"


@pytest.fixture
def small_models(smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 135M model in place of the default pair, and an empty cache."""
    monkeypatch.setattr(Models, "default_pair", (str(smollm2), str(smollm2)))
    monkeypatch.setenv("FBRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("small_models")
def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for block in BLOCKS:
        program = block.replace("max_tokens=64", "max_tokens=8").replace("select=3", LESS).replace("FBRag()", f"FBRag({LESS})")
        exec(program, {})  # each alone
        outputs.append(capsys.readouterr().out.splitlines())
    one, several, followed = outputs
    assert one[0].split()[0] in ("answered", "not_found")
    assert sum("inquiry.txt" in line for line in one) == 1
    assert len(several) == 2
    assert all("'forward', 'select', 'answer'" in line for line in several)
    assert followed[0] == "read start"
    assert followed[-1].startswith("[")


@pytest.mark.usefixtures("small_models")
def test_a_setting_that_a_method_does_not_have_is_an_error() -> None:
    document = "tests/documents/inquiry.txt"
    for method, settings in (("vanilla", {"recall": 3}), (fbrag_cli.FBRag(), {"chunks": 3})):
        with pytest.raises(TypeError, match=r"recall|chunks"):
            fbrag_cli.ask(document, "Who?", method, **settings)
    with pytest.raises(fbrag_cli.FbragError, match="unknown method"):
        fbrag_cli.ask(document, "Who?", "fb-rg")
    trace = fbrag_cli.ask([document], "Where was the Garefowl built?", "vanilla", select=3, max_tokens=4, allow_unsupported=True)
    assert len(trace.context) == 3  # 1,000 words


@pytest.mark.parametrize("question", ["", " ?! ", "Who\0?", "x" * 10_001])
def test_what_is_no_question_is_an_error_before_a_document_is_read(question: str) -> None:
    with pytest.raises(fbrag_cli.FbragError, match="the question ") as raised:
        fbrag_cli.ask("nosuch.txt", question)
    assert raised.value.code == "usage"
    with pytest.raises(fbrag_cli.FbragError, match="the question "):
        fbrag_cli.Query(question, None, fbrag_cli.FBRag())


@pytest.mark.parametrize("question", ["谁?", "¿Qué?", "½", "١٩٩٨"])
def test_a_letter_or_digit_of_any_script_makes_a_question(question: str) -> None:
    assert fbrag_cli.Query(f" {question}\n", None, fbrag_cli.FBRag()).text.strip() == question


def test_every_name_of_the_page_is_there_and_every_name_that_is_there_is_on_the_page() -> None:
    table = PAGE.partition("## Names")[2]
    named = set(re.findall(r"`(\w+)[`(]", "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))
    assert named == set(fbrag_cli._MODULES)
    for name in named:
        assert getattr(fbrag_cli, name).__doc__
        assert name in dir(fbrag_cli)
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        fbrag_cli.Sesion  # noqa: B018


def test_the_names_are_those_that_type_checkers_see() -> None:
    typed = re.findall(
        r"^    from fbrag_cli\.(\S+) import (\w+) as \2$", (ROOT / "fbrag_cli/__init__.py").read_text("utf-8"), re.M
    )
    assert {name: module for module, name in typed} == fbrag_cli._MODULES


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import fbrag_cli; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert {name for name in done.stdout.split() if name.split(".")[0] not in sys.stdlib_module_names} == {"fbrag_cli"}


def test_the_wheel_says_that_it_has_types(tmp_path: Path) -> None:
    build = pytest.importorskip("hatchling.build", reason="needs hatchling")
    program = f"import {build.__name__} as build; print(build.build_wheel({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        assert "fbrag_cli/py.typed" in wheel.namelist()
