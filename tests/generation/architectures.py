"""Tiny models of the architectures that people run: GGUF files of some 100 kB with random weights, in full precision.

Each has the layers, heads, windows, states and experts of its family, few and narrow, the family's way of splitting a text, its
markers, and a chat template in short. What they say is nonsense. Weights are so large that what was read long before changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.generation import templates
from tests.generation.tiny_gguf import letters

#: Words for prompts. A token is a letter.
LOG = "The keeper wrote in her log that a brig with torn sails had passed at noon and was seen no more. "

Shapes = dict[str, tuple[int, ...]]

_WIDTH, _INNER = 32, 64
_HEADS, _KV_HEADS, _HEAD = 4, 2, 8
_EXPERTS, _EXPERTS_USED, _EXPERT_INNER = 4, 2, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """A token for each byte, and markers. model, splitting: llama.cpp's names of its tokenizer. end: the marker of a reply's
    end. begin: the marker of a text's begin."""

    markers: Sequence[str]
    end: str
    begin: str | None = None
    model: str = "gpt2"
    splitting: str | None = None

    @property
    def tokens(self) -> list[tuple[bytes, int]]:
        """The bytes of each token with its type."""
        from gguf import TokenType

        markers = [(each.encode(), TokenType.CONTROL) for each in self.markers]
        if self.model != "gemma4":
            return [*markers, *((each, TokenType.NORMAL) for each in letters()), (b"ab", TokenType.NORMAL)]
        others = [(f"<0x{code:02X}>".encode(), TokenType.BYTE) for code in range(256)]
        plain = [chr(code) for code in range(33, 127)]
        return [*markers, *others, *((each.encode(), TokenType.NORMAL) for each in ("\n", "▁", "ab", *plain))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model of one architecture.

    name: llama.cpp's. kind: what its layers are. template: its chat template, without which prompts are plain text. keys: its
    metadata, after "name.". shapes: its tensors, by name without ".weight", in the order of NumPy. thinks: whether its family
    thinks before it answers, unless the template forbids it.
    """

    name: str
    kind: str
    vocabulary: Vocabulary
    template: str
    keys: Mapping[str, object]
    shapes: Shapes = field(repr=False)
    thinks: bool = False

    def write(self, path: Path, *, context: int = 32768, seed: int = 0) -> Path:
        """Write the model to `path`. context: tokens that it was trained with. seed: of its weights."""
        import gguf

        writer = gguf.GGUFWriter(path, self.name)
        tokens = self.vocabulary.tokens
        keys: dict[str, object] = {"context_length": context, "embedding_length": _WIDTH, **self.keys}
        for key, value in keys.items():
            _add(writer, f"{self.name}.{key}", value)
        writer.add_tokenizer_model(self.vocabulary.model)
        if self.vocabulary.splitting:
            writer.add_tokenizer_pre(self.vocabulary.splitting)
        writer.add_token_list([token for token, _ in tokens])
        writer.add_token_types([kind for _, kind in tokens])
        writer.add_token_merges(["a b"])
        ids = {token: i for i, (token, _) in enumerate(tokens)}
        writer.add_eos_token_id(ids[self.vocabulary.end.encode()])
        if self.vocabulary.begin:
            writer.add_bos_token_id(ids[self.vocabulary.begin.encode()])
        writer.add_add_bos_token(self.vocabulary.begin is not None)
        writer.add_chat_template(self.template)
        random = np.random.default_rng(seed)
        shapes = {"token_embd": (len(tokens), _WIDTH), "output": (len(tokens), _WIDTH), **self.shapes}
        for name, shape in shapes.items():
            shape = tuple(len(tokens) if each == _VOCABULARY else each for each in shape)
            weights = _weights(name, shape, random)
            if name == "output":
                weights[: len(self.vocabulary.markers)] *= 0.6  # few samples end early
            whole = name.endswith((".bias", "ssm_a", "ssm_d"))
            writer.add_tensor(name if whole else f"{name}.weight", weights)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def _add(writer: object, key: str, value: object) -> None:
    kind = type(value[0] if isinstance(value, list) else value).__name__
    method = "array" if isinstance(value, list) else {"int": "uint32", "float": "float32", "bool": "bool", "str": "string"}[kind]
    getattr(writer, f"add_{method}")(key, value)


def _weights(name: str, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    """Return weights with which what flows through a layer keeps its size."""
    drawn = random.standard_normal(shape)
    if name.endswith("ssm_a"):
        drawn = -random.uniform(0.02, 0.3, shape)  # a state decays slowly
    elif "norm" in name or name.endswith(("rope_freqs", "output_scale")):
        drawn = 1 + 0.2 * np.abs(drawn)
    elif len(shape) > 1 and name != "token_embd":
        drawn *= 1.5 / np.sqrt(shape[-1])
    return drawn.astype(np.float32)


# -- what layers are made of -------------------------------------------------------------------------------------------------

_VOCABULARY = -1  # in a shape: the number of tokens


def _blocks(*layers: Shapes) -> Shapes:
    return {f"blk.{i}.{name}": shape for i, layer in enumerate(layers) for name, shape in layer.items()}


def _attention(*, head: int = _HEAD, kv_heads: int = _KV_HEADS, gated: bool = False, norms: bool = False) -> Shapes:
    """gated: whether the queries bring a gate each. norms: whether queries and keys are normalized."""
    keys = (kv_heads * head, _WIDTH)
    queries = (_HEADS * head * (2 if gated else 1), _WIDTH)
    shapes: Shapes = {"attn_norm": (_WIDTH,), "attn_q": queries, "attn_k": keys, "attn_v": keys}
    shapes |= {"attn_output": (_WIDTH, _HEADS * head)}
    return shapes | ({"attn_q_norm": (head,), "attn_k_norm": (head,)} if norms else {})


def _forward(inner: int = _INNER, *, norm: str = "ffn_norm", suffix: str = "") -> Shapes:
    shapes: Shapes = {norm: (_WIDTH,)}
    shapes |= {f"ffn_{name}{suffix}": (inner, _WIDTH) for name in ("gate", "up")}
    return shapes | {f"ffn_down{suffix}": (_WIDTH, inner)}


def _experts(*, norm: str = "ffn_norm") -> Shapes:
    shapes: Shapes = {norm: (_WIDTH,), "ffn_gate_inp": (_EXPERTS, _WIDTH)}
    shapes |= {f"ffn_{name}_exps": (_EXPERTS, _EXPERT_INNER, _WIDTH) for name in ("gate", "up")}
    return shapes | {"ffn_down_exps": (_EXPERTS, _WIDTH, _EXPERT_INNER)}


_ATTENTION: dict[str, object] = {
    "feed_forward_length": _INNER,
    "attention.head_count": _HEADS,
    "attention.head_count_kv": _KV_HEADS,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e4,
}
_EXPERT_KEYS: dict[str, object] = {
    "expert_count": _EXPERTS,
    "expert_used_count": _EXPERTS_USED,
    "expert_feed_forward_length": _EXPERT_INNER,
}
_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN = Vocabulary(markers=(*_CHATML, "<think>", "</think>"), end="<|im_end|>", splitting="qwen2")
_OUTPUT: Shapes = {"output_norm": (_WIDTH,)}


# -- attention in every layer ------------------------------------------------------------------------------------------------


def _llama() -> Architecture:
    markers = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    return Architecture(
        name="llama",
        kind="attention",
        vocabulary=Vocabulary(markers=markers, begin=markers[0], end="<|eot_id|>", splitting="llama-bpe"),
        template=templates.LLAMA,
        keys={"block_count": 2, **_ATTENTION},
        shapes=_OUTPUT | _blocks(*[_attention() | _forward()] * 2),
    )


def _qwen2() -> Architecture:
    layer = _attention() | _forward()
    layer |= {f"attn_{name}.bias": layer[f"attn_{name}"][:1] for name in ("q", "k", "v")}
    return Architecture(
        name="qwen2",
        kind="attention",
        vocabulary=_QWEN,
        template=templates.CHATML,
        keys={"block_count": 2, **_ATTENTION},
        shapes=_OUTPUT | _blocks(layer, layer),
    )


def _qwen3() -> Architecture:
    head = 2 * _HEAD  # heads together are wider than the model
    return Architecture(
        name="qwen3",
        kind="attention",
        vocabulary=_QWEN,
        template=templates.QWEN3,
        keys={"block_count": 2, "attention.key_length": head, "attention.value_length": head, **_ATTENTION},
        shapes=_OUTPUT | _blocks(*[_attention(head=head, norms=True) | _forward()] * 2),
        thinks=True,
    )


def _qwen3moe() -> Architecture:
    return Architecture(
        name="qwen3moe",
        kind="attention, experts",
        vocabulary=_QWEN,
        template=templates.QWEN3,
        keys={"block_count": 2, **_ATTENTION, **_EXPERT_KEYS},
        shapes=_OUTPUT | _blocks(*[_attention(norms=True) | _experts()] * 2),
        thinks=True,
    )


# -- sliding windows ---------------------------------------------------------------------------------------------------------


def _gemma4() -> Architecture:
    """As the small ones: the last two layers read the keys of earlier ones, and each layer has embeddings of its own."""
    windows = [True, True, True, False, True, False]
    wide, n_layers, each_layer = 2 * _HEAD, len(windows), 8
    markers = ("<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|channel>", "<channel|>")
    layers = []
    for in_window in windows:
        layer = _attention(head=_HEAD if in_window else wide, norms=True) | _forward()
        layer |= {"post_attention_norm": (_WIDTH,), "post_ffw_norm": (_WIDTH,), "layer_output_scale": (1,)}
        layers.append(layer | {"inp_gate": (each_layer, _WIDTH), "proj": (_WIDTH, each_layer), "post_norm": (_WIDTH,)})
    for layer in layers[4:]:
        for name in ("attn_k", "attn_v", "attn_k_norm"):
            del layer[name]
    shapes: Shapes = {
        "rope_freqs": (wide // 2,),
        "per_layer_token_embd": (_VOCABULARY, each_layer * n_layers),
        "per_layer_model_proj": (each_layer * n_layers, _WIDTH),
        "per_layer_proj_norm": (each_layer,),
    }
    own = {
        "block_count": n_layers,
        "embedding_length_per_layer_input": each_layer,
        "attention.sliding_window": 64,
        "attention.sliding_window_pattern": windows,
        "attention.shared_kv_layers": 2,
        "attention.key_length": wide,
        "attention.value_length": wide,
        "attention.key_length_swa": _HEAD,
        "attention.value_length_swa": _HEAD,
        "rope.dimension_count": wide,
        "rope.dimension_count_swa": _HEAD,
        "rope.freq_base_swa": 1e4,
        "final_logit_softcapping": 30.0,
    }
    return Architecture(
        name="gemma4",
        kind="windows",
        vocabulary=Vocabulary(markers=markers, begin="<bos>", end="<turn|>", model="gemma4"),
        template=templates.GEMMA4,
        keys={**_ATTENTION, **own, "rope.freq_base": 1e6},
        shapes=_OUTPUT | shapes | _blocks(*layers),
        thinks=True,
    )


def _gpt_oss() -> Architecture:
    """Every other layer has a window."""
    markers = ("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>")
    layer = _attention() | _experts(norm="post_attention_norm")
    layer |= {f"attn_{name}.bias": layer[f"attn_{name}"][:1] for name in ("q", "k", "v", "output")}
    layer |= {f"ffn_{name}_exps.bias": layer[f"ffn_{name}_exps"][:2] for name in ("gate", "up", "down")}
    layer |= {"attn_sinks": (_HEADS,), "ffn_gate_inp.bias": (_EXPERTS,)}
    own = {"block_count": 4, "attention.sliding_window": 64}
    return Architecture(
        name="gpt-oss",
        kind="windows, experts",
        vocabulary=Vocabulary(markers=markers, begin="<|startoftext|>", end="<|return|>", splitting="gpt-4o"),
        template=templates.GPT_OSS,
        keys={**_ATTENTION, **_EXPERT_KEYS, **own, "attention.key_length": _HEAD, "attention.value_length": _HEAD},
        shapes=_OUTPUT | _blocks(*[layer] * 4),
        thinks=True,
    )


# -- hybrids: most layers have a state, few have keys and values -------------------------------------------------------------


def _qwen35_layers(forward: Shapes) -> Shapes:
    """Three layers with a state and one with attention."""
    state, groups, heads, kernel = 16, 2, 4, 4
    channels = 2 * state * groups + state * heads
    attention = _attention(gated=True, norms=True)
    recurrent: Shapes = {
        "attn_norm": (_WIDTH,),
        "attn_qkv": (channels, _WIDTH),
        "attn_gate": (state * heads, _WIDTH),
        "ssm_conv1d": (channels, kernel),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads,),
        "ssm_beta": (heads, _WIDTH),
        "ssm_alpha": (heads, _WIDTH),
        "ssm_norm": (state,),
        "ssm_out": (_WIDTH, state * heads),
    }
    return _OUTPUT | _blocks(*[recurrent | forward] * 3, attention | forward)


_QWEN35: dict[str, object] = {
    **_ATTENTION,
    "block_count": 4,
    "full_attention_interval": 4,
    "attention.key_length": _HEAD,
    "attention.value_length": _HEAD,
    "rope.dimension_count": 4,
    "rope.dimension_sections": [1, 1, 0, 0],
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 64,
    "ssm.state_size": 16,
    "ssm.time_step_rank": 4,
    "ssm.group_count": 2,
}
_QWEN35_VOCABULARY = Vocabulary(markers=_QWEN.markers, end=_QWEN.end, splitting="qwen35")


def _qwen35() -> Architecture:
    return Architecture(
        name="qwen35",
        kind="hybrid",
        vocabulary=_QWEN35_VOCABULARY,
        template=templates.QWEN35,
        keys=_QWEN35,
        shapes=_qwen35_layers(_forward(norm="post_attention_norm")),
        thinks=True,
    )


def _qwen35moe() -> Architecture:
    """One expert of each layer, behind a gate, is always used."""
    shared = _forward(_EXPERT_INNER, norm="ffn_gate_inp_shexp", suffix="_shexp")
    return Architecture(
        name="qwen35moe",
        kind="hybrid, experts",
        vocabulary=_QWEN35_VOCABULARY,
        template=templates.QWEN35,
        keys={**_QWEN35, **_EXPERT_KEYS, "expert_shared_feed_forward_length": _EXPERT_INNER},
        shapes=_qwen35_layers(_experts(norm="post_attention_norm") | shared),
        thinks=True,
    )


def _lfm2() -> Architecture:
    """The state of a layer is that of a short convolution."""
    kernel = 3
    convolution: Shapes = {
        "attn_norm": (_WIDTH,),
        "shortconv.conv": (_WIDTH, kernel),
        "shortconv.in_proj": (3 * _WIDTH, _WIDTH),
        "shortconv.out_proj": (_WIDTH, _WIDTH),
    }
    layers = [each | _forward() for each in (convolution, convolution, _attention(norms=True), convolution)]
    own = {"block_count": len(layers), "attention.head_count_kv": [0, 0, _KV_HEADS, 0], "shortconv.l_cache": kernel}
    return Architecture(
        name="lfm2",
        kind="hybrid",
        vocabulary=Vocabulary(
            markers=("<|pad|>", "<|startoftext|>", *_CHATML), begin="<|startoftext|>", end="<|im_end|>", splitting="lfm2"
        ),
        template=templates.LFM2,
        keys={**_ATTENTION, **own},
        shapes={"token_embd_norm": (_WIDTH,)} | _blocks(*layers),
    )


def _granitehybrid() -> Architecture:
    """Mamba 2 in most layers, and attention without positions in one."""
    kernel, state, heads, inner = 4, 16, 8, 2 * _WIDTH
    recurrent: Shapes = {
        "attn_norm": (_WIDTH,),
        "ssm_in": (2 * inner + 2 * state + heads, _WIDTH),
        "ssm_conv1d": (inner + 2 * state, kernel),
        "ssm_conv1d.bias": (inner + 2 * state,),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads, 1),
        "ssm_d": (heads, 1),
        "ssm_norm": (1, inner),
        "ssm_out": (_WIDTH, inner),
    }
    layers = [each | _forward() for each in (recurrent, recurrent, _attention(), recurrent)]
    own = {
        "block_count": len(layers),
        "attention.head_count_kv": [0, 0, _KV_HEADS, 0],
        "rope.scaling.finetuned": False,
        "ssm.conv_kernel": kernel,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": heads,
        "ssm.group_count": 1,
    }
    markers = ("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>")
    return Architecture(
        name="granitehybrid",
        kind="hybrid",
        vocabulary=Vocabulary(markers=markers, end="<|end_of_text|>", splitting="refact"),
        template=templates.GRANITE,
        keys={**_ATTENTION, **own},
        shapes=_OUTPUT | _blocks(*layers),
    )


#: By llama.cpp's name.
ARCHITECTURES: dict[str, Architecture] = {
    each.name: each
    for each in (
        _llama(),
        _qwen2(),
        _qwen3(),
        _qwen3moe(),
        _gemma4(),
        _gpt_oss(),
        _qwen35(),
        _qwen35moe(),
        _lfm2(),
        _granitehybrid(),
    )
}
