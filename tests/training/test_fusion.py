"""`fbrag train fusion`: the lists, what is learnt from them, and the way from rows to a folder that ranks chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.corpus import Chunk
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.learned.r2_former import R2Former, load
from fbrag_cli.retrieval.list_features import ALL
from fbrag_cli.training.documents import read_long
from fbrag_cli.training.fusion_lists import ChunkList, is_relevant, list_of, mean_recalls
from fbrag_cli.training.fusion_samples import collected
from tests.conftest import Run
from tests.training.test_documents import passages_file

TORCH = "needs torch: pip install 'fbrag[train]'"


# -- lists -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "relevant"),
    [
        ((120, 140), True),  # wholly in the chunk
        ((90, 110), True),  # half of the evidence
        ((88, 110), False),
        ((150, 900), True),  # half of the chunk
        ((151, 900), False),
        ((200, 300), False),
    ],
)
def test_half_of_the_evidence_or_half_of_the_chunk_makes_it_relevant(gold: tuple[int, int], relevant: bool) -> None:
    document = Document.of("d", "d", Extracted(Content("x" * 1000), "text/plain"))
    assert is_relevant(Chunk(1, document, 100, 200, 1), [(500, 510), gold]) == relevant


def test_a_list_has_the_best_chunks_with_labels_and_what_the_evidence_needs(tmp_path: Path) -> None:
    question = read_long([passages_file(tmp_path, 60)], None).questions[0]
    number = question.id[1:]
    corpus, retriever = collected(question.document().text).corpus, collected(question.document().text).retriever
    made = list_of(question, {"samples": [[0, "stop", f"Rationale: gold{number} it is.\nAnswer: gold{number}"]]}, retriever)
    assert made.features.shape == (len(made.labels), len(ALL))
    assert len(made.labels) == min(40, len(corpus.chunks))
    relevant = [i for i, label in enumerate(made.labels) if label]
    assert relevant
    assert relevant[0] == 0  # only the samples name it
    (needed,) = made.needed
    assert set(relevant) <= needed
    assert made.recall(range(40), 40) == 1
    assert made.recall([i for i in range(40) if i not in needed], 5) == 0


def lists(n: int, *, dev: bool, seed: int) -> list[ChunkList]:
    """Lists of 8 to 20 chunks, of which the relevant one has two high features; its place says nothing."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        length = int(random.integers(8, 20))
        features = random.normal(size=(length, len(ALL))).astype(np.float32)
        at = int(random.integers(0, length))
        features[at, 4] += 3
        features[at, 2] += 3
        labels = np.zeros(length, np.float32)
        labels[at] = 1
        found.append(ChunkList(dataset="made", dev=dev, features=features, labels=labels, needed=(frozenset({at}),)))
    return found


@pytest.mark.parametrize("name", ["transformer", "logistic"])
def test_what_is_learnt_finds_the_relevant_chunk(name: str) -> None:
    pytest.importorskip("torch", reason=TORCH)
    from fbrag_cli.training.fusion_fit import FORMERS, fit

    train, dev = lists(100, dev=False, seed=1), lists(40, dev=True, seed=2)
    fitted = fit([*train, *dev], ALL, FORMERS[name])
    assert mean_recalls(dev, None)["made"][0] < 60
    assert mean_recalls(dev, fitted.scores)["made"][0] > 95
    assert fitted.dev_loss == min(loss for _, loss in fitted.losses)
    sizes = FORMERS[name]
    former = R2Former(
        tensors=fitted.tensors,
        features=ALL,
        max_list=40,
        heads=sizes.heads,
        layers=sizes.layers,
        retriever={},
        languages=(),
    )
    for each, logits in zip(dev, fitted.scores, strict=True):
        np.testing.assert_allclose(former.relevance(each.features), 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_of_other_features_nothing_is_learnt() -> None:
    pytest.importorskip("torch", reason=TORCH)
    from fbrag_cli.training.fusion_fit import FORMERS, fit

    train, dev = lists(100, dev=False, seed=1), lists(40, dev=True, seed=2)
    blind = fit([*train, *dev], ("relevance", "precedent", "forward"), FORMERS["logistic"])
    assert blind.tensors["input.weight"].shape[1] == 3
    assert mean_recalls(dev, blind.scores)["made"][0] < 70


def test_training_repeats_exactly() -> None:
    pytest.importorskip("torch", reason=TORCH)
    from fbrag_cli.training.fusion_fit import FORMERS, fit

    some = [*lists(20, dev=False, seed=3), *lists(5, dev=True, seed=4)]
    first, again = (fit(some, ALL, FORMERS["transformer"]) for _ in range(2))
    assert first.losses == again.losses
    assert all((first.tensors[name] == again.tensors[name]).all() for name in first.tensors)


@pytest.mark.parametrize("dev", [True, False])
def test_without_lists_of_both_kinds_nothing_is_learnt(dev: bool) -> None:
    pytest.importorskip("torch", reason=TORCH)
    from fbrag_cli.training.fusion_fit import FORMERS, fit

    with pytest.raises(ValueError, match="questions for checking"):
        fit(lists(3, dev=dev, seed=5), ALL, FORMERS["logistic"])


# -- the command -------------------------------------------------------------------------------------------------------------


def command(limit: str, *more: str) -> Sequence[str]:
    return ("train", "fusion", "facts.jsonl", "--small", "smollm2-135m", "-o", "made", "--limit", limit, *more)


def test_a_folder_is_made_and_ranks_chunks(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    pytest.importorskip("torch", reason=TORCH)
    passages_file(tmp_path, 60)
    done = fbrag(*command("2"))
    assert done.returncode == 0, done.stderr
    assert "of 3 questions, 3 of them to draw" in done.stderr
    assert "of 3 questions, 0 of them to draw" in fbrag(*command("2", "--stage", "samples")).stderr
    assert "weighted sum: evidence recall at 5 and 10: facts" in done.stderr
    about = json.loads((tmp_path / "made" / "r2ag.json").read_text())
    assert about["retriever"]["name"] == "bm25"
    assert about["model"]["name"] == "smollm2-135m"
    assert about["training"]["fusion"]["lists"] == {"train": 2, "dev": 1}
    assert about["training"]["fusion"]["worth"].keys() == {*ALL, "position"}
    assert [load(tmp_path / "made" / name).layers for name in ("transformer", "logistic")] == [1, 0]

    (tmp_path / "log.txt").write_text(read_long([tmp_path / "facts.jsonl"], None).questions[0].document().text)
    asked = ("explain", "log.txt", "Which one has gold3?", "--small", "smollm2-135m")
    learned = json.loads(fbrag(*asked, "--fusion", "learned", "--r2ag", "made", "--json").stdout)
    assert learned["method"]["fusion"] == "learned"
    assert all(0 <= chunk["combined"] <= 1 for chunk in learned["chunks"])
    assert sum(chunk["selected"] for chunk in learned["chunks"]) == 5
    table = fbrag(*asked, "--fusion", "learned", "--r2ag", "made").stdout
    assert table.splitlines()[0].split()[:3] == ["rank", "scale", "score"]

    other = fbrag(*command("2", "--stage", "samples", "--retriever", "other.gguf"))
    assert other.returncode == 2
    assert "is of another run: retriever was bm25, is other.gguf" in other.stderr


def test_the_stage_names_what_it_lacks(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    pytest.importorskip("torch", reason=TORCH)
    passages_file(tmp_path, 8)
    done = fbrag(*command("3", "--stage", "fusion"))
    assert done.returncode == 2
    assert "has no samples" in done.stderr
    assert "--stage samples" in done.stderr


@pytest.mark.parametrize(
    ("given", "told", "code"),
    [((), "--fusion learned needs a trained folder", 2), (("--r2ag", "none"), "none holds no trained parts of R2AG", 4)],
)
def test_learned_fusion_without_its_folder_is_refused(
    tmp_path: Path, fbrag: Run, smollm2: Path, given: Sequence[str], told: str, code: int
) -> None:
    (tmp_path / "log.txt").write_text("The mill is green.")
    done = fbrag(
        "ask", "log.txt", "What is green?", "--fusion", "learned", "-m", "smollm2-135m", "--small", "smollm2-135m", *given
    )
    assert told in done.stderr
    assert done.returncode == code
    assert done.stdout == ""
