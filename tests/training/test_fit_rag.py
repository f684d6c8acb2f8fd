"""`fbrag train fit-rag` from rows to a folder that answers, with the small model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.retrieval import minilm

SHIPS = "Osprey Petrel Heron Curlew Plover Dunlin Gannet Puffin Teal Wigeon Eider Smew Scoter Merlin Kestrel".split()


def rows_file(folder: Path) -> Path:
    """Fifteen questions. Of every third the row names a passage that does not show the answer: it holds it and does not help."""
    lines = []
    for i, ship in enumerate(SHIPS):
        told = f"The {ship} was built in the year {1801 + i} at Hull." if i % 3 else f"The {ship} was a ship of three masts."
        lines.append(
            {
                "_id": str(i),
                "dataset": "ships",
                "input": f"In which year was the {ship} built?",
                "answers": [str(1801 + i)],
                "documents": [{"text": told, "gold": True}],
            }
        )
    path = folder / "ships.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return path


@pytest.fixture
def command(pytestconfig: pytest.Config) -> tuple[object, ...]:
    base = minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2"
    return ("train", "fit-rag", "ships.jsonl", "-m", "smollm2-135m", "-o", "made", "--limit", "5", "--base", base)


@pytest.fixture
def made(tmp_path: Path, fbrag: Run, smollm2: Path, command: tuple[object, ...]) -> Path:
    pytest.importorskip("peft", reason="needs torch, transformers and peft: pip install 'fbrag[train]'")
    rows_file(tmp_path)
    done = fbrag(*command)
    assert done.returncode == 0, done.stderr
    assert "scorer: epoch" in done.stderr
    assert "AUC of Has_Answer" in done.stderr
    assert "detector: " in done.stderr
    assert "recognizer: " in done.stderr
    return tmp_path / "made"


def test_a_folder_is_made_and_answers_from_windows(made: Path, tmp_path: Path, fbrag: Run, command: tuple[object, ...]) -> None:
    about = json.loads((made / "fit-rag.json").read_text())
    assert about["model"]["name"] == "smollm2-135m"
    assert about["training"].keys() == {"scorer", "detector", "recognizer"}
    assert about["training"]["scorer"]["labels"]["train"]["1,0"] > 0

    lines = [f"The {ship} was built in the year {1801 + i} at Hull." for i, ship in enumerate(SHIPS)]
    (tmp_path / "log.txt").write_text("\n\n".join(lines))
    chosen = ("--method", "fit-rag", "--fit-rag", "made", "-m", "smollm2-135m", "--chunk-words", "10")
    explained = json.loads(fbrag("explain", "log.txt", "In which year was the Plover built?", *chosen, "--json").stdout)
    scored = [chunk for chunk in explained["chunks"] if "has_answer" in chunk]
    assert len(scored) == len(SHIPS)
    assert all(0 <= chunk["llm_prefer"] <= 1 for chunk in scored)
    assert explained["windows"][0]["selected"]
    asked = fbrag("ask", "log.txt", "In which year was the Plover built?", *chosen, "--json", "--answer-anyway")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["method"]["fit_rag"] == "made"

    again = fbrag(*command)
    assert again.returncode == 0, again.stderr
    assert "0 of them to make" in again.stderr
    assert "scorer: made before" in again.stderr


@pytest.mark.parametrize(
    ("stage", "told"), [("scorer", "has no labels"), ("detector", "has no scorer"), ("recognizer", "has no labels")]
)
def test_a_stage_names_what_it_lacks(tmp_path: Path, fbrag: Run, smollm2: Path, stage: str, told: str) -> None:
    rows_file(tmp_path)
    done = fbrag("train", "fit-rag", "ships.jsonl", "-m", "smollm2-135m", "-o", "made", "--stage", stage)
    assert done.returncode == 2
    assert told in done.stderr
    assert "--stage" in done.stderr
