"""FIT-RAG's labels: which passages are labelled, what a label says, and a file that outlasts whatever happens to the run."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions, Generation, Generations, Message, ModelInfo, Sampling
from fbrag_cli.progress import Listener
from fbrag_cli.training.fit_rag import labels as labelling
from fbrag_cli.training.fit_rag.labels import check_questions, split_questions
from fbrag_cli.training.rows import GoldQuestion, Material, Passage, Pool, read_material
from tests.conftest import Run
from tests.generation.tiny_gguf import Tiny
from tests.servers import Loopback
from tests.training.ships import asked, rows_file


@pytest.mark.parametrize(
    ("n", "limit", "shares"), [(9, 9, (6, 3)), (9, 12, (6, 3)), (9, 2, (2, 2)), (9, None, (6, 3)), (2, 2, (2, 0))]
)
def test_a_small_data_set_is_shared(n: int, limit: int | None, shares: tuple[int, int]) -> None:
    first, second = split_questions([*map(asked, range(n)), asked(99, dev=True)], limit)
    assert (len(first) - 1, len(second) - 1) == shares
    assert first[-1] == second[-1] == asked(99, dev=True)


def test_a_stage_without_questions_is_told_before_the_work() -> None:
    train, dev, group = asked(1), asked(2, dev=True), asked(3, group="")
    check_questions("all", [train, dev], [train, dev])
    check_questions("labels", [group], [group])
    check_questions("scorer", [train, dev], [])
    with pytest.raises(FbragError, match="for the detector: none for training"):
        check_questions("all", [train, dev], [dev, group])
    with pytest.raises(FbragError, match="for the scorer: none for checking"):
        check_questions("scorer", [train], [train])


def test_candidates_are_at_most_three_with_the_answer_and_the_nearest_without() -> None:
    question = GoldQuestion("1", "ships", "?", ("Hull",), "g", ("p9",), True, False)
    passages = [Passage(f"p{i}", "built in Hull" if i in (1, 3, 5, 7) else "built in York", "g") for i in range(20)]
    found = [each.id for each in labelling.candidates(question, passages)]
    assert found == ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p8"]
    assert [question.has_answer(each) for each in passages[:2]] == [False, True]
    assert question.has_answer(passages[9])  # the row names it


def test_a_passage_far_from_the_question_is_a_candidate_only_as_evidence() -> None:
    """Far away an answer stands in a passage by chance: here in the last two, of which one is named as evidence."""
    near = [Passage(f"p{i}", f"The ship was built in York, says page {i}.", "g") for i in range(labelling.NEAREST)]
    far = [Passage("chance", "Mr. Hull dines.", "g"), Passage("gold", "Hull it is.", "g")]
    question = GoldQuestion("1", "ships", "Where was the ship built?", ("Hull",), "g", ("gold",), True, False)
    pool = Pool(Material((question,), {"g": (*near, *far)}, {}))
    found = {each.id for each in labelling.nearest_candidates(pool, question)}
    assert "gold" in found
    assert "chance" not in found
    assert len(found) == labelling.PASSAGES


class Parrot:
    """A model that repeats what it reads, and says nothing without a passage."""

    info = ModelInfo("parrot", None, None, 4096)

    def generate(self, messages: tuple[Message, ...], n: int, sampling: Sampling, options: CallOptions) -> Generations:
        text = messages[0].text if "passages" in messages[0].text else ""
        return Generations((Generation(text, 1, "stop", 0),), 1, 0, 0.0, 0.0)


def test_a_label_says_whether_the_model_answers_rightly_from_the_passage_alone(tmp_path: Path) -> None:
    material = read_material([rows_file(tmp_path)])
    trials = list(labelling.trials_of(Pool(material), material.questions[:1], material.questions[:2]))
    assert len(trials) == 2 + labelling.PASSAGES  # of the other question only the reply without a passage
    rows = list(labelling.labels(trials, Parrot(), Listener()))  # type: ignore[arg-type]
    assert [row["right"] for row in rows] == [row["has_answer"] == [True] for row in rows]
    assert sum(row["right"] for row in rows) == 1
    counts = labelling.count_pairs(rows)
    assert counts == {(True, True): 1, (False, False): labelling.PASSAGES - 1}


def test_the_replies_from_a_passage_are_made_one_after_the_other(tmp_path: Path) -> None:
    """A prompt begins with its passage, which is then read once."""
    material = read_material([rows_file(tmp_path)])
    trials = labelling.by_passage(labelling.trials_of(Pool(material), material.questions, ()))
    read = [trial.passages[0].id if trial.passages else "" for trial in trials]
    assert len(trials) == len(material.questions) * (1 + labelling.PASSAGES)
    assert sum(a != b for a, b in pairwise(read)) == len(set(read)) - 1
    assert read[-len(material.questions) :] == [""] * len(material.questions)


def test_replies_at_once_are_those_of_one_by_one(tmp_path: Path, fbrag: Run) -> None:
    """In full precision; rounding of quantized weights depends on the others in a batch."""
    rows_file(tmp_path, 3)
    model = Tiny(blocks=2, heads=4, width=64, weights=0.3).write(tmp_path / "tiny.gguf")
    made = {}
    for jobs in ("1", "4"):
        done = fbrag(
            *("train", "fit-rag", "ships.jsonl", "-m", str(model), "-o", jobs, "--no-cache", "--stage", "labels"),
            *("--jobs", jobs),
        )
        assert done.returncode == 0, done.stderr
        made[jobs] = (tmp_path / jobs / "labels.jsonl").read_bytes()
    assert made["1"] == made["4"]


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    rows_file(tmp_path, 3)
    command = ("train", "fit-rag", "ships.jsonl", "-m", "smollm2-135m", "-o", "made", "--no-cache", "--stage", "labels")
    done = fbrag(*command)
    assert done.returncode == 0, done.stderr
    assert "12 replies, 12 still to make" in done.stderr
    labels = tmp_path / "made" / "labels.jsonl"
    whole = labels.read_bytes()
    labels.write_bytes(whole[: len(whole) // 2])
    again = fbrag(*command)
    assert again.returncode == 0, again.stderr
    assert labels.read_bytes() == whole
    assert "labels: 9 passages: " in again.stderr
    other = fbrag("train", "fit-rag", "ships.jsonl", "-m", "smollm2-135m", "--stage", "labels", "-o", "made", "--limit", "1")
    assert other.returncode == 0, other.stderr  # fewer questions of the same data
    rows_file(tmp_path, 4)
    other = fbrag(*command)
    assert other.returncode == 2
    assert "was written by another run (ships.jsonl has changed)" in other.stderr
    assert labels.read_bytes() == whole
    head, _, rest = whole.partition(b"\n")
    labels.write_bytes(json.dumps(json.loads(head) | {"data": "ships"}, separators=(",", ":")).encode() + b"\n" + rest)
    other = fbrag(*command)
    assert other.returncode == 2
    assert "labels.jsonl is not a file of such rows" in other.stderr


def test_labels_stay_when_a_data_file_is_added_or_left_out(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    ships, boats = rows_file(tmp_path, 2), tmp_path / "boats.jsonl"
    boats.write_text(ships.read_text().replace('"ships"', '"boats"'))

    def made(*data: str) -> str:
        done = fbrag("train", "fit-rag", *data, "-m", "smollm2-135m", "-o", "made", "--no-cache", "--stage", "labels")
        assert done.returncode in (0, 2), done.stderr
        return done.stderr

    assert "6 replies, 6 still to make" in made("ships.jsonl")
    assert "12 replies, 6 still to make" in made("ships.jsonl", "boats.jsonl")
    assert "6 replies, 0 still to make" in made("boats.jsonl")
    boats.write_text(boats.read_text() + " ")
    assert "was written by another run (boats.jsonl has changed)" in made("ships.jsonl", "boats.jsonl")


def test_labels_of_a_server_belong_to_the_model_that_it_names(tmp_path: Path, fbrag: Run) -> None:
    rows_file(tmp_path, 2)
    with Loopback() as server:
        command = ("train", "fit-rag", "ships.jsonl", "-m", server.address, "-o", "made", "--stage", "labels")
        done = fbrag(*command)
        assert done.returncode == 0, done.stderr
        labels = (tmp_path / "made" / "labels.jsonl").read_bytes()
        assert json.loads(labels.splitlines()[0])["model"] == f"{server.address} tiny"
        server.pages["/v1/models"]["data"][0]["id"] = "another"
        other = fbrag(*command)
    assert other.returncode == 2
    assert f"model {server.address} tiny, now {server.address} another" in other.stderr
    assert (tmp_path / "made" / "labels.jsonl").read_bytes() == labels
