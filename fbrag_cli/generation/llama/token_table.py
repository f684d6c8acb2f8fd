"""The token embeddings in a GGUF file, through ggml's own reader: the float32 numbers that the model computes with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.gguf_file import ggml, opened

_TENSOR = b"token_embd.weight"
_SAMPLED = 2048  # rows from which the standard deviation is computed


class TokenTable:
    """The token embeddings of a GGUF file, which is mapped into memory: only rows that are asked for are read.

    No model is loaded. width: numbers of a row, the model's `n_embd`. n_tokens: rows, the size of its vocabulary. kind: ggml's
    name of their type, as "q8_0".
    Raises FbragError `model_corrupt` for a file without a table, or with one of an unknown type.
    """

    def __init__(self, path: Path) -> None:
        with opened(path) as file:
            if file is None:
                raise _unreadable(path, "it is no GGUF file")
            if (number := ggml().gguf_find_tensor(file.pointer, _TENSOR)) < 0:
                raise _unreadable(path, "it has none")
            self.width = file.number("embedding_length") or 0
            n_bytes, end = ggml().gguf_get_tensor_size(file.pointer, number), file.end_of(number)
            kind = ggml().gguf_get_tensor_type(file.pointer, number)
        self._traits = ggml().ggml_get_type_traits(kind).contents
        name = ggml().ggml_type_name(kind) or b"?"
        self.kind = name.decode()
        if self._traits.name != name or self._traits.block_bytes != ggml().ggml_type_size(kind):
            raise _unreadable(path, "this build of llama.cpp describes types in another way")
        if not (self.kind == "f32" or self._traits.to_float):
            raise _unreadable(path, f"its type is {self.kind}")
        if self.width < 1 or self.width % self._traits.block:
            raise _unreadable(path, f"its rows have {self.width} numbers")
        row_bytes = self.width // self._traits.block * self._traits.block_bytes
        self.n_tokens = n_bytes // row_bytes
        if not n_bytes or n_bytes % row_bytes or end > path.stat().st_size:
            raise _unreadable(path, "it is cut, or of another shape")
        self._data = np.memmap(path, np.uint8, "r", offset=end - n_bytes, shape=(self.n_tokens, row_bytes))

    def rows(self, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the embeddings of tokens: float32 `(len(ids), width)`. Raises IndexError for an id outside the vocabulary."""
        wanted = np.asarray(ids, np.int64)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < self.n_tokens:
            raise IndexError(f"token ids from {wanted.min()} to {wanted.max()}, in a table of {self.n_tokens} rows")
        raw = np.ascontiguousarray(self._data[wanted])
        if self.kind == "f32":
            return raw.view("<f4")
        rows = np.empty((len(wanted), self.width), np.float32)
        self._traits.to_float(raw.ctypes.data, rows.ctypes.data, rows.size)
        return rows

    def deviation(self) -> float:
        """Return the standard deviation of the table's entries, from up to 2,048 rows that are spread over it."""
        spread = np.linspace(0, self.n_tokens - 1, min(self.n_tokens, _SAMPLED)).astype(np.int64)
        return float(self.rows(spread).std(dtype=np.float64))


def _unreadable(path: Path, reason: str) -> FbragError:
    hint = "check the file (fbrag models verify), or use another model (fbrag models list --all)"
    return FbragError("model_corrupt", f"the token embeddings of {path.name} cannot be read: {reason}", hint)
