"""Embeddings by a sentence-transformers model: a folder, or a model of the hub that is on this machine already.

Nothing is downloaded, and no code of a model runs. A text that is longer than the model's window is embedded in several windows;
its embedding is their mean.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.installation import extra
from fbrag_cli.retrieval.dense import prefixes_of
from fbrag_cli.storage.files import on_disk, sha256_of

_LOADED = {".json", ".txt", ".model", ".safetensors", ".bin", ".pt"}
_OTHER_FORMS = {"onnx", "openvino", ".git", ".cache"}  # folders with the same weights once more


class SentenceModel:
    """An `Embedder` for sentence-transformers models.

    name: a folder, or a name of the hub, such as "BAAI/bge-large-en-v1.5". The model runs on the best device that torch finds.
    The prefixes are the prompts in the model's own configuration, else those of `prefixes_of`. Raises FbragError: model_missing
    if the library or the model is not installed, model_corrupt if it cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        self._folder = folder_of(name)
        self.name = Path(name).name if os.path.isdir(name) else name
        self._model = _load(self._folder, name)
        own = {kind: text for kind, text in self._model.prompts.items() if text}
        query, chunk = prefixes_of(name)
        self._prefixes = (own.get("query", query), own.get("document", own.get("passage", chunk)))

    @cached_property
    def key(self) -> str:
        """SHA-256 (hex) over the model's files, its window, its prefixes and the library's version."""
        from sentence_transformers import __version__

        parts = [_content(self._folder), self._model.max_seq_length, self._prefixes, __version__]
        return sha256(repr(parts).encode()).hexdigest()

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return float32 `(len(texts), d)`, each row of length 1."""
        prefix = self._prefixes[0 if query else 1]
        windows = [self._windows_of(prefix, text) for text in texts]
        embeddings = self._model.encode(
            [window for each in windows for window in each],
            prompt="",  # or the library puts a default prompt before ours
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        starts = np.cumsum([0, *(len(each) for each in windows[:-1])])
        sums = np.add.reduceat(np.asarray(embeddings, np.float32), starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)

    def _windows_of(self, prefix: str, text: str) -> list[str]:
        """Return the text with its prefix, in as few windows as it needs, of about equal length in tokens."""
        tokenizer, window = self._model.tokenizer, self._model.max_seq_length
        whole = [prefix + text]
        if not window or not getattr(tokenizer, "is_fast", False) or len(tokenizer(whole[0], **_UNCUT)["input_ids"]) <= window:
            return whole
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, **_UNCUT)["offset_mapping"]
        room = window - len(tokenizer(prefix, **_UNCUT)["input_ids"]) - 1  # a piece may begin again with half a word
        n = -(-len(offsets) // room)
        firsts = [offsets[len(offsets) * i // n][0] for i in range(n)]
        return [prefix + text[start:end] for start, end in zip(firsts, [*firsts[1:], len(text)], strict=True)]


_UNCUT: dict[str, Any] = {"truncation": False, "padding": False, "verbose": False}


def folder_of(name: str) -> Path:
    """Return the folder of a model: the named one, or the hub's cache. Raises FbragError (model_missing)."""
    name = on_disk(name)
    if os.path.isdir(name):
        if not (Path(name) / "modules.json").is_file() and not (Path(name) / "config.json").is_file():
            message = f"{name} is not a sentence-transformers model: it has neither modules.json nor config.json"
            raise FbragError("model_missing", message, "name the folder of a model")
        return Path(name)
    if os.path.isfile(name):
        raise FbragError("model_missing", f"{name} is a file, but a sentence-transformers model is a folder", "name its folder")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    full = name if "/" in name else f"sentence-transformers/{name}"  # as the library completes it
    try:
        return Path(snapshot_download(full, local_files_only=True))
    except HFValidationError:
        raise FbragError("model_missing", f"{name} is neither a folder nor a name of the hub", "name a folder") from None
    except LocalEntryNotFoundError:
        hint = f"hf download {full}"
        if name != full:
            hint = f"--retriever bm25, or if it is a model of sentence-transformers: {hint}"
        raise FbragError("model_missing", f"the model {name} is not on this machine", hint) from None


def _load(folder: Path, name: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging
    except ImportError:
        raise FbragError("model_missing", f"{name} needs sentence-transformers, which is not installed", extra("dense")) from None
    logging.disable_progress_bar()  # for the weights; it would go to stderr
    try:
        return SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a damaged or unknown model makes the libraries raise
        what = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise FbragError("model_corrupt", f"sentence-transformers cannot load {name}: {what}", "fetch it again") from None


def _content(folder: Path) -> str:
    """Return what identifies a model's files: the commit in the hub's cache, else SHA-256 (hex) over the loaded files."""
    if folder.parent.name == "snapshots":
        return folder.name
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in _LOADED and not _OTHER_FORMS & set(path.relative_to(folder).parts) and path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(sha256_of(path).encode())
    return digest.hexdigest()
