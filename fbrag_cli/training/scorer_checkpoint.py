"""The checkpoint of a scorer's training: one file of safetensors with JSON in its metadata, written whole after each epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import whole_file
from fbrag_cli.training.dev_metrics import DevMetrics
from fbrag_cli.training.imbalance import START
from fbrag_cli.training.scorer_network import ScorerNetwork, Tensor

FORMAT = "fbrag.fit-rag-checkpoint/1"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of each parameter


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
        if not path.exists():
            return cls(path, key)
        try:
            with safe_open(path, "pt") as file:
                told = json.loads((file.metadata() or {})["fbrag"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            if told["format"] != FORMAT:
                raise ValueError(told["format"])
            if told["key"] != key:
                raise FbragError("usage", f"{path} is of other pairs or settings", "delete it, or choose another folder (-o)")
            epochs = [Epoch(each["loss"], DevMetrics(**each["dev"])) for each in told["epochs"]]
            _restore(tensors, network, optimizer)
            return cls(path, key, epochs, [float(w) for w in told["weights"]], _named("best", tensors))
        except (SafetensorError, ValueError, LookupError, TypeError, RuntimeError) as error:
            what = f"{path} is no checkpoint of a scorer ({error})"
            raise FbragError("usage", what, "delete it; training begins anew") from None

    @property
    def best(self) -> int:
        """The epoch with the lowest dev loss, from 1; the earlier of two that are alike."""
        return 1 + min(range(len(self.epochs)), key=lambda i: self.epochs[i].dev.loss)

    def add(self, epoch: Epoch, network: ScorerNetwork, optimizer: Any) -> None:
        """Add an epoch, and write the file. Raises OSError."""
        self.epochs.append(epoch)
        if self.best == len(self.epochs):
            self.best_state = network.state()
        tensors = dict(_prefixed("last", network.state())) | dict(_prefixed("best", self.best_state))
        for name, parameter in network.parameters.items():
            for moment in _MOMENTS:
                tensors[f"{moment}.{name}"] = optimizer.state[parameter][moment].detach().cpu().clone()
        told = {"format": FORMAT, "key": self.key, "epochs": [asdict(each) for each in self.epochs], "weights": self.weights}
        with whole_file(self.path) as unfinished:
            unfinished.write_bytes(save(tensors, {"fbrag": json.dumps(told)}))


def _restore(tensors: Mapping[str, Tensor], network: ScorerNetwork, optimizer: Any) -> None:
    network.load(_named("last", tensors))
    for name, parameter in network.parameters.items():
        moments = {moment: tensors[f"{moment}.{name}"] for moment in _MOMENTS}
        on_device = {moment: each if moment == "step" else each.to(parameter.device) for moment, each in moments.items()}
        optimizer.state[parameter] = on_device


def _prefixed(prefix: str, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    yield from ((f"{prefix}.{name}", each) for name, each in state.items())


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): each for name, each in tensors.items() if name.startswith(f"{prefix}.")}
