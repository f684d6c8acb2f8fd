"""`fbrag train fit-rag` from rows to a folder that answers, with the small model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fbrag_cli.storage.files import sha256_of
from tests.conftest import Run, needs
from tests.retrieval import minilm

DATA = ("mill.jsonl", "well.jsonl")
#: Question, answer, and the passage that shows it.
FACTS = [
    ("What colour is the door of the mill?", "green", "The door of the mill is green."),
    ("What is the name of the captain's dog?", "Rex", "The captain's dog is called Rex."),
    ("Which animal pulled the cart?", "donkey", "The cart was pulled by a donkey."),
    ("What did the baker put into the bread?", "honey", "The baker put honey into the bread."),
    ("Where did the widow hide the key?", "chimney", "The widow hid the key in the chimney."),
    ("What did the boy steal from the orchard?", "pears", "The boy stole pears from the orchard."),
    ("Which tree stands beside the well?", "walnut", "A walnut tree stands beside the well."),
    ("What does the ferryman wear on his head?", "turban", "The ferryman wears a turban on his head."),
    ("What was the bridge made of?", "marble", "The bridge was made of marble."),
    ("Who repaired the clock?", "Hannah", "Hannah repaired the clock."),
    ("What did the sailors drink?", "cider", "The sailors drank cider."),
    ("Which bird nested in the tower?", "stork", "A stork nested in the tower."),
    ("What did the painter sell?", "portrait", "The painter sold a portrait."),
    ("What did the smith forget?", "hammer", "The smith forgot his hammer."),
    ("What did the judge read?", "letter", "The judge read a letter."),
]


def rows_files(folder: Path) -> None:
    """Two data sets of five questions, so that few passages are read together. Of the first of each the row names a passage
    that does not show the answer: it counts as holding it, and does not help."""
    for name, facts in (("mill", FACTS[:5]), ("well", FACTS[5:10])):
        lines = []
        for i, (question, answer, shown) in enumerate(facts):
            text = shown if i else f"Nobody spoke of the {question.split()[-1].strip('?')}."
            row = {"_id": str(i), "dataset": name, "input": question, "answers": [answer]}
            lines.append(row | {"documents": [{"text": text, "gold": True}]})
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")


@pytest.fixture
def command(pytestconfig: pytest.Config) -> tuple[object, ...]:
    base = minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2"
    return ("train", "fit-rag", *DATA, "-m", "smollm2-135m", "-o", "made", "--limit", "2", "--base", base)


@pytest.fixture
def made(tmp_path: Path, fbrag: Run, smollm2: Path, command: tuple[object, ...]) -> Path:
    needs("peft")
    rows_files(tmp_path)
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

    (tmp_path / "log.txt").write_text("\n\n".join(shown for *_, shown in FACTS))
    chosen = ("--method", "fit-rag", "--set", "fit-rag=made", "-m", "smollm2-135m", "--chunk-words", "7")
    explained = json.loads(fbrag("explain", "log.txt", "What was the bridge made of?", *chosen, "--json").stdout)
    scored = [chunk for chunk in explained["chunks"] if "has_answer" in chunk]
    assert len(scored) == len(explained["chunks"]) > 5
    assert all(0 <= chunk["llm_prefer"] <= 1 for chunk in scored)
    assert explained["windows"][0]["selected"]
    asked = fbrag("ask", "log.txt", "What was the bridge made of?", *chosen, "--json", "--allow-unsupported")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["method"]["fit_rag"] == "made"

    again = fbrag(*command)
    assert again.returncode == 0, again.stderr
    assert "0 still to make" in again.stderr
    assert "scorer: already done" in again.stderr

    combinations = made / "combinations.jsonl"
    whole = combinations.read_bytes()
    combinations.unlink()
    early = fbrag(*command, "--stage", "recognizer")
    assert early.returncode == 2
    assert "make them first: --stage detector" in early.stderr
    late = fbrag(*command, "--stage", "detector")
    assert late.returncode == 0, late.stderr
    assert combinations.read_bytes() == whole

    labels = (made / "labels.jsonl").read_bytes()
    other = fbrag(*command, "--stage", "scorer", "--limit", "1")
    assert other.returncode == 0, other.stderr
    about = json.loads((made / "fit-rag.json").read_text())
    assert (about["training"].keys(), about.keys() & {"detector", "recognizer"}) == ({"scorer"}, set())
    assert fbrag("ask", "log.txt", "What was the bridge made of?", *chosen, "--allow-unsupported").returncode == 0
    early = fbrag(*command, "--stage", "recognizer")
    assert (early.returncode, "make it again: --stage detector" in early.stderr) == (2, True)
    late = fbrag(*command, "--stage", "detector")
    assert late.returncode == 0, late.stderr
    assert "starting over, because the scorer has changed" in late.stderr
    assert (made / "labels.jsonl").read_bytes() == labels


@pytest.mark.parametrize(
    ("stage", "told"), [("scorer", "no labels in"), ("detector", "no scorer in"), ("recognizer", "no labels in")]
)
def test_a_stage_names_what_it_lacks(tmp_path: Path, fbrag: Run, smollm2: Path, stage: str, told: str) -> None:
    needs("peft")
    rows_files(tmp_path)
    done = fbrag("train", "fit-rag", *DATA, "-m", "smollm2-135m", "-o", "made", "--stage", stage)
    assert done.returncode == 2
    assert told in done.stderr
    assert "--stage" in done.stderr


def test_labels_name_the_content_of_a_model_file(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    rows_files(tmp_path)
    own = tmp_path / "my models" / "own.gguf"
    own.parent.mkdir()
    own.symlink_to(smollm2)
    done = fbrag("train", "fit-rag", DATA[0], "-m", own, "-o", "made", "--stage", "labels", "--limit", "1")
    assert done.returncode == 0, done.stderr
    head = json.loads((tmp_path / "made" / "labels.jsonl").read_text("utf-8").splitlines()[0])
    assert head["model"] == f"{own} {sha256_of(smollm2)}"
