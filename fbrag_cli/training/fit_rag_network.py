"""The scorer as a torch module: a BERT encoder with LoRA on query and value, a dense layer with tanh, and two outputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.generation.llama.scorer import INPUT_TOKENS, LABELS, QUESTION_TOKENS
from fbrag_cli.training.fit_rag_pairs import Pair

Array = NDArray[np.float32]

RANK, SCALE, DROPOUT = 16, 32, 0.05
_READ = 32  # pairs at once, where no gradient is computed


@dataclass(frozen=True, slots=True)
class Inputs:
    """tokens: of each pair. labels: float32 (n, 2). known: float32 (n, 2), 0 where a label is not known."""

    tokens: list[list[int]]
    labels: Array
    known: Array


class Network:
    """The model and its optimiser (AdamW). Vectors of gradients have the trained parameters in one order."""

    def __init__(self, base: Path, rate: float, seed: int) -> None:
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import AutoTokenizer, BertModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        warnings.filterwarnings("ignore", module=r"transformers|peft")  # of what they will change, on a run's stderr
        self._torch = torch
        torch.manual_seed(seed)
        self._tokenizer = AutoTokenizer.from_pretrained(str(base), local_files_only=True)
        encoder = BertModel.from_pretrained(str(base), local_files_only=True)
        width = encoder.config.hidden_size
        self._dense, self._output = encoder.pooler.dense, torch.nn.Linear(width, len(LABELS))
        lora = LoraConfig(r=RANK, lora_alpha=SCALE, lora_dropout=DROPOUT, target_modules=["query", "value"])
        self._encoder = get_peft_model(encoder, lora)
        self._dense.requires_grad_(True)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._modules = torch.nn.ModuleDict({"encoder": self._encoder, "output": self._output}).to(self._device)
        self._trained = {name: each for name, each in self._modules.named_parameters() if each.requires_grad}
        self._optimiser = torch.optim.AdamW(self._trained.values(), lr=rate)
        self._halves = self._device == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported()

    def seed(self, seed: int) -> None:
        """Fix what dropout draws from here on."""
        self._torch.manual_seed(seed)

    def inputs(self, pairs: Sequence[Pair]) -> Inputs:
        """Return pairs as the model reads them: [CLS] question [SEP] text [SEP], cut at `INPUT_TOKENS`."""
        whole, special = self._tokenizer, self._tokenizer
        questions = whole([pair.question for pair in pairs], add_special_tokens=False)["input_ids"]
        texts = whole([pair.text for pair in pairs], add_special_tokens=False, verbose=False)["input_ids"]
        tokens = []
        for question, text in zip(questions, texts, strict=True):
            head = [special.cls_token_id, *question[:QUESTION_TOKENS], special.sep_token_id]
            tokens.append([*head, *text[: INPUT_TOKENS - len(head) - 1], special.sep_token_id])
        labels = np.array([[pair.has_answer, bool(pair.prefers)] for pair in pairs], np.float32)
        known = np.array([[True, pair.prefers is not None] for pair in pairs], np.float32)
        return Inputs(tokens, labels, known)

    def gradient(self, inputs: Inputs, positions: NDArray[np.intp], *, scale: float) -> tuple[float, Array]:
        """Return the mean loss of some pairs times `scale`, and its gradient as a vector."""
        self._modules.train()
        loss = scale * self._losses(inputs, positions)[1].mean()
        found = self._torch.autograd.grad(loss, list(self._trained.values()))
        return float(loss.detach()), self._torch.cat([each.reshape(-1) for each in found]).float().cpu().numpy()

    def step(self, gradients: Mapping[str, Array], weights: Mapping[str, float]) -> None:
        """Move the parameters along the weighted sum of gradients."""
        total = self._torch.from_numpy(sum(weights[kind] * each for kind, each in gradients.items())).to(self._device)
        start = 0
        for parameter in self._trained.values():
            parameter.grad = total[start : start + parameter.numel()].view_as(parameter).to(parameter.dtype)
            start += parameter.numel()
        self._optimiser.step()

    def logits(self, inputs: Inputs) -> tuple[Array, Array]:
        """Return float32 (n, 2), and the losses (n,), without dropout."""
        self._modules.eval()
        logits, losses = np.zeros_like(inputs.labels), np.zeros(len(inputs.labels), np.float32)
        order = np.argsort([len(each) for each in inputs.tokens], kind="stable")
        with self._torch.no_grad():
            for start in range(0, len(order), _READ):
                positions = order[start : start + _READ]
                some, own = self._losses(inputs, positions)
                logits[positions], losses[positions] = some.float().cpu().numpy(), own.float().cpu().numpy()
        return logits, losses

    def merged(self) -> tuple[dict[str, Array], tuple[Array, Array], tuple[Array, Array]]:
        """Return the encoder's tensors with LoRA merged, by their names in transformers; the dense layer; the outputs.

        The network cannot be trained afterwards.
        """
        encoder = self._encoder.merge_and_unload()
        tensors = {name: tensor.float().cpu().numpy() for name, tensor in encoder.state_dict().items()}
        dense, output = ((_numbers(each.weight), _numbers(each.bias)) for each in (encoder.pooler.dense, self._output))
        return tensors, dense, output

    def save(self, path: Path) -> None:
        """Write the trained parameters and the optimiser's averages."""
        from safetensors.torch import save_file

        state = {name: parameter.detach().clone() for name, parameter in self._trained.items()}
        for name, parameter in self._trained.items():
            own = self._optimiser.state[parameter]
            state |= {f"{kind}/{name}": own[kind].clone() for kind in ("exp_avg", "exp_avg_sq", "step")}
        save_file(state, path)

    def load(self, path: Path) -> None:
        """Read what `save` wrote."""
        from safetensors.torch import load_file

        state = load_file(path)
        with self._torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(state[name])
                self._optimiser.state[parameter] = {
                    kind: state[f"{kind}/{name}"].to("cpu" if kind == "step" else self._device)
                    for kind in ("exp_avg", "exp_avg_sq", "step")
                }

    def _losses(self, inputs: Inputs, positions: NDArray[np.intp]) -> tuple[Any, Any]:
        """Return logits (n, 2), and of each pair the cross-entropy summed over its known labels (equation 1), (n,)."""
        torch = self._torch
        rows = [inputs.tokens[i] for i in positions]
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[self._tokenizer.pad_token_id] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        labels, known = (torch.from_numpy(each[positions]).to(self._device) for each in (inputs.labels, inputs.known))
        with torch.autocast(self._device, torch.bfloat16, enabled=self._halves):
            # token type 0 throughout, as llama.cpp has it
            states = self._encoder(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).last_hidden_state
            logits = self._output(torch.tanh(self._dense(states[:, 0])))
        losses = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), labels, reduction="none")
        return logits, (losses * known).sum(dim=1)


def _numbers(tensor: Any) -> Array:
    return np.asarray(tensor.detach().float().cpu().numpy(), np.float32)
