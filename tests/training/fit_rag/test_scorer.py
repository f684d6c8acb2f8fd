"""FIT-RAG's document scorer: a training on some 40 pairs, with two layers of MiniLM, that learns, stops and goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.encoder import LlamaScorer
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.progress import Event
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.training.base_encoder import BaseEncoder, read_base
from fbrag_cli.training.fit_rag.pairs import Pair
from tests.conftest import needs
from tests.retrieval import minilm

for _library in ("torch", "transformers", "peft"):
    needs(_library)

if TYPE_CHECKING:
    from fbrag_cli.training.fit_rag.scorer import ScorerSettings, TrainedScorer

_SHIPS = "Argo Bounty Beagle Endurance Fram Gjoa Hermione Jason Kestrel Lydia Mary Nautilus Orion Pinta Rattler Swift".split()
_DEV = 12  # of the ships on are for checking
LAYERS = 2


def ship_pairs() -> list[Pair]:
    """Of each ship a text with the answer that leads to it, one that leads astray, and two of something else."""
    pairs = []
    for i, ship in enumerate(_SHIPS):
        texts = [
            (f"The {ship} was built by old master Smith in Hull.", True, True),
            (f"Nobody knows: the {ship} may have been built by master Smith, or was she found?", True, False),
            ("Rain fell on the market all day, and nobody bought a thing.", False, False),
            ("The price of wool rose again.", False, None),
        ]
        pairs += [Pair(f"Who built the {ship}?", text, *labels, i >= _DEV, ship) for text, *labels in texts]
    return pairs


@pytest.fixture(scope="module")
def base(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> BaseEncoder:
    """The first layers of MiniLM, as a folder that a user could name."""
    from safetensors.numpy import load_file, save_file

    whole, folder = minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2", tmp_path_factory.mktemp("base")
    shutil.copy(whole / "vocab.txt", folder)
    config = json.loads((whole / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}), "utf-8")
    beyond = tuple(f"encoder.layer.{i}." for i in range(LAYERS, config["num_hidden_layers"]))
    kept = {name: each for name, each in load_file(whole / "model.safetensors").items() if not name.startswith(beyond)}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    return read_base(folder)


def settings(**changes: float) -> ScorerSettings:
    from fbrag_cli.training.fit_rag.scorer import ScorerSettings

    return ScorerSettings(**{"epochs": 5, "batch": 8, "every": 3, "validation": 4, "rate": 5e-3, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(base: BaseEncoder, tmp_path_factory: pytest.TempPathFactory) -> TrainedScorer:
    from fbrag_cli.training.fit_rag.scorer import train_scorer

    return train_scorer(ship_pairs(), base, tmp_path_factory.mktemp("trained"), settings())


def test_it_learns_which_texts_hold_the_answer(trained: TrainedScorer) -> None:
    first, best = trained.epochs[0], trained.epochs[trained.best - 1]
    assert best.loss < first.loss
    assert best.dev.loss == min(epoch.dev.loss for epoch in trained.epochs) == trained.dev.loss
    assert best.dev.auc_answer is not None
    assert best.dev.auc_answer > 0.9
    with LlamaScorer(trained.path, Loading(threads=1)) as scorer:
        texts = ["The Victory was built by old master Smith in Hull.", "The price of wool rose again."]
        built, wool = scorer.scores("Who built the Victory?", texts)
    assert built[0] > 0 > wool[0]
    assert built[1] > wool[1]


def test_llama_computes_what_torch_does(trained: TrainedScorer) -> None:
    assert trained.llama_difference < 5e-3  # logits of some -5..5, matrices in 16 bits


def test_the_course_of_w_and_the_labels_are_told(trained: TrainedScorer) -> None:
    steps = 5 * 6  # 11 ships of 4 pairs in batches of 8, five epochs
    assert len(trained.weights) == 1 + steps // 3
    assert trained.weights[0] == 0.5
    moves = [abs(a - b) for a, b in zip(trained.weights, trained.weights[1:], strict=False)]
    assert 0 < max(moves) <= 0.01 + 1e-9
    assert trained.labels == {
        "train": {"0,-": 11, "0,0": 11, "1,0": 11, "1,1": 11},
        "validation": {"0,-": 1, "0,0": 1, "1,0": 1, "1,1": 1},
        "dev": {"0,-": 4, "0,0": 4, "1,0": 4, "1,1": 4},
    }


def test_a_stopped_run_goes_on_and_ends_with_the_same_scorer(trained: TrainedScorer, base: BaseEncoder, tmp_path: Path) -> None:
    from fbrag_cli.training.fit_rag.scorer import train_scorer

    steps = []

    def stop_in_the_third_epoch(event: Event) -> None:
        if event.kind == "progress":
            steps.append(event.done)
            if event.done == 15:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_scorer(ship_pairs(), base, tmp_path, settings(), stop_in_the_third_epoch)
    assert not (tmp_path / "scorer.gguf").exists()
    steps.clear()
    again = train_scorer(ship_pairs(), base, tmp_path, settings(), lambda event: steps.append(event.done))
    assert min(step for step in steps if step) == 13  # the third epoch from its beginning
    assert (again.epochs, again.weights, again.best) == (trained.epochs, trained.weights, trained.best)
    assert sha256_of(again.path) == sha256_of(trained.path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scorer.checkpoint.safetensors", "scorer.gguf"]


def test_a_checkpoint_of_other_pairs_is_refused(trained: TrainedScorer, base: BaseEncoder, tmp_path: Path) -> None:
    from fbrag_cli.training.fit_rag.scorer import train_scorer

    shutil.copy(trained.path.with_name("scorer.checkpoint.safetensors"), tmp_path)
    with pytest.raises(FbragError, match="other data or settings") as refused:
        train_scorer(ship_pairs()[:-1], base, tmp_path, settings())
    assert refused.value.code == "usage"
    (tmp_path / "scorer.checkpoint.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(FbragError, match="not a valid checkpoint"):
        train_scorer(ship_pairs(), base, tmp_path, settings())


def test_w_stays_where_there_is_nothing_to_weigh(base: BaseEncoder, tmp_path: Path) -> None:
    from fbrag_cli.training.fit_rag.scorer import train_scorer

    events: list[Event] = []
    matched = [pair for pair in ship_pairs() if pair.prefers in (None, pair.has_answer)]
    found = train_scorer(matched, base, tmp_path, settings(epochs=1), events.append)
    assert found.weights == (0.5,)
    assert any(event.kind == "warning" and "0.5" in event.text for event in events)


def test_pairs_for_checking_are_needed(base: BaseEncoder, tmp_path: Path) -> None:
    from fbrag_cli.training.fit_rag.scorer import train_scorer

    with pytest.raises(FbragError, match="0 for checking") as refused:
        train_scorer([pair for pair in ship_pairs() if not pair.dev], base, tmp_path, settings())
    assert refused.value.code == "usage"
