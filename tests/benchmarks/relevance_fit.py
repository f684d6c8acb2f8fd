"""Trains an R2-Former on lists of chunks: query-document matching alone (QDM, equations 7, 8 of R2AG). No language model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fbrag_cli.methods.relevance.features import FEATURES
from fbrag_cli.training.r2ag.fit import R2FormerNetwork, Sizes
from fbrag_cli.training.r2ag.lists import PassageList

Array = NDArray[np.float32]

#: R2AG.md, 2.6: a step is a batch. Training ends where the dev loss has not fallen for so many epochs.
RATE, CLIP, WARM_UP, BATCH, STEPS, PATIENCE = 2e-4, 0.3, 0.03, 16, 3000, 10
MAX_LIST = 40
_SMALLEST = 1e-6  # a spread of a feature

#: Of the Transformer and of its control: small, as there are few rows.
SIZES = Sizes(width=64, feed_forward=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """losses: (train, dev) of each epoch; `best` is the one that was kept. scores: logits (n,) of each list for checking."""

    losses: list[tuple[float, float]]
    best: int
    scores: list[Array]


class Former(R2FormerNetwork):
    """The R2-Former for padded lists: (b, n, n_features), (b, n) -> logits (b, n)."""

    def forward(self, features: Tensor, is_chunk: Tensor) -> Tensor:
        """Return the logits of relevance. is_chunk: False where a list is padded; what stands there counts for nothing."""
        return self.matched(self.layer(self.placed(features), src_key_padding_mask=~is_chunk))


class Logistic(Former):
    """The control: a logistic regression of each chunk and its place."""

    def forward(self, features: Tensor, is_chunk: Tensor) -> Tensor:
        return self.matched(self.placed(features))


def fit(
    lists: Sequence[PassageList],
    names: Sequence[str],
    sizes: Sizes = SIZES,
    *,
    kind: type[Former] = Former,
    seed: int = 0,
) -> Fitted:
    """Train on lists, and keep the epoch with the lowest loss on those for checking.

    names: the features that count. Raises ValueError without a relevant chunk, or without lists for checking.
    """
    columns = [FEATURES.index(name) for name in names]
    train, dev = ([each for each in lists if each.dev == is_dev] for is_dev in (False, True))
    if not any(each.labels.any() for each in train) or not dev:
        raise ValueError("a training needs lists with a relevant chunk, and questions for checking")
    features = np.concatenate([each.features[:, columns] for each in train])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        spread = np.maximum(features.std(axis=0), _SMALLEST)
        network = kind(features.mean(axis=0), spread, MAX_LIST, sizes)
        return _trained(network, _Data(train, columns), _Data(dev, columns))


class _Data:
    """Lists as padded tensors."""

    def __init__(self, lists: Sequence[PassageList], columns: Sequence[int]) -> None:
        self.features, self.is_chunk = padded([each.features[:, columns] for each in lists])
        self.labels, _ = padded([each.labels for each in lists])

    def __len__(self) -> int:
        return len(self.labels)

    def loss(self, network: Former, chosen: Tensor) -> Tensor:
        logits = network(self.features[chosen], self.is_chunk[chosen])
        return matching_loss(logits, self.labels[chosen], self.is_chunk[chosen])

    def checked(self, network: Former) -> float:
        """Return the loss of all lists, without dropout."""
        network.eval()
        with torch.no_grad():
            return float(self.loss(network, torch.arange(len(self))))

    def scores(self, network: Former) -> list[Array]:
        network.eval()
        with torch.no_grad():
            logits = network(self.features, self.is_chunk)
        return [each[mask].numpy() for each, mask in zip(logits, self.is_chunk, strict=True)]


def _trained(network: Former, train: _Data, dev: _Data) -> Fitted:
    losses: list[tuple[float, float]] = []
    best, kept = 0, network.state_dict()
    for epoch, loss in enumerate(_epochs(network, train)):
        losses.append((round(loss, 5), round(dev.checked(network), 5)))
        if losses[-1][1] < losses[best][1] or not epoch:
            best, kept = epoch, {name: tensor.clone() for name, tensor in network.state_dict().items()}
        if epoch - best >= PATIENCE:
            break
    network.load_state_dict(kept)
    return Fitted(losses=losses, best=best, scores=dev.scores(network))


def _epochs(network: Former, train: _Data) -> Iterator[float]:
    """Train, and yield the mean loss of each epoch."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / (WARM_UP * STEPS)))
    for _ in range(0, STEPS, -(-len(train) // BATCH)):
        network.train()
        total = 0.0
        for chosen in torch.randperm(len(train)).split(BATCH):
            optimiser.zero_grad()
            loss = train.loss(network, chosen)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimiser.step()
            schedule.step()
            total += loss.item() * len(chosen)
        yield total / len(train)


def matching_loss(logits: Tensor, labels: Tensor, is_chunk: Tensor) -> Tensor:
    """L_QDM (equation 8): binary cross-entropy, the mean over each list, then over lists. All are (b, n)."""
    losses = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return ((losses * is_chunk).sum(dim=1) / is_chunk.sum(dim=1)).mean()


def padded(lists: Sequence[Array]) -> tuple[Tensor, Tensor]:
    """Return lists of (n_i, …) as one tensor (b, n, …), zeros behind shorter ones, and (b, n): whether a chunk stands there."""
    longest = max(map(len, lists))
    whole = np.zeros((len(lists), longest, *lists[0].shape[1:]), np.float32)
    is_chunk = np.zeros((len(lists), longest), bool)
    for i, each in enumerate(lists):
        whole[i, : len(each)] = each
        is_chunk[i, : len(each)] = True
    return torch.from_numpy(whole), torch.from_numpy(is_chunk)
