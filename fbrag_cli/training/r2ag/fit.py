"""R2AG's training (equations 7 to 9): an R2-Former whose rows help a frozen language model to answer, and optionally LoRA.

A step is a few lists. A checkpoint is written after each epoch and every ten minutes; a stopped run resumes from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fbrag_cli.evaluation.statistics import auc
from fbrag_cli.training.networks import Checkpoint, Tensor
from fbrag_cli.training.r2ag.frozen_model import Example, FrozenModel, NoModel
from fbrag_cli.training.r2ag.lists import PassageList, spread

if TYPE_CHECKING:
    from fbrag_cli.training.r2ag.settings import R2agTraining


Array = NDArray[np.float32]

_FORMAT, CHECKPOINT = "fbrag.r2ag-checkpoint/1", "r2ag.checkpoint.safetensors"
#: R2AG.md, 2.6.
RATE, CLIP, WARM_UP, BATCH = 2e-4, 0.3, 0.03, 4
_ENTRY = 0.58  # initial spread of a projection's entries; rows are scaled to the spread of the token table (R2AG.md, 2.5)
_BETWEEN_WRITES = 600.0  # seconds
#: Names of tensors: in the folder -> in torch's Transformer layer.
_OF_THE_LAYER = {
    "attention.in.weight": "self_attn.in_proj_weight",
    "attention.in.bias": "self_attn.in_proj_bias",
    **{
        f"{ours}.{kind}": f"{theirs}.{kind}"
        for ours, theirs in {
            "attention.out": "self_attn.out_proj",
            "ffn.up": "linear1",
            "ffn.down": "linear2",
            "norm1": "norm1",
            "norm2": "norm2",
        }.items()
        for kind in ("weight", "bias")
    },
}


@dataclass(frozen=True, slots=True)
class DevLosses:
    """Losses on the lists for checking.

    answer: mean cross-entropy per answer token of each list, empty if only the relevance is trained. matching: mean L_QDM. auc:
    area under the ROC curve of the relevance over all passages; None without both labels.
    """

    answer: list[float]
    matching: float
    auc: float | None

    def loss(self, qdm_weight: float) -> float:
        return (float(np.mean(self.answer)) if self.answer else 0.0) + qdm_weight * self.matching


@dataclass(slots=True)
class Standing:
    """The progress of a training. steps: number of steps done. losses: mean loss of each epoch. dev: measures after each
    epoch."""

    steps: int = 0
    losses: list[float] = field(default_factory=list)
    dev: list[DevLosses] = field(default_factory=list)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Standing:
        """Restore an instance from its `asdict` record."""
        return cls(record["steps"], record["losses"], [DevLosses(**each) for each in record["dev"]])

    def best(self, qdm_weight: float) -> int:
        return min(range(len(self.dev)), key=lambda i: self.dev[i].loss(qdm_weight))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedList:
    """A list with its prompts. example: the prompt with rows. plain: the prompt without rows."""

    passages: PassageList
    example: Example
    plain: Example


class R2agFit:
    """Trains on the lists that are not for checking. model: not changed, except for LoRA; None to train only the relevance. path:
    of the checkpoint.

    n_embd: width of the model's token embeddings, 0 without rows. deviation: standard deviation of their entries. Raises
    FbragError `usage` if `path` is damaged or belongs to another training.
    """

    def __init__(
        self,
        lists: Sequence[TokenizedList],
        model: FrozenModel | NoModel,
        settings: R2agTraining,
        path: Path,
        *,
        n_embd: int,
        deviation: float,
    ) -> None:
        self._model, self._settings = model, settings
        self._train, self.dev_lists = ([each for each in lists if each.passages.dev == is_dev] for is_dev in (False, True))
        self.row_scale, self.max_list = deviation / _ENTRY, max(len(each.passages.passages) for each in lists)
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            mean, std = spread([each.passages for each in self._train])
            self.sizes = Sizes(width=64, feed_forward=256) if settings.relevance else Sizes()
            self.network = R2FormerNetwork(mean, std, self.max_list, self.sizes, n_embd if settings.rows else 0).to(model.device)
        if settings.control == "soft":
            self.network.input.weight.requires_grad_(False).zero_()
        own = {f"former.{name}": each for name, each in self.network.named_parameters() if each.requires_grad}
        self._parameters = own | {f"model.{name}": each for name, each in model.parameters.items()}
        self._optimizer = torch.optim.AdamW(self._parameters.values(), lr=RATE, weight_decay=0.0)
        self.checkpoint = Checkpoint(path, _FORMAT, _key(lists, settings), self._parameters, self._optimizer)
        self.standing = self.checkpoint.read(Standing.of) or Standing()

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return self._settings.epochs * self._in_an_epoch

    def run(self) -> Iterator[None]:
        """Take the remaining steps, and yield after each. Raises OSError."""
        written = monotonic()
        with torch.random.fork_rng():
            while self.standing.steps < self.steps:
                self._step(self.standing.steps)
                is_whole = self.standing.steps % self._in_an_epoch == 0
                if is_whole:
                    self.standing.dev.append(self.checked())
                    if self.standing.best(self._settings.qdm_weight) == len(self.standing.dev) - 1:
                        self.checkpoint.keep_best()
                if is_whole or monotonic() - written >= _BETWEEN_WRITES:
                    self.checkpoint.write(asdict(self.standing))
                    written = monotonic()
                yield

    def plain(self) -> list[float]:
        """Return `DevLosses.answer` for prompts without rows, from the model without LoRA."""
        self._model.train(False)
        with torch.no_grad(), self._model.untrained():
            return [
                round(float(self._model.loss(tokenized.plain, None)), 4) for tokenized in self.dev_lists if tokenized.plain.reply
            ]

    def checked(self) -> DevLosses:
        """Return the losses on the lists for checking."""
        self.network.eval()
        self._model.train(False)
        answer, matching, logits = [], [], []
        with torch.no_grad():
            for tokenized in self.dev_lists:
                matched, rows = self._encoded(tokenized)
                if tokenized.example.reply:
                    answer.append(round(float(self._answer(tokenized, rows)), 4))
                matching.append(float(self._matching(matched, tokenized)))
                logits.append(matched.cpu().numpy())
        labels = np.concatenate([each.passages.labels for each in self.dev_lists])
        return DevLosses(answer, float(np.mean(matching)), auc(np.concatenate(logits), labels > 0))

    # -- a step ------------------------------------------------------------------------------------------------------------

    @property
    def _in_an_epoch(self) -> int:
        return -(-len(self._train) // BATCH)

    def _step(self, k: int) -> None:
        """Take one optimizer step. Count it, and add its loss to the mean of the epoch."""
        epoch, at = divmod(k, self._in_an_epoch)
        order = Random(f"{self._settings.seed} {epoch}").sample(self._train, len(self._train))
        drawn = order[at * BATCH : (at + 1) * BATCH]
        torch.manual_seed(self._settings.seed * 1_000_003 + k)  # for dropout: a resumed run draws the same
        self.network.train()
        self._model.train(True)
        for group in self._optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (k + 1) / max(1.0, WARM_UP * self.steps))
        self._optimizer.zero_grad()
        total = 0.0
        for tokenized in drawn:
            matched, rows = self._encoded(tokenized)
            loss = self._settings.qdm_weight * self._matching(matched, tokenized)
            if tokenized.example.reply:
                loss = loss + self._answer(tokenized, rows)
            loss = loss / len(drawn)
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self._parameters.values(), CLIP)
        self._optimizer.step()
        if not at:
            self.standing.losses.append(0.0)
        self.standing.losses[-1] += (total - self.standing.losses[-1]) / (at + 1)
        self.standing.steps += 1

    def _answer(self, tokenized: TokenizedList, rows: Tensor | None) -> Tensor:
        return self._model.loss(tokenized.plain if rows is None else tokenized.example, rows)

    def _encoded(self, tokenized: TokenizedList) -> tuple[Tensor, Tensor | None]:
        """Return the relevance logits (n,), and the rows (n, n_embd), None if no rows are trained."""
        h = self.network.encoded(torch.from_numpy(tokenized.passages.features).to(self._model.device))
        rows = None if self.network.projection is None else self.row_scale * self.network.projection(h)
        return self.network.matched(h), rows

    def _matching(self, matched: Tensor, tokenized: TokenizedList) -> Tensor:
        return matching_loss(matched, torch.from_numpy(tokenized.passages.labels).to(matched.device))


def _key(lists: Sequence[TokenizedList], settings: R2agTraining) -> str:
    """Return the SHA-256 (hex) of everything that the steps depend on, including the number of epochs, on which the warm-up
    depends."""
    inputs: list[Any] = [settings.learnt_with]
    inputs += [(each.example, each.passages.key, each.passages.labels.tobytes(), each.passages.dev) for each in lists]
    return sha256(repr(inputs).encode()).hexdigest()


# -- the network: the forward pass of `methods.relevance.former` -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of the network. The defaults are the paper's."""

    width: int = 256
    heads: int = 4
    feed_forward: int = 2048
    dropout: float = 0.1


class R2FormerNetwork(nn.Module):  # type: ignore[misc]
    """(n, n_features) -> relevance logits (n,)."""

    def __init__(self, mean: Array, std: Array, max_list: int, sizes: Sizes, n_embd: int = 0) -> None:
        """mean, std: (n_features,), over the features of all training lists. n_embd: width of the rows, 0 for none."""
        super().__init__()
        self.sizes = sizes
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("std", torch.from_numpy(std))
        self.input = nn.Linear(len(mean), sizes.width)
        self.position = nn.Parameter(0.02 * torch.randn(max_list, sizes.width))
        self.match = nn.Linear(sizes.width, 1)
        self.projection = nn.Linear(sizes.width, n_embd) if n_embd else None
        self.layer = nn.TransformerEncoderLayer(
            sizes.width, sizes.heads, sizes.feed_forward, sizes.dropout, activation="relu", batch_first=True
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return the relevance logits (n,) for a list's features (n, n_features)."""
        return self.matched(self.encoded(features))

    def matched(self, h: Tensor) -> Tensor:
        """Return the relevance logits (…, n) for H."""
        logits: Tensor = self.match(h)[..., 0]
        return logits

    def encoded(self, features: Tensor) -> Tensor:
        """Return H, (n, width)."""
        encoded: Tensor = self.layer(self.placed(features)[None])[0]
        return encoded

    def placed(self, features: Tensor) -> Tensor:
        """Return the input of the Transformer layer, (…, n, width): standardized, projected features plus positions."""
        h: Tensor = self.input((features - self.mean) / self.std) + self.position[: features.shape[-2]]
        return h

    def tensors(self) -> dict[str, Array]:
        """Return the tensors by their names in the folder."""
        state = {name: tensor.detach().cpu().numpy().astype(np.float32) for name, tensor in self.state_dict().items()}
        own = {"feature.mean": state["mean"], "feature.std": state["std"], "position": state["position"]}
        linear = ("input", "match", *(["projection"] if self.projection else []))
        own |= {f"{name}.{kind}": state[f"{name}.{kind}"] for name in linear for kind in ("weight", "bias")}
        return own | {ours: state[f"layer.{theirs}"] for ours, theirs in _OF_THE_LAYER.items()}


def matching_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return L_QDM of a list (equation 8): mean binary cross-entropy. logits, labels: (n,)."""
    return nn.functional.binary_cross_entropy_with_logits(logits, labels)
