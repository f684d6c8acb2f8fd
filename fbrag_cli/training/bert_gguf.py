"""A BERT encoder of Hugging Face, a folder with config.json, vocab.txt and model.safetensors, as a GGUF file for llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from fbrag_cli.storage.files import whole_file

#: A layer's tensors: their names in transformers and in llama.cpp.
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
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
_CLASSIFIER = {"pooler.dense": "cls", "classifier": "cls.output"}
_CONTROL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")


def write_gguf(
    model: Path,
    path: Path,
    *,
    pooling: int | None,
    window: int,
    changed: Mapping[str, NDArray[np.float32]] | None = None,
    labels: Sequence[str] = (),
) -> Path:
    """Write the encoder in the folder `model` to `path`, its matrices in 16 bits, whole or not at all. Return `path`.

    pooling: llama.cpp's number (1 mean, 2 first token, 4 rank), None for a file that says none. window: the most tokens that are
    read at once. changed: tensors that take the place of the file's, or are added, by their names in transformers. labels: names
    of the outputs of a classifier, whose tensors `pooler.dense` and `classifier` are written with it; none for no classifier.

    Raises OSError; ValueError or another error of a wrong type or key for a folder of another kind (see `read_base`).
    """
    config = json.loads((model / "config.json").read_text("utf-8"))
    tensors = {name.removeprefix("bert."): tensor for name, tensor in load_file(model / "model.safetensors").items()}
    tensors.update(changed or {})
    with whole_file(path) as unfinished:
        writer = gguf.GGUFWriter(unfinished, "bert")
        _write_settings(writer, config, model.name.replace("-", " "), window)
        if pooling is not None:
            writer.add_pooling_type(gguf.PoolingType(pooling))
        if labels:
            writer.add_classifier_output_labels(labels)
        _write_vocabulary(writer, (model / "vocab.txt").read_text("utf-8").splitlines(), config["vocab_size"])
        for name, tensor in tensors.items():
            if (renamed := _renamed(name, classifier=bool(labels))) is not None:
                tensor = tensor[:window] if renamed.startswith("position_embd") else tensor
                matrix = tensor.ndim == 2 and renamed.startswith(("blk.", "token_embd."))
                writer.add_tensor(renamed, tensor.astype(np.float16 if matrix else np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return path


def _write_settings(writer: gguf.GGUFWriter, config: Mapping[str, Any], name: str, window: int) -> None:
    writer.add_name(name)
    writer.add_context_length(window)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_token_type_count(config["type_vocab_size"])


def _write_vocabulary(writer: gguf.GGUFWriter, vocabulary: list[str], size: int) -> None:
    """Write the tokens, and as many unused ones as the embeddings have more rows."""
    writer.add_tokenizer_model("bert")
    unused = [f"[PAD{i}]" for i in range(len(vocabulary), size)]
    types = dict.fromkeys(_CONTROL, gguf.TokenType.CONTROL) | dict.fromkeys(unused, gguf.TokenType.UNUSED)
    types["[UNK]"] = gguf.TokenType.UNKNOWN
    tokens = vocabulary + unused
    writer.add_token_list([_as_llama(token) for token in tokens])
    writer.add_token_types([types.get(token, gguf.TokenType.NORMAL) for token in tokens])
    ids = {token: i for i, token in enumerate(tokens)}
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_mask_token_id(ids["[MASK]"])


def _as_llama(token: str) -> str:
    """Return the token as llama.cpp has it, which marks the beginning of a word where WordPiece marks its continuation."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token.removeprefix("##") if token.startswith("##") else "\u2581" + token


def _renamed(name: str, *, classifier: bool) -> str | None:
    """Return llama.cpp's name of a tensor, None for what it computes itself or does not need."""
    stem, _, part = name.rpartition(".")
    plain = _EMBEDDINGS | (_CLASSIFIER if classifier else {})
    if stem in plain:
        return f"{plain[stem]}.{part}"
    if stem.startswith("encoder.layer."):
        number, _, inner = stem.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_LAYER[inner]}.{part}"
    return None
