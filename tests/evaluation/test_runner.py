"""The runner with a stand-in for the models: what is asked once, what is written, and what a second run does."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.configurations import Configuration
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.results import read_results
from fbrag_cli.evaluation.runner import run
from fbrag_cli.generation.cached import CachePolicy
from fbrag_cli.generation.generator import CallOptions, Generations, Message, Sampling
from fbrag_cli.methods.fb_rag.baselines import LongContext, OrderPreserving, Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.query import Collection, Role
from fbrag_cli.session.models import Models
from fbrag_cli.session.retrievers import Retrievers
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from tests.methods.scripted import Scripted

PARTS = ["Grey water lay flat under low cloud."] * 8
PARTS[2] = "The lantern of the barque was sealed by Tobias Wrenn."
PARTS[5] = "Wrenn was born at Skerrow and went to sea as a boy."
TEXT = "\n".join(PARTS)
METHOD = FBRag(recall=3, select=2, samples=2, allow_unsupported=True)
BASE = Configuration(METHOD, "small", "large", chunk_words=10)


def example(number: int, question: str = "Who sealed the lantern?", text: str = TEXT) -> Example:
    return Example(f"q{number}", "tales", question, ("Tobias Wrenn",), lambda: text, "one", evidence=(PARTS[2],))


@dataclass(frozen=True)
class _File:
    identity: str
    path: Path
    sha256: str | None = None
    state: str = ""


class _Models(Models):
    """Scripted models by name, each with a file."""

    def __init__(self, models: dict[str, Scripted]) -> None:
        super().__init__(ModelSettings(small="small", large="large"))
        self._scripted = models

    def load(self, name: str, role: Role = "large", adapter: Any = None, lease: Any = None, ahead: Any = None) -> Any:
        return self._scripted[name]

    def file(self, name: str, listener: Any = None) -> Any:
        return _File(name, Path(name))

    def find(self, names: Sequence[str], listener: Any = None) -> None:
        """All are there."""

    def check(self, names: Sequence[str]) -> None:
        """All are there."""


class _Retrievers(Retrievers):
    """Counts what it makes."""

    def __init__(self, settings: ModelSettings, cache: Cache) -> None:
        super().__init__(settings, cache)
        self._found: list[Any] = []  # kept, so that no two have the same id

    @property
    def made(self) -> int:
        return len(set(map(id, self._found)))

    def over(self, collection: Collection, name: str, lease: Any) -> Any:
        self._found.append(super().over(collection, name, lease))
        return self._found[-1]


class Bench:
    """The stand-ins, and what they were asked."""

    def __init__(self, replies: Sequence[str] = ("Rationale: Tobias Wrenn did.\nAnswer: Tobias Wrenn",)) -> None:
        self.models = {name: Scripted(list(replies)) for name in ("small", "other", "large")}
        self.cache = Cache(Path(tempfile.mkdtemp()) / "cache")
        self.retrievers = _Retrievers(ModelSettings(), self.cache)

    def session(self) -> Session:
        return Session(_Models(self.models), self.retrievers, self.cache, reuse=CachePolicy(report_original_costs=True))


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_row_tells_the_metrics_and_what_they_cost(tmp_path: Path) -> None:
    bench = Bench()
    run([example(1)], [BASE], tmp_path / "rows.jsonl", bench.session())
    (row,) = rows(tmp_path / "rows.jsonl")
    assert (row["id"], row["dataset"], row["status"], row["main_metric"]) == ("q1", "tales", "answered", "f1")
    assert row["metrics"]["evidence_recall"] == row["metrics"]["full_evidence"] == row["metrics"]["answer_in_samples"] == 1
    assert 0 < row["metrics"]["f1"] <= 1
    assert row["confidence"] == row["metrics"]["answer_in_context"] == 1  # both samples hold the answer
    assert row["tokens_read"] == 200
    assert row["seconds"]["total"] >= row["seconds"]["forward"] > 0
    assert row["configuration"]["recall"] == 3
    assert read_results(tmp_path / "rows.jsonl")[0].score == row["metrics"]["f1"]


def test_the_answer_in_the_context_is_sought_in_each_excerpt_for_itself(tmp_path: Path) -> None:
    """The chunks end with "Tobias" and begin with "Wrenn": the answer stands in neither of them."""
    parts = ["Grey water lay flat under the low cloud by Tobias.", "Wrenn sealed the lantern of the old barque that day."]
    split = replace(example(1, text="\n".join(parts)), document="split", evidence=())
    asked = [split, example(2), replace(example(3), dataset="qmsum"), replace(example(4), answers=(), answerable=False)]
    run(asked, [replace(BASE, method=OrderPreserving(select=2), large=None)], tmp_path / "rows.jsonl", Bench().session())
    assert [row["metrics"].get("answer_in_context") for row in rows(tmp_path / "rows.jsonl")] == [0, 1, None, None]


def test_evidence_in_a_copy_of_what_was_read_counts(tmp_path: Path) -> None:
    passage = "The lantern of the old barque was sealed by Wrenn."  # 10 words, a chunk
    copied = passage.replace(" ", "\n")
    others = [f"Grey water lay flat under low cloud on day {i}." for i in range(6)]
    asked = replace(example(1, text="\n".join([*others, passage, others[0], copied])), evidence=(passage, copied))
    run([asked], [replace(BASE, method=OrderPreserving(select=1), large=None)], tmp_path / "rows.jsonl", Bench().session())
    (row,) = rows(tmp_path / "rows.jsonl")
    assert (len(row["selected"]), row["metrics"]["evidence_recall"]) == (1, 1)


def test_choices_are_asked_and_not_retrieved_by(tmp_path: Path) -> None:
    """The paper has them in the prompts of both models alone. By the words of the wrong one another chunk would be the best."""
    bench, wrong = Bench(), "a boy who was born at Skerrow and went to sea"
    asked = replace(example(1), answers=("Tobias Wrenn", "B"), choices=(wrong, "Tobias Wrenn"))
    one = replace(METHOD, recall=1, select=1)
    run([asked], [replace(BASE, method=one)], tmp_path / "rows.jsonl", bench.session())
    (row,) = rows(tmp_path / "rows.jsonl")
    assert (row["selected"], row["main_metric"], row["metrics"]["answer_in_context"]) == ([3], "accuracy", 1)
    for name in ("small", "large"):
        prompt = "".join(message.text for message in bench.models[name].asked[0][0])
        assert f"Question: Who sealed the lantern?\nA. {wrong}\nB. Tobias Wrenn" in prompt
        assert "sea as a boy" not in prompt


def test_configurations_share_index_samples_and_answers(tmp_path: Path) -> None:
    bench = Bench()
    configurations = [
        replace(BASE, method=replace(METHOD, samples=k, select=n, weights=weights, order=order))
        for k, n, weights, order in product([1, 2], [1, 2], ["0.5:0.5", "0:1"], ["read-first", "document"])
    ]
    run([example(1), example(2, "Where was Wrenn born?")], configurations, tmp_path / "rows.jsonl", bench.session())
    written = rows(tmp_path / "rows.jsonl")
    assert len(written) == 2 * 2 * 2 * 2 * 2
    assert bench.retrievers.made == 1
    assert [n for _, n, _ in bench.models["small"].asked] == [2, 2]  # one look forward a question; one sample is taken of two
    asked = [prompt for prompt, _, _ in bench.models["large"].asked]
    assert len(asked) == len(set(asked))


def test_what_a_method_does_not_read_makes_no_row(tmp_path: Path) -> None:
    bench = Bench()
    methods = product([Vanilla, OrderPreserving, LongContext], [1, 2])
    configurations = [replace(BASE, method=method(select=n, allow_unsupported=True)) for method, n in methods]
    run([example(1)], configurations, tmp_path / "rows.jsonl", bench.session())
    told = [(row["configuration"]["method"], row["configuration"].get("select")) for row in rows(tmp_path / "rows.jsonl")]
    assert sorted(told, key=str) == [
        ("long-context", None),
        ("order-preserving", 1),
        ("order-preserving", 2),
        ("vanilla", 1),
        ("vanilla", 2),
    ]
    assert bench.models["small"].asked == []


def test_the_check_runs_and_the_answer_is_kept_as_it_was_written(tmp_path: Path) -> None:
    """What was answered before without the check is answered again."""
    both = [example(1), replace(example(2, "Who stole it?"), answers=(), answerable=False)]
    bench, path = Bench(), tmp_path / "rows.jsonl"
    bench.models["large"].yes = 0.1  # the answer is not in the chunks
    bench.models["small"] = Scripted(["Rationale: Nobody did.\nAnswer: nobody"])  # and in no sample
    run(both, [BASE], path, bench.session())
    assert not any("abstain" in name for row in rows(path) for name in row["metrics"])
    checked = replace(BASE, checked=True)
    assert checked.key == BASE.key
    found = run(both, [checked], path, bench.session())
    again = rows(path)[2:]
    assert [(row["id"], row["status"]) for row in again] == [("q1", "not_found"), ("q2", "not_found")]
    told = [{name: value for name, value in row["metrics"].items() if "abstain" in name} for row in again]
    assert told == [{"abstain_wrongly": 1}, {"abstain": 1}]
    for row in again:  # the check is no part of the time to an answer
        taken = [value for name, value in row["seconds"].items() if name not in ("verify", "total", "first_token")]
        assert row["seconds"]["total"] == pytest.approx(sum(taken), abs=1e-3)
    assert again[0]["metrics"]["f1"] > 0  # of the answer that was withheld
    assert [(each.right, each.value("score")) for each in found] == [(False, 0), (True, None)]
    run(both, [checked], path, bench.session())
    assert len(rows(path)) == 4


def test_rows_in_the_cache_are_not_made_again(tmp_path: Path) -> None:
    """For the same examples, settings and models; a failure is tried again."""
    bench, examples = Bench(), [example(1), example(2, "Where was Wrenn born?")]
    run(examples[:1], [BASE], None, bench.session())  # as if it had been killed then
    n_asked = len(bench.models["small"].asked)
    found = run(examples, [BASE], None, bench.session())
    assert [each.id for each in found] == ["q1", "q2"]
    again = Bench()
    again.cache = bench.cache
    assert [each.answer for each in run(examples, [BASE], None, again.session())] == [each.answer for each in found]
    assert again.models["small"].asked == again.models["large"].asked == []
    assert len(bench.models["small"].asked) == n_asked + 1
    assert [each.gold for each in run([replace(examples[0], answers=("Wrenn",))], [BASE], None, again.session())] == [("Wrenn",)]


def test_without_a_large_model_nothing_is_answered(tmp_path: Path) -> None:
    bench = Bench()
    run([example(1)], [replace(BASE, large=None)], tmp_path / "rows.jsonl", bench.session())
    (row,) = rows(tmp_path / "rows.jsonl")
    assert (row["status"], row["answer"]) == ("retrieved", None)
    assert set(row["metrics"]) == {"evidence_recall", "full_evidence", "answer_in_context", "answer_in_samples"}
    assert bench.models["large"].asked == []


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    examples = [example(1), example(2), example(3)]
    run(examples[:2], [BASE], path, Bench().session())
    whole = path.read_text("utf-8")
    path.write_text(whole[:-30], "utf-8")  # killed while it wrote
    bench = Bench()
    run(examples, [replace(BASE, method=replace(METHOD, select=n)) for n in (2, 1)], path, bench.session())
    found = read_results(path)
    assert len(found) == 6
    assert len({(row.id, str(row.configuration)) for row in found}) == 6
    again = Bench()
    run(examples, [replace(BASE, method=replace(METHOD, select=n)) for n in (2, 1)], path, again.session())
    assert again.models["small"].asked == []


def test_rows_of_other_versions_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    run([example(1)], [BASE], path, Bench().session())
    before = path.read_bytes()
    monkeypatch.setattr("fbrag_cli.evaluation.runner.versions", lambda: {"fbrag": "1", "llama_cpp_python": "0.4"})
    with pytest.raises(FbragError) as caught:
        run([example(2)], [BASE], path, Bench().session())
    assert caught.value.code == "usage"
    assert path.read_bytes() == before
    run([example(2)], [BASE], path, Bench().session(), restart=True)
    assert [row["id"] for row in rows(path)] == ["q2"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"question": "Who broke the lantern?"}, "q1 of tales has changed"),
        ({"answers": ("Wrenn",)}, "q1 of tales has changed"),
        ({"evidence": (PARTS[5],)}, "q1 of tales has changed"),
        ({"document": "another"}, "q1 of tales has changed"),
        ({}, "the small model small has changed"),
    ],
)
def test_rows_of_other_questions_or_models_are_not_mixed(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    path, bench = tmp_path / "rows.jsonl", Bench()
    run([example(1)], [BASE], path, bench.session())
    before = path.read_bytes()
    session = bench.session()
    if not changed:
        session.models.file = lambda name, _=None: _File("new", Path(name))  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(FbragError, match=told) as refused:
        run([replace(example(1), **changed), example(2)], [BASE], path, session)
    assert (refused.value.code, path.read_bytes()) == ("usage", before)


def test_one_example_that_fails_is_a_row_and_is_tried_again(tmp_path: Path) -> None:
    class Refuses(Scripted):
        def generate(
            self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions | None = None
        ) -> Generations:
            if "born" in messages[0].text.rsplit("Question:")[-1]:
                raise FbragError("prompt_too_long", "too long")
            return super().generate(messages, n, sampling, options)

    path = tmp_path / "rows.jsonl"
    bench = Bench()
    bench.models["small"] = Refuses(["x"])
    run([example(1, "Where was Wrenn born?"), example(2)], [BASE], path, bench.session())
    assert [(row["status"], row["error"]) for row in rows(path)] == [("error", "too long"), ("answered", None)]
    run([example(1, "Where was Wrenn born?"), example(2)], [BASE], path, Bench().session())
    assert [row.status for row in read_results(path)] == ["answered", "answered"]
    assert len(rows(path)) == 3
