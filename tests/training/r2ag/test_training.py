"""`fbrag train r2ag`: the lists, what rows learn and what controls cannot, a run that was stopped, and the way to an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.relevance.features import permuted
from fbrag_cli.methods.relevance.former import load
from fbrag_cli.training.r2ag.lists import LONGEST, LONGEST_ANSWER, SHORTEST, PassageList, list_of
from fbrag_cli.training.rows import GoldQuestion, Material, Passage, Pool, read_material
from tests.conftest import Run, needs
from tests.training.ships import rows_file

# -- lists -------------------------------------------------------------------------------------------------------------------


def made(question: GoldQuestion, passages: list[Passage], length: int | None = None) -> PassageList | None:
    pool = Pool(Material((question,), {"g": tuple(passages)}, {}))
    return list_of(question, pool, pool.of("g").retriever, length)


def question(gold: tuple[str, ...] = ("1",), **changed: Any) -> GoldQuestion:
    values = {"id": "q", "dataset": "d", "text": "Who built the brig in Hull?", "answers": ("Smith",), "group": "g"}
    return GoldQuestion(**{**values, "gold": gold, "verbatim": True, "dev": False, **changed})


PASSAGES = [
    Passage("0", "The brig lay in Hull.", "g"),
    Passage("1", "Smith built it, a brig for Hull.", "g"),
    Passage("2", "A brig in Hull belonged to Smith.", "g"),
    *(Passage(f"x{i}", f"A brig of Whitby, number {i}.", "g") for i in range(20)),
]
_POOL = Pool(Material((), {"g": tuple(PASSAGES)}, {}))
BM25_OF_PASSAGES = dict(
    zip([each.id for each in PASSAGES], _POOL.of("g").retriever.scores("Who built the brig in Hull?").tolist(), strict=True)
)


def test_a_list_is_what_the_retriever_finds_and_nothing_is_put_in() -> None:
    found = made(question(), PASSAGES, 4)
    assert found is not None
    best = sorted(PASSAGES, key=lambda each: -BM25_OF_PASSAGES[each.id])[:4]
    assert list(found.passages) == [each.text for each in best]
    assert "A brig in Hull belonged to Smith." in found.passages  # it has the answer, and is not the evidence
    assert [found.passages[i] for i in np.flatnonzero(found.labels)] == ["Smith built it, a brig for Hull."]
    assert list(found.features[:, 0]) == sorted(found.features[:, 0], reverse=True)
    assert found.answer == "Smith"
    drawn = {len(each.passages) for i in range(40) if (each := made(question(id=str(i)), PASSAGES))}
    assert {SHORTEST, LONGEST} <= drawn <= {*range(SHORTEST, LONGEST + 1)}


def test_a_list_without_the_evidence_stays_and_teaches_only_relevance() -> None:
    far = Passage("far", "A man of the same name made it.", "g")
    found = made(question(gold=("far",)), [*PASSAGES, far], 4)
    assert found is not None
    assert far.text not in found.passages
    assert (list(found.labels), found.answer) == ([0, 0, 0, 0], "")


def test_a_long_answer_is_not_learnt() -> None:
    passages = [Passage(str(i), f"Ship {i} sailed to port {i}.", "g") for i in range(4)]
    found = [made(question(answers=("port " * n,)), passages) for n in (LONGEST_ANSWER, LONGEST_ANSWER + 1)]
    assert [each.answer.split() for each in found if each] == [["port"] * LONGEST_ANSWER, []]


@pytest.mark.parametrize("changed", [{"gold": ()}, {"answers": ()}])
def test_without_evidence_or_answer_there_is_no_list(changed: dict[str, Any]) -> None:
    assert made(question(**changed), PASSAGES) is None
    assert made(question(), PASSAGES[1:2]) is None


def test_the_control_gives_features_to_other_passages_the_same_ones_each_time() -> None:
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    once = permuted(features, "Who?")
    assert not (once == features).all()
    assert sorted(map(tuple, once)) == sorted(map(tuple, features))
    np.testing.assert_array_equal(once, permuted(features, "Who?"))


# -- what is learnt ------------------------------------------------------------------------------------------------------------


class Reader:
    """In place of the language model: its loss is low where the first number of a row says whether the passage is relevant.

    readings: after so many Ctrl-C is pressed.
    """

    def __init__(self) -> None:
        self.device, self.parameters, self.readings = "cpu", dict[str, Any](), 10_000

    def train(self, on: bool) -> None:
        pass

    @contextmanager
    def untrained(self) -> Iterator[None]:
        yield

    def loss(self, example: Any, rows: Any) -> Any:
        import torch

        assert example.reply
        self.readings -= 1
        if self.readings < 0:
            raise KeyboardInterrupt
        said = torch.zeros(len(example.tokens)) if rows is None else rows[:, 0]
        return torch.nn.functional.binary_cross_entropy_with_logits(said, torch.tensor(example.tokens, dtype=torch.float32))


def tasks(n: int, *, dev: bool, seed: int) -> list[Any]:
    """Lists whose relevant passage has a high feature, anywhere in the list."""
    from fbrag_cli.training.r2ag.fit import TokenizedList
    from fbrag_cli.training.r2ag.frozen_model import Example

    random, found = np.random.default_rng(seed), []
    for i in range(n):
        length = int(random.integers(3, 7))
        features, at = random.normal(size=(length, 3)).astype(np.float32), int(random.integers(0, length))
        features[at, 1] += 4
        labels = (np.arange(length) == at).astype(np.float32)
        example = Example(tuple(int(each) for each in labels), (0,))
        named = {"id": f"{seed} {i}", "question": f"{seed} {i}", "answer": "", "passages": ("",) * length}
        task = PassageList(**named, features=features, labels=labels, dev=dev)
        found.append(TokenizedList(passages=task, example=example, plain=example))
    return found


def training(path: Path, settings: Any, seed: int = 1) -> Any:
    from fbrag_cli.training.r2ag.fit import R2agFit

    both = [*tasks(120, dev=False, seed=seed), *tasks(40, dev=True, seed=seed + 1)]
    return R2agFit(both, Reader(), settings, path, n_embd=4, deviation=0.58)  # type: ignore[arg-type]


def test_rows_say_what_features_say_and_soft_rows_cannot(tmp_path: Path) -> None:
    needs("torch")
    from fbrag_cli.training.r2ag.settings import R2agTraining

    found = {}
    for control in ("none", "soft"):
        run = training(tmp_path / f"{control}.safetensors", R2agTraining(control=control, epochs=6))
        for _ in run.run():
            pass
        found[control] = float(np.mean(run.standing.dev[-1].answer))
    plain = float(np.mean(run.plain()))
    assert plain == pytest.approx(np.log(2), abs=1e-3)
    assert found["none"] < 0.2
    assert found["soft"] > 0.4
    assert not run.network.tensors()["input.weight"].any()


def test_lists_without_an_answer_teach_relevance_alone(tmp_path: Path) -> None:
    needs("torch")
    from fbrag_cli.training.r2ag.fit import R2agFit
    from fbrag_cli.training.r2ag.settings import R2agTraining

    both = [*tasks(120, dev=False, seed=1), *tasks(40, dev=True, seed=2)]
    for i, each in enumerate(both):
        if i % 4:  # three of four
            both[i] = replace(each, example=replace(each.example, reply=()), plain=replace(each.plain, reply=()))
    settings, path = R2agTraining(epochs=6), tmp_path / "some.safetensors"
    run = R2agFit(both, Reader(), settings, path, n_embd=4, deviation=0.58)  # type: ignore[arg-type]
    for _ in run.run():
        pass
    auc = run.standing.dev[-1].auc
    assert auc is not None
    assert auc > 0.95
    assert len(run.standing.dev[-1].answer) == len(run.plain()) == 10


def test_a_stopped_run_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("torch")
    from fbrag_cli.training.r2ag import fit as r2ag_fit
    from fbrag_cli.training.r2ag.settings import R2agTraining

    monkeypatch.setattr(r2ag_fit, "_BETWEEN_WRITES", 0.0)
    settings = R2agTraining(epochs=2)
    whole = training(tmp_path / "whole.safetensors", settings)
    for _ in whole.run():
        pass
    steps = []
    for readings in (30, 100, 45, 10_000):  # of lists: Ctrl-C in a step, in the check after an epoch, in a step, never
        stopped = training(tmp_path / "stopped.safetensors", settings)
        stopped._model.readings = readings
        with suppress(KeyboardInterrupt):
            for _ in stopped.run():
                pass
        steps.append(stopped.standing.steps)
    assert steps == [7, 30, 30, 60]
    assert stopped.steps == 60
    assert stopped.standing.losses == whole.standing.losses
    assert [each.answer for each in stopped.standing.dev] == [each.answer for each in whole.standing.dev]
    with pytest.raises(FbragError, match="other data or settings"):
        training(tmp_path / "stopped.safetensors", R2agTraining(epochs=3))
    (tmp_path / "stopped.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(FbragError, match="not a valid checkpoint"):
        training(tmp_path / "stopped.safetensors", settings)


# -- the command ---------------------------------------------------------------------------------------------------------------


def command(*more: str) -> list[str]:
    fixed = ["train", "r2ag", "ships.jsonl", "-m", "smollm2-135m", "-o", "made", "--limit", "4", "--list-length", "3"]
    return [*fixed, "--epochs", "1", *more]


def test_from_rows_to_an_answer(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    needs("torch")
    rows_file(tmp_path, 10)
    done = fbrag(*command("--lora", "--without", "neighbour"))
    assert done.returncode == 0, done.stderr
    assert "5 lists, 1 of them for checking" in done.stderr
    assert "tokens per epoch for smollm2-135m, 1 epoch" in done.stderr
    assert "with the plain prompt" in done.stderr
    assert done.stdout == ""
    former = load(tmp_path / "made")
    assert former.makes_rows
    assert (former.max_list, former.adapter) == (3, tmp_path / "made" / "lora.gguf")
    about = json.loads((tmp_path / "made" / "r2ag.json").read_text())
    assert about["model"]["architecture"] == "llama"
    assert about["features"] == ["relevance", "precedent"]
    assert about["training"]["r2ag"]["count"] == {"train": 4, "dev": 1}
    assert "already done" in fbrag(*command("--lora", "--without", "neighbour")).stderr

    texts = [each.text for each in read_material([tmp_path / "ships.jsonl"]).passages["ships.jsonl"]]
    (tmp_path / "log.txt").write_text("\n\n".join(texts))
    asked = ("ask", "log.txt", "Who built brig number 3?", "-m", "smollm2-135m", "--method", "r2ag", "--json")
    asked = (*asked, "--chunk-words", "50")
    answer = fbrag(*asked, "--set", "r2ag=made", "--select", "3", "--allow-unsupported")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["answer"]
    assert len(found["retrieval_information"]) == 3
    assert all(0 < each["relevance"] < 1 for each in found["retrieval_information"])
    (tmp_path / "made" / "lora.gguf").write_bytes(b"GGUF")
    refused = fbrag(*asked, "--set", "r2ag=made")
    assert refused.returncode == 4
    assert "lora.gguf cannot be used: its SHA-256 is" in json.loads(refused.stdout)["error"]["message"]


def test_relevance_is_trained_without_a_model_and_marks_the_prompt_of_every_model(tmp_path: Path, fbrag: Run) -> None:
    needs("torch")
    rows_file(tmp_path, 10)
    command = ("train", "r2ag", "ships.jsonl", "-o", "made", "--relevance", "--epochs", "1")
    done = fbrag(*command)
    assert done.returncode == 0, done.stderr
    assert "10 lists, 2 of them for checking" in done.stderr
    assert "relevance: AUC" in done.stderr
    assert "tokens per epoch" not in done.stderr
    former = load(tmp_path / "made")
    assert (former.makes_rows, former.model, former.adapter) == (False, None, None)
    assert (tmp_path / "made" / "r2ag.safetensors").stat().st_size < 250_000
    assert "already done" in fbrag(*command).stderr


@pytest.mark.parametrize(
    ("more", "told", "code"),
    [
        (("--relevance", "--lora"), "--relevance trains neither", 2),
        (("--relevance", "--control", "soft"), "--relevance trains neither", 2),
        (("--no-rows",), "--no-rows trains only LoRA", 2),
        (("--no-rows", "--lora", "--control", "soft"), "--no-rows trains only LoRA", 2),
        (("-m", "http://127.0.0.1:9/v1#x"), "is a server", 2),
        (("--set", "device=nothing"), "GPU not found", 5),
    ],
)
def test_what_cannot_be_trained_is_said_before_any_work(
    tmp_path: Path, fbrag: Run, smollm2: Path, more: tuple[str, ...], told: str, code: int
) -> None:
    needs("peft")
    rows_file(tmp_path, 10)
    done = fbrag(*command(*more))
    assert told in done.stderr
    assert done.returncode == code
    assert not (tmp_path / "made" / "r2ag.json").exists()
