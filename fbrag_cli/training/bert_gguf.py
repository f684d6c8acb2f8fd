"""Writes a BERT model of Hugging Face's form as a GGUF file: an embedding model, or a document scorer with its classifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.storage.files import whole_file

Array = NDArray[np.float32]

#: A layer's tensors: their names as transformers and as llama.cpp have them.
_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_EMBEDDINGS = {
    "word_embeddings": "token_embd",
    "position_embeddings": "position_embd",
    "token_type_embeddings": "token_types",
    "LayerNorm": "token_embd_norm",
}
_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A dense layer (width, width) with tanh over the first vector, then a layer (n_labels, width)."""

    labels: Sequence[str]
    dense: tuple[Array, Array]
    output: tuple[Array, Array]


def tensors_of(model: Path) -> dict[str, Array]:
    """Return the tensors of a model's folder by their names in transformers."""
    from safetensors.numpy import load_file

    found = load_file(model / "model.safetensors")
    return {name.removeprefix("bert."): tensor for name, tensor in found.items() if tensor.dtype == np.float32}


def write(
    model: Path,
    path: Path,
    tensors: Mapping[str, Array],
    *,
    window: int,
    pooling: int | None = None,
    classifier: Classifier | None = None,
) -> Path:
    """Write the GGUF file `path`, whole or not at all, with its matrices in 16 bits. Return `path`.

    model: folder with config.json and vocab.txt. window: tokens that it reads at once. pooling: llama.cpp's number (1: mean),
    None for a file that says none. With a classifier it is that of rerankers (RANK).
    """
    import gguf

    config = json.loads((model / "config.json").read_text("utf-8"))
    with whole_file(path) as part:
        writer = gguf.GGUFWriter(part, "bert")
        writer.add_name(model.name)
        writer.add_context_length(window)
        _add_sizes(writer, config)
        if classifier is not None:
            writer.add_pooling_type(gguf.PoolingType.RANK)
            writer.add_classifier_output_labels(list(classifier.labels))
        elif pooling is not None:
            writer.add_pooling_type(gguf.PoolingType(pooling))
        _add_vocabulary(writer, model, config["type_vocab_size"])
        for name, tensor in _renamed(tensors, window, classifier).items():
            matrix = tensor.ndim == 2 and name.startswith(("blk.", "token_embd"))
            writer.add_tensor(name, tensor.astype(np.float16 if matrix else np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return path


def _add_sizes(writer: Any, config: Mapping[str, Any]) -> None:
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)


def _add_vocabulary(writer: Any, model: Path, n_types: int) -> None:
    import gguf

    vocabulary = (model / "vocab.txt").read_text("utf-8").splitlines()
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(n_types)
    writer.add_token_list([_as_llama(token) for token in vocabulary])
    types = dict.fromkeys(_SPECIAL, gguf.TokenType.CONTROL) | {"[UNK]": gguf.TokenType.UNKNOWN}
    writer.add_token_types([types.get(token, gguf.TokenType.NORMAL) for token in vocabulary])
    ids = {token: i for i, token in enumerate(vocabulary)}
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_mask_token_id(ids["[MASK]"])


def _as_llama(token: str) -> str:
    """llama.cpp marks the beginning of a word where WordPiece marks its continuation."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token.removeprefix("##") if token.startswith("##") else "\u2581" + token


def _renamed(tensors: Mapping[str, Array], window: int, classifier: Classifier | None) -> dict[str, Array]:
    """Return the tensors by llama.cpp's names, without those that it computes itself or does not need."""
    found = {new: tensor for name, tensor in tensors.items() if (new := _name_of(name)) is not None}
    found["position_embd.weight"] = found["position_embd.weight"][:window]
    if classifier is not None:
        found["cls.weight"], found["cls.bias"] = classifier.dense
        found["cls.output.weight"], found["cls.output.bias"] = classifier.output
    return found


def _name_of(name: str) -> str | None:
    stem, _, part = name.rpartition(".")
    if stem.startswith("embeddings.") and stem.removeprefix("embeddings.") in _EMBEDDINGS:
        return f"{_EMBEDDINGS[stem.removeprefix('embeddings.')]}.{part}"
    if stem.startswith("encoder.layer."):
        number, _, inner = stem.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_LAYER[inner]}.{part}"
    return None
