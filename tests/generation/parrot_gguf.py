"""GGUF files of half a megabyte that say what they are told: each token is followed by one other token, whatever came before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.generation.tiny_gguf import TOKENS

#: The token that ends a reply.
END = "</s>"


def saying(*tokens: str) -> dict[str, str]:
    """Return what follows each of some tokens, in this order. None of them may be followed by two others."""
    pairs = list(pairwise(tokens))
    script = dict(pairs)
    assert len(script) == len(set(pairs)), "a token with two followers"
    return script


@dataclass(frozen=True, slots=True, kw_only=True)
class Parrot:
    """A model by what follows each of its tokens, the character "x" after those that have nothing. Spaces are written "Ġ", line
    ends "Ċ".

    or_else: what follows some of its tokens with the same probability; of the two, the likeliest token is the first in the
    vocabulary. marks: tokens of its own beside those of single bytes. written: whether they are text in a reply, as Qwen's
    <think> is. template: the chat template.
    """

    script: Mapping[str, str]
    template: str
    or_else: Mapping[str, str] = field(default_factory=dict)
    marks: Sequence[str] = ()
    written: bool = False
    context: int = 8192

    def write(self, path: Path) -> Path:
        import gguf

        tokens = [each.decode() for each in TOKENS] + list(self.marks)
        width = -(-len(tokens) // 32) * 32
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_context_length(self.context)
        writer.add_embedding_length(width)
        writer.add_feed_forward_length(32)
        writer.add_block_count(1)
        writer.add_head_count(2)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([each.encode() for each in tokens])
        kinds = {0: gguf.TokenType.CONTROL, 1: gguf.TokenType.CONTROL}
        own = gguf.TokenType.USER_DEFINED if self.written else gguf.TokenType.CONTROL
        kinds |= {len(TOKENS) + i: own for i in range(len(self.marks))}
        writer.add_token_types([kinds.get(i, gguf.TokenType.NORMAL) for i in range(len(tokens))])
        writer.add_token_merges(["a b"])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_chat_template(self.template)
        # The embedding of a token is a unit vector, which a block of zeros leaves as it is; the output turns it to its follower.
        unit = np.eye(len(tokens), width, dtype=np.float32)
        follower = [tokens.index(self.script.get(each, "x")) for each in tokens]
        output = np.zeros((len(tokens), width), np.float32)
        output[follower, range(len(tokens))] = 9.0
        for each, other in self.or_else.items():
            output[tokens.index(other), tokens.index(each)] = 9.0
        weights = {"token_embd": unit, "output": output, "output_norm": np.ones(width, np.float32)}
        weights |= {f"blk.0.{name}_norm": np.ones(width, np.float32) for name in ("attn", "ffn")}
        weights |= {f"blk.0.attn_{name}": np.zeros((width, width), np.float32) for name in ("q", "k", "v", "output")}
        weights |= {f"blk.0.ffn_{name}": np.zeros((32, width), np.float32) for name in ("gate", "up")}
        weights["blk.0.ffn_down"] = np.zeros((width, 32), np.float32)
        for name, tensor in weights.items():
            writer.add_tensor(f"{name}.weight", tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path
