"""FIT-RAG's document scorer: its batches, the weight of the rare pairs, its training, and the same logits in llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.scorer import LlamaScorer
from fbrag_cli.progress import Event, silent
from fbrag_cli.training.fit_rag_pairs import BATCH, KINDS, MISMATCHED, Batches, Pair, auc, weight_step
from tests.retrieval import minilm

NEEDS_TORCH = "needs torch, transformers and peft: pip install 'fbrag[train]'"
PLACES = "Hull York Leith Cork Dover Deal Wick Ayr Rye Looe Fowey Poole Bude Ryde Cowes Hythe".split()


def pairs(n: int, *, dev: bool) -> list[Pair]:
    """Questions on towns. A passage has the answer if it names the town, and is preferred if it speaks of a smith: of four pairs
    one has an answer that does not help."""
    found = []
    for i in range(n):
        town, other = PLACES[i % len(PLACES)], PLACES[(i + 3) % len(PLACES)]
        has, prefers = i % 4 in (0, 1), i % 4 in (1, 3)
        who, did = ("The smith", "forged") if prefers else ("A cook", "boiled")
        text = f"{who} of {town if has else other} {did} it in the year {i}."
        found.append(Pair(f"Who worked in {town}?", text, has, prefers, dev))
    return found


# -- batches and the weight ------------------------------------------------------------------------------------------------


def test_batches_never_lack_the_rare_pairs_and_expect_what_all_pairs_do() -> None:
    many = [Pair("q", str(i), True, i % 20 != 0, False) for i in range(400)]  # one of twenty mismatched
    many += [Pair("q", str(i), False, None, False) for i in range(400, 500)]
    values = np.random.default_rng(0).normal(size=len(many))
    batches, random = Batches(many), np.random.default_rng(1)
    assert batches.steps == -(-500 // BATCH)
    means = []
    for _ in range(60):
        for batch in batches.epoch(random):
            assert len(batch["mismatched"]) >= MISMATCHED
            assert sum(map(len, batch.values())) == BATCH
            assert all(many[i].kind == kind for kind, found in batch.items() for i in found)
            means.append(sum(batches.shares[kind] * values[found].mean() for kind, found in batch.items()))
    assert np.mean(means) == pytest.approx(values.mean(), abs=4 * np.std(means) / len(means) ** 0.5)


def test_the_kinds_of_pairs() -> None:
    assert [Pair("q", "t", True, prefers, False).kind for prefers in (True, False, None)] == list(KINDS)


def test_the_step_of_w_is_the_derivative_of_the_validation_loss() -> None:
    """A logistic regression, one plain step: against a finite difference, and with the sign that the paper's print lacks."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 4)), (random.uniform(size=60) < 0.5).astype(float)
    matched = np.arange(60) < 54
    x_dev, y_dev = random.normal(size=(30, 4)), (random.uniform(size=30) < 0.5).astype(float)
    theta, rate = random.normal(size=4), 0.1

    def gradient(inputs: np.ndarray, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
        return inputs.T @ (1 / (1 + np.exp(-inputs @ at)) - labels) / len(labels)

    def loss(at: np.ndarray) -> float:
        z = x_dev @ at
        return float(np.mean(np.log1p(np.exp(z)) - y_dev * z))

    g_matched, g_mismatched = (gradient(x[own], y[own], theta) * own.mean() for own in (matched, ~matched))

    def moved(w: float) -> np.ndarray:
        return theta - rate * (w * g_matched + (1 - w) * g_mismatched)

    w, h = 0.5, 1e-5
    expected = (loss(moved(w + h)) - loss(moved(w - h))) / (2 * h)
    found = rate * weight_step(gradient(x_dev, y_dev, moved(w)), g_matched, g_mismatched)
    assert abs(expected) > 1e-6
    assert found == pytest.approx(expected, rel=1e-3)


def test_auc_counts_the_pairs_in_order() -> None:
    scores, labels = np.array([0.1, 0.4, 0.4, 0.9], np.float32), np.array([False, True, False, True])
    assert auc(scores, labels) == pytest.approx((1 + 1 + 1 + 0.5) / 4)
    assert np.isnan(auc(scores, np.ones(4, bool)))


# -- training --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(pytestconfig: pytest.Config) -> Path:
    return minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft", reason=NEEDS_TORCH)
    from fbrag_cli.training.fit_rag_scorer import train

    folder = tmp_path_factory.mktemp("scorer")
    report = train([*pairs(64, dev=False), *pairs(32, dev=True)], base, folder, silent, epochs=2)
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def test_it_learns_and_says_how(trained: Path) -> None:
    report = json.loads((trained / "report.json").read_text())
    assert report["pairs"]["train"] == {"matched": 32, "mismatched": 32, "partial": 0}
    first, last = report["epochs"][0], report["epochs"][-1]
    assert last["balanced_loss"] < first["balanced_loss"] < 2 * np.log(2) + 0.1
    assert last["auc_llm_prefer"] > 0.9
    assert len(report["w"]) == 2
    assert all(0.02 <= w <= 0.98 for w in report["w"])


def test_a_run_that_was_stopped_goes_on_to_the_same_scorer(base: Path, trained: Path, tmp_path: Path) -> None:
    from fbrag_cli.training.fit_rag_scorer import train

    some = [*pairs(64, dev=False), *pairs(32, dev=True)]

    def stops_in_the_second_epoch(event: Event) -> None:
        if event.done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(some, base, tmp_path, stops_in_the_second_epoch, epochs=2)
    assert not (tmp_path / "scorer.gguf").exists()
    train(some, base, tmp_path, silent, epochs=2)
    assert (tmp_path / "scorer.gguf").read_bytes() == (trained / "scorer.gguf").read_bytes()


def test_llama_cpp_computes_the_logits_of_transformers(base: Path, trained: Path) -> None:
    import torch

    from fbrag_cli.training.fit_rag_network import Network

    network = Network(base, 3e-4, 0)
    network.load(trained / "scorer-best.safetensors")
    network._halves = False
    questions = ["Who worked in Hull?", "Which smith of which town forged which anchor for which brig? " * 8]
    texts = ["The smith of Hull forged it.", "A cook of York boiled it. " * 20]
    some = [Pair(question, text, True, True, False) for question in questions for text in texts]
    with torch.no_grad():
        expected, _ = network.logits(network.inputs(some))
    with LlamaScorer(trained / "scorer.gguf", threads=1) as scorer:
        found = np.concatenate([scorer.scores(question, texts) for question in questions])
        assert found == pytest.approx(expected, abs=2e-3)
        long = "A cook of York boiled it. " * 150  # more than 512 tokens
        parts = scorer.scores(questions[0], [long + "The smith of Hull forged it.", long])
        assert parts[0, 0] > parts[1, 0]  # the largest of its windows counts
        assert scorer.scores(questions[0], []).shape == (0, 2)


def test_the_encoder_of_the_scorer_embeds_questions(trained: Path) -> None:
    with LlamaScorer(trained / "scorer.gguf", threads=1) as scorer:
        found = scorer.embed(["Who worked in Hull?", "Who was at work in Hull?", "What is the price of wheat?"])
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2]


def test_a_model_without_two_outputs_is_no_scorer(pytestconfig: pytest.Config) -> None:
    with pytest.raises(FbragError, match="no document scorer"):
        LlamaScorer(minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2.gguf", threads=1)


def test_pairs_of_one_kind_teach_nothing(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason=NEEDS_TORCH)
    from fbrag_cli.training.fit_rag_scorer import train

    with pytest.raises(ValueError, match="labels differ"):
        train([Pair("q", "t", True, True, dev) for dev in (True, False)], base, tmp_path, silent)
