"""A frozen language model from a GGUF file, in torch: gradients pass through it to the input embeddings of a prompt.

transformers dequantizes the weights to 32 or 16 bits. LoRA can be added to the attention's query and value (RAFT).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from transformers import modeling_gguf_pytorch_utils as reading

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import whole_file
from fbrag_cli.training.networks import device, has_bfloat16, quiet

Tensor = Any  # of torch, whose types are unknown here

#: The LoRA settings of the paper's RAFT.
RANK, ALPHA, DROPOUT = 16, 32, 0.1
_MODULES = {"q_proj": "attn_q", "v_proj": "attn_v"}  # modules with LoRA: name in transformers -> in llama.cpp


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt with its target reply. tokens: ids of the prompt, -1 for each row. reply: ids, including the end of the turn;
    empty if there is nothing to learn."""

    tokens: tuple[int, ...]
    reply: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        return len(self.tokens) + len(self.reply)


class FrozenModel:
    """A causal language model. path: GGUF file. lora: whether to add LoRA, whose weights are then trained, by name in
    `parameters`.

    architecture: its name in llama.cpp and in transformers. computes_exactly: whether it computes in 32 bits, not in bfloat16,
    which is used if the device is as fast with it. Raises FbragError `model_corrupt` for a file that transformers cannot load.
    """

    def __init__(self, path: Path, *, lora: bool = False) -> None:
        self.device = device()
        self.computes_exactly = not has_bfloat16(self.device)
        dtype = torch.float32 if self.computes_exactly else torch.bfloat16
        with torch.random.fork_rng(), quiet():
            self._model = _loaded(path, dtype).to(self.device).eval().requires_grad_(False)
            if lora:
                settings = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=DROPOUT, target_modules=[*_MODULES])
                torch.manual_seed(0)  # its first matrices are initialized at random
                self._model = get_peft_model(self._model, settings)
        self._causal = self._model.get_base_model() if lora else self._model
        config = self._causal.config
        self.architecture, self._n_heads = str(config.model_type), int(config.num_attention_heads)
        self.parameters = {name: each for name, each in self._model.named_parameters() if each.requires_grad}

    @contextmanager
    def untrained(self) -> Iterator[None]:
        """Context manager: disable LoRA."""
        with self._model.disable_adapter() if self.parameters else nullcontext():
            yield

    def train(self, on: bool) -> None:
        """Turn the dropout of LoRA on or off."""
        self._model.train(on)

    def loss(self, example: Example, rows: Tensor | None) -> Tensor:
        """Return the mean cross-entropy of the reply's tokens given the prompt (the paper's LM loss, only on the reply)."""
        reply = torch.tensor(example.reply, device=self.device)
        return torch.nn.functional.cross_entropy(self.logits(example, rows), reply)

    def logits(self, example: Example, rows: Tensor | None) -> Tensor:
        """Return the logits of each token of the reply, float32 (len(reply), n_vocab).

        rows: (n_rows, n_embd), float32; None for a prompt without rows. The gradient reaches the rows and LoRA.
        """
        ids = torch.tensor([*example.tokens, *example.reply], device=self.device)
        places = ids < 0
        embedded = self._causal.get_input_embeddings()(ids.clamp(min=0))
        if rows is not None:
            embedded = embedded.clone()
            embedded[places] = rows.to(embedded.dtype)
        hidden = self._causal.model(inputs_embeds=embedded[None]).last_hidden_state[0]
        return self._causal.lm_head(hidden[-len(example.reply) - 1 : -1]).float()

    def write_lora(self, path: Path) -> Path:
        """Write LoRA atomically as a GGUF file that llama.cpp can add to the model. Return `path`. Raises OSError."""
        matrices = {_gguf_name(name): each.detach().float().cpu().numpy() for name, each in self.parameters.items()}
        with whole_file(path) as unfinished:
            writer = gguf.GGUFWriter(unfinished, self.architecture)
            writer.add_type(gguf.GGUFType.ADAPTER)
            writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
            writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, ALPHA)
            for name in sorted(matrices, key=lambda name: (int(name.split(".")[1]), name)):
                is_turned = self.architecture == "llama" and name.endswith("attn_q.weight.lora_b")
                writer.add_tensor(name, _turned(matrices[name], self._n_heads) if is_turned else matrices[name])
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
        return path


class NoModel:
    """Takes the place of a `FrozenModel` if no list has a reply to learn."""

    device = "cpu"

    def __init__(self) -> None:
        self.parameters: dict[str, Tensor] = {}

    @contextmanager
    def untrained(self) -> Iterator[None]:
        yield

    def train(self, on: bool) -> None:
        pass

    def loss(self, example: Example, rows: Tensor | None) -> Tensor:
        raise ValueError("no language model")


def _loaded(path: Path, dtype: Any) -> Any:
    bar, reading.tqdm = reading.tqdm, lambda each, **_: each
    try:
        return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=dtype, local_files_only=True)
    except (OSError, RuntimeError, ValueError, KeyError, NotImplementedError, ImportError) as error:
        what = f"transformers could not load {path}: {' '.join(str(error).split())[:200]}"
        raise FbragError("model_corrupt", what, "train for another model: -m MODEL") from None
    finally:
        reading.tqdm = bar


def _gguf_name(name: str) -> str:
    """Return llama.cpp's name for a tensor of peft: base_model.model.model.layers.3.self_attn.q_proj.lora_A.default.weight
    becomes blk.3.attn_q.weight.lora_a."""
    parts = name.split(".")
    block, module = parts[parts.index("layers") + 1], next(part for part in parts if part in _MODULES)
    return f"blk.{block}.{_MODULES[module]}.weight.lora_{'a' if 'lora_A' in parts else 'b'}"


def _turned(matrix: NDArray[Any], n_heads: int) -> NDArray[Any]:
    """Return the rows in llama.cpp's order for its architecture "llama", which rotates adjacent pairs, not halves."""
    rows = matrix.reshape(n_heads, 2, len(matrix) // n_heads // 2, -1).swapaxes(1, 2)
    return np.ascontiguousarray(rows.reshape(matrix.shape))
