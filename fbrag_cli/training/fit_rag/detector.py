"""FIT-RAG's eligible augmentation detector: a small network that learns when the selected windows are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.methods.fit_rag.parts import WINDOWS, Detector, features
from fbrag_cli.storage.rows import Row

Array = NDArray[np.float32]

#: Widths of the layers. The paper only gives their number, four.
WIDTHS = (64, 32, 16, 1)
DROPOUT, RATE, EPOCHS, PATIENCE, BATCH = 0.1, 1e-3, 100, 10, 64
#: The paper's threshold, and the thresholds to choose from.
PAPERS = 0.5
_THRESHOLDS = tuple(round(0.02 * i, 2) for i in range(1, 51))


@dataclass(frozen=True, slots=True)
class TrainedDetector:
    """A trained detector. tensors: `detector.N.weight` and `.bias`. threshold: see `threshold_of`. report: counts, losses, and
    the results of the search on the questions for checking."""

    tensors: dict[str, Array]
    threshold: float
    report: dict[str, Any]


def fit(rows: Sequence[Row], *, seed: int = 0) -> TrainedDetector:
    """Train the detector on rows of combinations (`fit_rag_combinations`). Raises ValueError without rows of both labels."""
    train, dev = ([row for row in rows if row["dev"] == is_dev] for is_dev in (False, True))
    if {row["right"] for row in train} != {True, False} or not dev:
        raise ValueError("the detector needs sufficient and insufficient combinations, and questions for checking")
    tensors, losses, best = _trained(*_arrays(train), *_arrays(dev), seed=seed)
    detector = Detector.of(tensors, threshold=PAPERS)
    threshold, searched = threshold_of(dev, detector)
    report = {
        "combinations": {"train": len(train), "dev": len(dev)},
        "enough": {"train": sum(row["right"] for row in train), "dev": sum(row["right"] for row in dev)},
        "losses": losses,
        "best_epoch": best,
        "search": searched,
    }
    return TrainedDetector(tensors, threshold, report)


def threshold_of(rows: Sequence[Row], detector: Detector) -> tuple[float, dict[str, float]]:
    """Return the threshold with the best accuracy (among equals, with the fewest windows), and the results of the search.

    rows: of questions for checking, each with all its prefixes. Every second question chooses the threshold, and the report is of
    the others: accuracy (percent) and mean_windows (per question) of the search, and the same at the paper's threshold;
    accuracy_whole is the accuracy with all windows.
    """
    every = list(_searches(rows, detector).values())
    choosing, reported = every[::2], every[1::2] or every

    def reached(threshold: float, cases: Sequence[tuple[list[float], list[bool]]] = reported) -> tuple[float, float]:
        """Return the accuracy, and the negative mean number of windows."""
        taken = [_stop(probabilities, threshold) for probabilities, _ in cases]
        accuracy = 100 * float(np.mean([right[n] for n, (_, right) in zip(taken, cases, strict=True)]))
        return accuracy, -1 - float(np.mean(taken))

    threshold = max(_THRESHOLDS, key=lambda each: reached(each, choosing))
    (accuracy, windows), (of_paper, windows_of_paper) = reached(threshold), reached(PAPERS)
    return threshold, {
        "questions": len(reported),
        "accuracy": accuracy,
        "mean_windows": -windows,
        "accuracy_paper": of_paper,
        "mean_windows_paper": -windows_of_paper,
        "accuracy_whole": 100 * float(np.mean([right[-1] for _, right in reported])),
    }


def right_at_stop(rows: Sequence[Row], detector: Detector) -> dict[tuple[str, str], bool]:
    """Return, for each question for checking, whether the reply is right at the point where the search stops. rows: as for
    `threshold_of`."""
    return {key: right[_stop(each, detector.threshold)] for key, (each, right) in _searches(rows, detector).items()}


def _stop(probabilities: Sequence[float], threshold: float) -> int:
    """Return the position of the last window that the search takes."""
    return next((n for n, p in enumerate(probabilities) if p >= threshold), len(probabilities) - 1)


def _searches(rows: Sequence[Row], detector: Detector) -> dict[tuple[str, str], tuple[list[float], list[bool]]]:
    """Return, for each question, the detector's probability and whether the reply is right, after 1, 2, … windows."""
    by_question: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        if list(row["windows"]) == list(range(len(row["windows"]))):
            by_question.setdefault((row["dataset"], row["question"]), {})[len(row["windows"])] = row
    return {
        key: (
            [detector.probability(np.array(steps[n]["labels"], np.float32)) for n in sorted(steps)],
            [bool(steps[n]["right"]) for n in sorted(steps)],
        )
        for key, steps in by_question.items()
        if sorted(steps) == list(range(1, len(steps) + 1))
    }


def _arrays(rows: Sequence[Row]) -> tuple[Array, Array]:
    """Return float32 (n_rows, 2 * WINDOWS) and (n_rows,)."""
    x = np.stack([features(np.array(row["labels"], np.float32)) for row in rows])
    return x, np.array([row["right"] for row in rows], np.float32)


def _trained(x: Array, y: Array, x_dev: Array, y_dev: Array, *, seed: int) -> tuple[dict[str, Array], list[list[float]], int]:
    """Return the tensors of the epoch with the lowest dev loss, all losses (train, dev), and that epoch."""
    import torch

    torch.manual_seed(seed)
    network = _network(torch)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    loss_of = torch.nn.BCEWithLogitsLoss()
    data = [torch.from_numpy(each) for each in (x, y, x_dev, y_dev)]
    losses: list[list[float]] = []
    best, kept = 0, dict(network.state_dict())
    for epoch in range(EPOCHS):
        network.train()
        total = 0.0
        for chosen in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            loss = loss_of(network(data[0][chosen])[:, 0], data[1][chosen])
            loss.backward()
            optimiser.step()
            total += loss.item() * len(chosen)
        network.eval()
        with torch.no_grad():
            dev = float(loss_of(network(data[2])[:, 0], data[3]))
        losses.append([round(total / len(x), 5), round(dev, 5)])
        if dev <= min(each for _, each in losses):
            best, kept = epoch, {name: tensor.clone() for name, tensor in network.state_dict().items()}
        if epoch - best >= PATIENCE:
            break
    network.load_state_dict(kept)
    linear = [each for each in network if isinstance(each, torch.nn.Linear)]
    named = ((f"detector.{i}.{name}", each) for i, layer in enumerate(linear) for name, each in layer.named_parameters())
    return {name: each.detach().numpy().astype(np.float32) for name, each in named}, losses, best


def _network(torch: Any) -> Any:
    layers: list[Any] = []
    width = 2 * WINDOWS
    for n in WIDTHS:
        layers += [torch.nn.Linear(width, n), torch.nn.ReLU(), torch.nn.Dropout(DROPOUT)]
        width = n
    return torch.nn.Sequential(*layers[:-2])
