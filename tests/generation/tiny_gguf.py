"""GGUF files of 100 kB with random weights, honest or lying, made in some milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


def letters() -> list[bytes]:
    """The 256 letters in which GPT-2's vocabulary writes bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(code).encode() for code in (*plain, *range(256, 256 + 256 - len(plain)))]


#: Tokens for every byte, after the marker of a text's begin and end.
TOKENS = (b"<s>", b"</s>", *letters(), b"ab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """What the file says. Defaults make a model that answers nonsense."""

    architecture: str = "llama"
    blocks: int = 1
    heads: int = 2
    width: int = 32
    head_width: int | None = None
    context: int = 8192
    epsilon: float = 1e-5
    experts: int | None = None
    tokenizer: str = "gpt2"
    splitting: str | None = None
    tokens: Sequence[bytes] = TOKENS
    merges: Sequence[str] | None = ("a b",)
    end: int = 1
    template: str | None = None
    weights: float = 0.01
    tensors: bool = True
    tied: bool = False

    def write(self, path: Path) -> Path:
        import gguf

        writer = gguf.GGUFWriter(path, self.architecture)
        writer.add_context_length(self.context)
        writer.add_embedding_length(self.width)
        writer.add_feed_forward_length(2 * self.width)
        writer.add_block_count(self.blocks)
        writer.add_head_count(self.heads)
        if self.head_width:
            writer.add_key_length(self.head_width)
            writer.add_value_length(self.head_width)
        writer.add_layer_norm_rms_eps(self.epsilon)
        if self.experts is not None:
            writer.add_expert_count(self.experts)
        writer.add_tokenizer_model(self.tokenizer)
        writer.add_token_list(list(self.tokens))
        writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(self.tokens) - 2))
        if self.merges is not None:
            writer.add_token_merges(list(self.merges))
        if self.splitting:
            writer.add_tokenizer_pre(self.splitting)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(self.end)
        if self.template:
            writer.add_chat_template(self.template)
        if self.tensors:
            self._add_tensors(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def _add_tensors(self, writer: object) -> None:
        random = np.random.default_rng(0)
        width, inner, n_tokens = self.width, 2 * self.width, len(self.tokens)
        shapes: dict[str, tuple[int, ...]] = {
            "token_embd": (n_tokens, width),
            "output_norm": (width,),
            **({} if self.tied else {"output": (n_tokens, width)}),
        }
        for block in range(min(self.blocks, 2)):
            layer = {"attn_norm": (width,), "ffn_norm": (width,), "ffn_down": (width, inner)}
            heads = self.heads * (self.head_width or width // max(self.heads, 1))
            layer |= {f"attn_{name}": (heads, width) for name in ("q", "k", "v")} | {"attn_output": (width, heads)}
            layer |= {f"ffn_{name}": (inner, width) for name in ("gate", "up")}
            shapes |= {f"blk.{block}.{name}": shape for name, shape in layer.items()}
        for name, shape in shapes.items():
            tensor = (random.standard_normal(shape) * self.weights).astype(np.float32)
            writer.add_tensor(f"{name}.weight", tensor)  # type: ignore[attr-defined]
