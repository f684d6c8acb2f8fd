"""A method is added in one file and one line: its settings are options, labels, keys of rows and JSON at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, ROOT

ONE_FILE = '''
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.settings import knob
from fbrag_cli.methods.method import Tools
from fbrag_cli.methods.ranking import ChunkMethod, whole_chunks
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours(ChunkMethod):
    """The best chunks, each with those beside it."""

    name: ClassVar[str] = "neighbours"

    before: int = knob(0, "chunks before each of the best", minimum=0)
    after: int = knob(1, "chunks after each of the best", minimum=0)

    def retrieve(self, question: str, tools: Tools) -> Trace:
        trace = self.select_by_question(question, tools)
        near = {n for best in trace.selection.ranked for n in range(best - self.before, best + self.after + 1)}
        positions = sorted(near & set(range(len(tools.corpus.chunks))))
        return trace.reading(whole_chunks(tools.corpus, positions))
'''

ONE_LINE = "registry.METHODS.append(Neighbours)"

MAIN = f"""
from fbrag_cli.methods import registry
from neighbours import Neighbours
{ONE_LINE}
from fbrag_cli.cli.main import main
main()
"""

QUESTION = "Where was the Garefowl built?"


@pytest.fixture
def run(tmp_path: Path, clean_environment: dict[str, str]):  # type: ignore[no-untyped-def]
    (tmp_path / "neighbours.py").write_text(ONE_FILE, "utf-8")
    environment = clean_environment | {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}

    def fbrag(*arguments: object) -> str:
        command = [sys.executable, "-c", MAIN, *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=environment, cwd=tmp_path, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return fbrag


def test_a_new_method_is_asked_explained_and_compared(run, smollm2: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    chosen = ["--method", "neighbours", "--select", "1", "--set", "before=1"]
    models = ["-m", "smollm2-135m", "--allow-unsupported", "--max-tokens", "4"]
    answer = json.loads(run("ask", INQUIRY, QUESTION, *chosen, *models, "--json"))
    assert (answer["method"]["name"], answer["method"]["before"], answer["method"]["after"]) == ("neighbours", 1, 1)
    assert "samples" not in answer["method"]
    assert answer["status"] == "answered"

    explained = json.loads(run("explain", INQUIRY, QUESTION, *chosen, "--json"))
    selected = [chunk["chunk"] for chunk in explained["chunks"] if chunk["selected"]]
    assert selected == list(range(answer["sources"][0]["chunk"] - 1, answer["sources"][0]["chunk"] + 2))
    assert explained["models"] == {}

    rows = tmp_path / "data.jsonl"
    example = {"input": QUESTION, "context": "It was built. " * 900, "answers": ["Osterwick"], "evidence": ["It was"]}
    rows.write_text(json.dumps(example), "utf-8")
    lists = ["--method", "neighbours,vanilla", "--set", "select=1", "--set", "before=0,2", "--retrieval-only"]
    report = run("eval", rows, *lists, "-o", tmp_path / "out.jsonl")
    keys = [json.loads(line)["configuration"] for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(key["method"], key.get("before")) for key in keys] == [("neighbours", 0), ("neighbours", 2), ("vanilla", None)]
    assert "neighbours:before=2" in report

    assert "chunks before each of the best" in run("ask", "--set", "list")


def test_a_paper_is_named_in_its_folders_and_registries_alone() -> None:
    """Imports of it are a contract of import-linter (pyproject.toml); this looks at help, messages, pages and styles too."""
    package = ROOT / "fbrag_cli"
    names = re.compile(r"fit[-_ ]?rag|r2[-_ ]?(ag|former)\b", re.IGNORECASE)
    own = re.compile(r"(methods|training)/(fit_rag/|r2ag/|relevance/|registry\.py)")
    for path in package.rglob("*"):
        place = path.relative_to(package).as_posix()
        if path.suffix in (".py", ".jinja", ".css", ".js", ".toml", ".json") and not own.match(place):
            assert not names.search(path.read_text("utf-8")), place
