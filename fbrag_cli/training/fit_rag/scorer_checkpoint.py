"""The checkpoint of a scorer's training, written after each epoch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fbrag_cli.training import checkpoint_file as file
from fbrag_cli.training.dev_metrics import DevMetrics
from fbrag_cli.training.fit_rag.imbalance import START
from fbrag_cli.training.fit_rag.network import ScorerNetwork, Tensor

FORMAT = "fbrag.fit-rag-checkpoint/1"


@dataclass(frozen=True, slots=True)
class Epoch:
    """loss: of training, the mean over its steps of what a pair's loss is estimated to be, unweighted. dev: after it."""

    loss: float
    dev: DevMetrics


@dataclass(slots=True)
class Checkpoint:
    """Where a training stands. key: of what it depends on. weights: w's course. best_state: parameters after the best epoch."""

    path: Path
    key: str
    epochs: list[Epoch] = field(default_factory=list)
    weights: list[float] = field(default_factory=lambda: [START])
    best_state: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, key: str, network: ScorerNetwork, optimizer: Any) -> Checkpoint:
        """Return the checkpoint in the file, and set network and optimiser to it; an empty one where there is no file.

        Raises FbragError `usage` where the file is damaged, or of another training.
        """
        with file.of_a_file(path):
            found = file.read(path, FORMAT, key)
            if found is None:
                return cls(path, key)
            told, tensors = found
            epochs = [Epoch(each["loss"], DevMetrics(**each["dev"])) for each in told["epochs"]]
            network.load(file.named("last", tensors))
            file.restore_moments(tensors, network.parameters, optimizer)
            return cls(path, key, epochs, [float(w) for w in told["weights"]], file.named("best", tensors))

    @property
    def best(self) -> int:
        """The epoch with the lowest dev loss, from 1; the earlier of two that are alike."""
        return 1 + min(range(len(self.epochs)), key=lambda i: self.epochs[i].dev.loss)

    def add(self, epoch: Epoch, network: ScorerNetwork, optimizer: Any) -> None:
        """Add an epoch, and write the file. Raises OSError."""
        self.epochs.append(epoch)
        if self.best == len(self.epochs):
            self.best_state = network.state()
        tensors = file.prefixed("last", network.state()) | file.prefixed("best", self.best_state)
        tensors |= file.moments(network.parameters, optimizer)
        told = {"format": FORMAT, "key": self.key, "epochs": [asdict(each) for each in self.epochs], "weights": self.weights}
        file.write(self.path, told, tensors)
