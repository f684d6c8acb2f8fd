"""The pages of docs/ are true: their examples are read, and they name what the code knows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from fbrag_cli.evaluation.datasets import load_examples
from fbrag_cli.training.rows import read_material
from tests.conftest import INQUIRY, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCS = ROOT / "docs"


def section(page: str, title: str) -> str:
    """Return the part of a page under a heading that begins with `title`."""
    (found,) = re.findall(rf"^## {re.escape(title)}.*?(?=^## |\Z)", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


def example(text: str) -> str:
    (found,) = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(found)


def keys(text: str) -> set[str]:
    """Return the names in the first column of a section's tables."""
    return {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}


def test_the_row_for_eval_is_read(tmp_path: Path) -> None:
    text = section("rows.md", "`fbrag eval`")
    (tmp_path / "set.jsonl").write_text(example(text))
    (tmp_path / "inquiry.txt").write_bytes(INQUIRY.read_bytes())
    (row,) = load_examples([tmp_path / "set.jsonl"])
    assert (row.id, row.answers, len(row.evidence)) == ("t01", ("Dunlathe",), 1)
    assert set(json.loads(example(text))) <= keys(text)


def test_the_row_for_train_is_read(tmp_path: Path) -> None:
    text = section("rows.md", "`fbrag train`")
    (tmp_path / "nq.jsonl").write_text(example(text))
    material = read_material([tmp_path / "nq.jsonl"])
    (question,) = material.questions
    assert (question.text, question.answers, len(question.gold)) == ("who wrote the song", ("Ann Lee",), 1)


@pytest.mark.parametrize(("title", "module"), [("`fbrag eval`", "evaluation/datasets.py"), ("`fbrag train`", "training/rows.py")])
def test_every_key_of_a_row_is_one_that_the_code_reads(title: str, module: str) -> None:
    code = (ROOT / "fbrag_cli" / module).read_text("utf-8")
    assert [name for name in keys(section("rows.md", title)) if f'"{name}"' not in code] == []


def test_the_extras_are_those_of_the_project() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"].keys() - {"test", "test-all", "lint"}
    assert set(re.findall(r"pip install -e '\.\[(\w+)\]'", section("machine.md", "Extras"))) == extras
