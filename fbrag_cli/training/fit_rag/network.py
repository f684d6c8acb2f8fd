"""The bi-label document scorer in torch: an encoder with LoRA, its pooler, and two outputs (FIT-RAG, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from transformers import BertModel

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.fit_rag.parts import LABELS
from fbrag_cli.training.base_encoder import BaseEncoder
from fbrag_cli.training.fit_rag.pairs import Pair
from fbrag_cli.training.torch_models import device, has_bfloat16, quiet

_RANK, _ALPHA, _DROPOUT = 16, 32, 0.05  # the paper's

Tensor = Any  # of torch, whose types are not known here
Windows = Sequence[Sequence[int]]  # token ids of a pair: `LlamaScorer.windows`


class ScorerNetwork:
    """LoRA of rank 16 on query and value; the pooler (dense and tanh) and the head (two outputs) train whole.

    parameters: those that train, by name. It computes in bfloat16 where the CPU or the GPU does. Raises FbragError
    `model_corrupt` where transformers cannot load the base encoder.
    """

    def __init__(self, base: BaseEncoder, seed: int) -> None:
        self.device = device()
        with torch.random.fork_rng(), quiet():
            torch.manual_seed(seed)
            encoder = _loaded(base)
            lora = LoraConfig(r=_RANK, lora_alpha=_ALPHA, lora_dropout=_DROPOUT, target_modules=["query", "value"])
            self._encoder = get_peft_model(encoder, lora).to(self.device)
            self._head = torch.nn.Linear(base.width, len(LABELS)).to(self.device)
        self._encoder.base_model.model.pooler.requires_grad_(True)
        modules = torch.nn.ModuleDict({"encoder": self._encoder, "classifier": self._head})
        self._modules = modules
        self.parameters = {name: each for name, each in modules.named_parameters() if each.requires_grad}

    def logits(self, windows: Sequence[Windows], *, exact: bool = False) -> Tensor:
        """Return the logits of pairs, float32 `(len(windows), 2)`: of each label the largest of the pair's windows.

        exact: in 32 bits throughout.
        """
        flat = [window for each in windows for window in each]
        owners = torch.tensor([i for i, each in enumerate(windows) for _ in each], device=self.device)
        longest = max(map(len, flat))
        ids = torch.tensor([[*window, *[0] * (longest - len(window))] for window in flat], device=self.device)
        lengths = torch.tensor([len(window) for window in flat], device=self.device)
        mask = torch.arange(longest, device=self.device) < lengths[:, None]
        with torch.autocast(self.device, torch.bfloat16, enabled=not exact and has_bfloat16(self.device)):
            # Token type 0 throughout: llama.cpp knows no other.
            pooled = self._encoder(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).pooler_output
            each = self._head(pooled).float()  # (n_windows, 2)
        lowest = torch.full((len(windows), len(LABELS)), -torch.inf, device=self.device)
        return lowest.scatter_reduce(0, owners[:, None].expand_as(each), each, "amax")

    def losses(self, windows: Sequence[Windows], pairs: Sequence[Pair]) -> Tensor:
        """Return the loss of each pair, `(len(pairs),)`: binary cross-entropy, summed over the known labels (equation 1)."""
        labels = torch.tensor([[float(pair.has_answer), float(bool(pair.prefers))] for pair in pairs], device=self.device)
        known = torch.tensor([[1.0, float(pair.prefers is not None)] for pair in pairs], device=self.device)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(self.logits(windows), labels, reduction="none")
        return (losses * known).sum(dim=1)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of a loss by each of `parameters`; the loss can be used again."""
        return list(torch.autograd.grad(loss, list(self.parameters.values()), retain_graph=True))

    def train(self, on: bool) -> None:
        """Turn dropout on or off."""
        self._modules.train(on)

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return all weights by their names in transformers' BertForSequenceClassification, LoRA merged into them."""
        merged = deepcopy(self._encoder).merge_and_unload()
        found = {name: each for name, each in merged.state_dict().items() if each.is_floating_point()}
        found |= {f"classifier.{name}": each for name, each in self._head.state_dict().items()}
        return {name: each.detach().cpu().numpy() for name, each in found.items()}


def _loaded(base: BaseEncoder) -> Any:
    try:
        return BertModel.from_pretrained(base.folder, dtype=torch.float32, use_safetensors=True, local_files_only=True)
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise FbragError("model_corrupt", f"{base.folder} cannot be loaded: {error}", "name another folder (--base)") from None
