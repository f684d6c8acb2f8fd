"""The R2-Former in torch, as it is trained: the forward pass of `methods.r2ag.former`."""

from __future__ import annotations

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
    """(n, n_features) -> logits of relevance (n,)."""

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

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of relevance, (n,), of a list's features (n, n_features)."""
        return self.matched(self.encoded(features))

    def matched(self, h: Tensor) -> Tensor:
        """Return the logits of relevance, (…, n), of H."""
        logits: Tensor = self.match(h)[..., 0]
        return logits

    def encoded(self, features: Tensor) -> Tensor:
        """Return H, (n, width)."""
        encoded: Tensor = self.layer(self.placed(features)[None])[0]
        return encoded

    def placed(self, features: Tensor) -> Tensor:
        """Return what the Transformer's layer reads, (…, n, width): the features, standardised and projected, and the places."""
        h: Tensor = self.input((features - self.mean) / self.std) + self.position[: features.shape[-2]]
        return h

    def tensors(self) -> dict[str, Array]:
        """Return the tensors by the names of the folder."""
        state = {name: tensor.detach().cpu().numpy().astype(np.float32) for name, tensor in self.state_dict().items()}
        own = {"feature.mean": state["mean"], "feature.std": state["std"], "position": state["position"]}
        linear = ("input", "match", *(["projection"] if self.projection else []))
        own |= {f"{name}.{kind}": state[f"{name}.{kind}"] for name in linear for kind in ("weight", "bias")}
        return own | {ours: state[f"layer.{theirs}"] for ours, theirs in _OF_THE_LAYER.items()}


def matching_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """L_QDM of a list (equation 8): mean binary cross-entropy. logits, labels: (n,)."""
    return nn.functional.binary_cross_entropy_with_logits(logits, labels)
