"""The R2-Former in torch, as it is trained: the forward pass of `methods.r2ag.former`, for padded lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float32]

#: Names of the folder's tensors, and of torch's Transformer layer.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """positions: whether the place in the list counts. Defaults: the paper's."""

    width: int = 256
    heads: int = 4
    feed_forward: int = 2048
    dropout: float = 0.1
    positions: bool = True


class R2FormerNetwork(nn.Module):  # type: ignore[misc]
    """(b, n, n_features), (b, n) -> logits (b, n)."""

    def __init__(self, mean: Array, std: Array, max_list: int, sizes: Sizes, n_embd: int = 0) -> None:
        """mean, std: (n_features,), of the features of all training lists. n_embd: width of the rows, 0 without any."""
        super().__init__()
        self.sizes = sizes
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("std", torch.from_numpy(std))
        self.input = nn.Linear(len(mean), sizes.width)
        self.position = nn.Parameter(0.02 * sizes.positions * torch.randn(max_list, sizes.width), sizes.positions)
        self.match = nn.Linear(sizes.width, 1)
        self.projection = nn.Linear(sizes.width, n_embd) if n_embd else None
        self.layer = nn.TransformerEncoderLayer(
            sizes.width, sizes.heads, sizes.feed_forward, sizes.dropout, activation="relu", batch_first=True
        )

    def forward(self, features: Tensor, is_chunk: Tensor) -> Tensor:
        """Return the logits of relevance. is_chunk: False where a list is padded; what stands there counts for nothing."""
        return self.matched(self.encoded(features, is_chunk))

    def matched(self, h: Tensor) -> Tensor:
        """Return the logits of relevance, (b, n), of H."""
        logits: Tensor = self.match(h)[:, :, 0]
        return logits

    def encoded(self, features: Tensor, is_chunk: Tensor) -> Tensor:
        """Return H, (b, n, width)."""
        h: Tensor = self.input((features - self.mean) / self.std) + self.position[: features.shape[1]]
        encoded: Tensor = self.layer(h, src_key_padding_mask=~is_chunk)
        return encoded

    def tensors(self) -> dict[str, Array]:
        """Return the tensors by the names of the folder."""
        state = {name: tensor.detach().cpu().numpy().astype(np.float32) for name, tensor in self.state_dict().items()}
        own = {"feature.mean": state["mean"], "feature.std": state["std"], "position": state["position"]}
        linear = ("input", "match", *(["projection"] if self.projection else []))
        own |= {f"{name}.{kind}": state[f"{name}.{kind}"] for name in linear for kind in ("weight", "bias")}
        return own | {ours: state[f"layer.{theirs}"] for ours, theirs in _OF_THE_LAYER.items()}


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
