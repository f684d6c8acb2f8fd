"""Trains FIT-RAG's bi-label document scorer: an encoder with LoRA and two outputs, and a weight between rare and common pairs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.generation.llama.scorer import INPUT_TOKENS, LABELS
from fbrag_cli.progress import Event, Progress
from fbrag_cli.storage.files import whole_file
from fbrag_cli.training import bert_gguf
from fbrag_cli.training.fit_rag_network import Network
from fbrag_cli.training.fit_rag_pairs import KINDS, Batches, Pair, auc, weight_step

EPOCHS, RATE, SEED = 5, 3e-4, 0
#: w: its start, its bounds, how far an update moves it at most, steps between two updates, pairs of each kind for it.
W, W_LEAST, W_MOST, ALPHA, EVERY, CHECKED = 0.5, 0.02, 0.98, 0.01, 10, 16

Array = NDArray[np.float32]


@dataclass(slots=True)
class State:
    """Where a run stands after an epoch. course: w after each update. best: the epoch with the lowest balanced loss."""

    epoch: int = 0
    w: float = W
    course: list[float] = field(default_factory=list)
    epochs: list[dict[str, float]] = field(default_factory=list)
    best: int = -1


def train(
    pairs: Sequence[Pair],
    base: Path,
    folder: Path,
    progress: Progress,
    *,
    epochs: int = EPOCHS,
) -> dict[str, Any]:
    """Train on pairs, and write folder/scorer.gguf. Return the report: counts, the course of w, losses and AUCs by epoch.

    base: folder of a BERT encoder. After each epoch the state is written to `folder`, from where a run that was stopped goes on.
    progress: stage "train", in steps. Raises ValueError without matched and mismatched pairs for both training and checking.
    """
    train_pairs, dev = ([pair for pair in pairs if pair.dev == is_dev] for is_dev in (False, True))
    for some in (train_pairs, dev):
        if not {"matched", "mismatched"} <= {pair.kind for pair in some}:
            raise ValueError("the scorer needs pairs whose labels agree and others whose labels differ, for checking too")
    network = Network(base, RATE, SEED)
    state = _resumed(folder, network)
    run = _Run(network, train_pairs, dev, state, progress, epochs)
    while state.epoch < epochs:
        run.epoch()
        _keep(folder, network, state, is_best=state.best == state.epoch - 1)
    network.load(folder / "scorer-best.safetensors")
    tensors, dense, output = network.merged()
    bert_gguf.write(
        base,
        folder / "scorer.gguf",
        tensors,
        window=INPUT_TOKENS,
        classifier=bert_gguf.Classifier(labels=LABELS, dense=dense, output=output),
    )
    return {
        "pairs": {"train": _counts(train_pairs), "dev": _counts(dev)},
        "epochs": state.epochs,
        "best_epoch": state.best + 1,
        "w": [round(each, 3) for each in state.course],
    }


class _Run:
    """The epochs of a training."""

    def __init__(
        self,
        network: Network,
        pairs: Sequence[Pair],
        dev: Sequence[Pair],
        state: State,
        progress: Progress,
        epochs: int,
    ) -> None:
        self._network, self._dev, self._state, self._progress = network, dev, state, progress
        self._inputs, self._dev_inputs = network.inputs(pairs), network.inputs(dev)
        self._batches, self._dev_batches = Batches(pairs), Batches(dev)
        self._total = epochs * self._batches.steps

    def epoch(self) -> None:
        """Run one epoch, and measure it."""
        state, network = self._state, self._network
        network.seed(SEED + state.epoch)
        random = np.random.default_rng([SEED, state.epoch])
        losses = []
        for step, batch in enumerate(self._batches.epoch(random)):
            gradients = {kind: self._gradient(kind, positions) for kind, positions in batch.items()}
            weights = {"matched": state.w, "mismatched": 1 - state.w, "partial": 0.5}
            losses.append(sum(weights[kind] * loss for kind, (loss, _) in gradients.items()))
            network.step({kind: gradient for kind, (_, gradient) in gradients.items()}, weights)
            if step % EVERY == 0:
                self._move_w(gradients["matched"][1], gradients["mismatched"][1], random)
            done = state.epoch * self._batches.steps + step + 1
            self._progress(Event("train", "progress", done, self._total, "steps"))
        found = self._checked() | {"train_loss": float(np.mean(losses)), "w": state.w}
        state.epochs.append({name: round(value, 5) for name, value in found.items()})
        balanced = [each["balanced_loss"] for each in state.epochs]
        state.best = int(np.argmin(balanced))
        state.epoch += 1

    def _gradient(self, kind: str, positions: NDArray[np.intp]) -> tuple[float, Array]:
        """Return the mean loss of a kind times its share of all pairs, and its gradient as a vector."""
        return self._network.gradient(self._inputs, positions, scale=self._batches.shares[kind])  # type: ignore[index]

    def _move_w(self, matched: Array, mismatched: Array, random: np.random.Generator) -> None:
        """Move w by the mean of both directions, each normalised: -cos(u, g_matched - g_mismatched)."""
        directions = []
        for kind in KINDS[:2]:
            _, u = self._network.gradient(self._dev_inputs, self._dev_batches.draw(kind, CHECKED, random), scale=1.0)
            length = float(np.linalg.norm(u) * np.linalg.norm(matched - mismatched))
            directions.append(weight_step(u, matched, mismatched) / length if length else 0.0)
        self._state.w = float(np.clip(self._state.w - ALPHA * np.mean(directions), W_LEAST, W_MOST))
        self._state.course.append(self._state.w)

    def _checked(self) -> dict[str, float]:
        """Return losses and AUCs on the pairs for checking."""
        logits, losses = self._network.logits(self._dev_inputs)
        kinds = np.array([pair.kind for pair in self._dev])
        by_kind = {f"{kind}_loss": float(losses[kinds == kind].mean()) for kind in KINDS[:2]}
        known = kinds != "partial"
        prefers = np.array([pair.prefers for pair in self._dev if pair.prefers is not None], bool)
        return {
            **by_kind,
            "balanced_loss": float(np.mean(list(by_kind.values()))),
            "auc_has_answer": auc(logits[:, 0], np.array([pair.has_answer for pair in self._dev], bool)),
            "auc_llm_prefer": auc(logits[known, 1], prefers),
        }


def _counts(pairs: Sequence[Pair]) -> dict[str, int]:
    return {kind: sum(pair.kind == kind for pair in pairs) for kind in KINDS}


def _resumed(folder: Path, network: Network) -> State:
    try:
        state = State(**json.loads((folder / "scorer-state.json").read_text("utf-8")))
    except FileNotFoundError:
        return State()
    network.load(folder / "scorer-state.safetensors")
    return state


def _keep(folder: Path, network: Network, state: State, *, is_best: bool) -> None:
    """Write the state; its record last, so that a state with a record is whole."""
    names = ["scorer-state.safetensors", *(["scorer-best.safetensors"] if is_best else [])]
    for name in names:
        with whole_file(folder / name) as part:
            network.save(part)
    with whole_file(folder / "scorer-state.json") as part:
        part.write_text(json.dumps(asdict(state)), "utf-8")


def delete_state(folder: Path) -> None:
    """Delete what a stopped run would go on from."""
    for name in ("scorer-state.json", "scorer-state.safetensors", "scorer-best.safetensors"):
        (folder / name).unlink(missing_ok=True)
