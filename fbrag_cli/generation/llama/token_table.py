"""The token embeddings in a GGUF file, through ggml's own reader: the float32 numbers that the model computes with."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.native_log import native_log

_TENSOR = b"token_embd.weight"
_SAMPLED = 2048  # rows from which the standard deviation is computed
_UINT32, _STRING = 4, 8  # types of the metadata


class _InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("context", ctypes.c_void_p))


class _TypeTraits(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("block", ctypes.c_int64),
        ("interleaved", ctypes.c_int64),
        ("block_bytes", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


class TokenTable:
    """The token embeddings of a GGUF file, which is mapped into memory: only rows that are asked for are read.

    No model is loaded. width: numbers of a row, the model's `n_embd`. n_tokens: rows, the size of its vocabulary. kind: ggml's
    name of their type, as "q8_0".
    Raises FbragError `model_corrupt` for a file without a table, or with one of an unknown type.
    """

    def __init__(self, path: Path) -> None:
        ggml = _ggml()
        native_log.install()
        found = ggml.gguf_init_from_file(os.fsencode(path), _InitParams(True, None))
        if not found:
            raise _unreadable(path, "it is no GGUF file")
        try:
            number = ggml.gguf_find_tensor(found, _TENSOR)
            if number < 0:
                raise _unreadable(path, "it has none")
            self.width = _width(ggml, found)
            n_bytes = ggml.gguf_get_tensor_size(found, number)
            start = ggml.gguf_get_data_offset(found) + ggml.gguf_get_tensor_offset(found, number)
            kind = ggml.gguf_get_tensor_type(found, number)
        finally:
            ggml.gguf_free(found)
        self._traits = ggml.ggml_get_type_traits(kind).contents
        name = ggml.ggml_type_name(kind) or b"?"
        self.kind = name.decode()
        if self._traits.name != name or self._traits.block_bytes != ggml.ggml_type_size(kind):
            raise _unreadable(path, "this build of llama.cpp describes types in another way")
        if not (self.kind == "f32" or self._traits.to_float):
            raise _unreadable(path, f"its type is {self.kind}")
        if self.width < 1 or self.width % self._traits.block:
            raise _unreadable(path, f"its rows have {self.width} numbers")
        row_bytes = self.width // self._traits.block * self._traits.block_bytes
        self.n_tokens = n_bytes // row_bytes
        if not n_bytes or n_bytes % row_bytes or start + n_bytes > path.stat().st_size:
            raise _unreadable(path, "it is cut, or of another shape")
        self._data = np.memmap(path, np.uint8, "r", offset=start, shape=(self.n_tokens, row_bytes))

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


def _width(ggml: Any, found: int) -> int:
    """Return `n_embd` from the metadata; 0 where it is not there."""
    key = ggml.gguf_find_key(found, b"general.architecture")
    if key < 0 or ggml.gguf_get_kv_type(found, key) != _STRING:
        return 0
    key = ggml.gguf_find_key(found, ggml.gguf_get_val_str(found, key) + b".embedding_length")
    if key < 0 or ggml.gguf_get_kv_type(found, key) != _UINT32:
        return 0
    return int(ggml.gguf_get_val_u32(found, key))


def _ggml() -> Any:
    """Return ggml's base library, with the types of the functions that are used here."""
    from llama_cpp._ctypes_extensions import load_shared_library
    from llama_cpp._ggml import libggml_base_path

    ggml = load_shared_library("ggml-base", libggml_base_path)
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_size_t
    for name, result, *arguments in (
        ("gguf_init_from_file", pointer, text, _InitParams),
        ("gguf_free", None, pointer),
        ("gguf_find_tensor", number, pointer, text),
        ("gguf_get_tensor_size", size, pointer, number),
        ("gguf_get_tensor_offset", size, pointer, number),
        ("gguf_get_tensor_type", ctypes.c_int, pointer, number),
        ("gguf_get_data_offset", size, pointer),
        ("gguf_find_key", number, pointer, text),
        ("gguf_get_kv_type", ctypes.c_int, pointer, number),
        ("gguf_get_val_str", text, pointer, number),
        ("gguf_get_val_u32", ctypes.c_uint32, pointer, number),
        ("ggml_type_name", text, ctypes.c_int),
        ("ggml_type_size", size, ctypes.c_int),
        ("ggml_get_type_traits", ctypes.POINTER(_TypeTraits), ctypes.c_int),
    ):
        function = getattr(ggml, name)
        function.restype, function.argtypes = result, arguments
    return ggml


def _unreadable(path: Path, reason: str) -> FbragError:
    hint = "check the file (fbrag models verify), or use another model (fbrag models list --all)"
    return FbragError("model_corrupt", f"the token embeddings of {path.name} cannot be read: {reason}", hint)
