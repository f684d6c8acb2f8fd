"""Reads a GGUF file's header with ggml's own reader: whether the file is complete, and what its layers store per token."""

from __future__ import annotations

import ctypes
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fbrag_cli.generation.llama.machine import corrupt, native_log

_BLOCK = re.compile(r"(?:\w+\.)?blk\.(\d+)\.(\w+)\.weight$")
_UINT32, _STRING = 4, 8  # types in the metadata


class InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("context", ctypes.c_void_p))


class TypeTraits(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("block", ctypes.c_int64),
        ("interleaved", ctypes.c_int64),
        ("block_bytes", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of a model, and what they store in a context.

    n_blocks: number of layers without the output. kv_numbers: count of numbers in the keys and values of one token, over all
    layers. state_numbers: count of numbers in the recurrent states (SSM) of one sequence, over all layers.
    """

    n_blocks: int
    kv_numbers: int
    state_numbers: int


def read_layers(path: Path) -> Layers:
    """Check that a file's size, header and tensor table agree, before llama.cpp loads it. Return its layers.

    Raises FbragError `model_corrupt`.
    """
    with opened(path) as file:
        if file is None:
            raise corrupt(f"could not read the header of {path.name}: {native_log.last_error()}")
        end, tensors = file.data_offset, defaultdict[int, dict[str, int]](dict)
        for number in range(ggml().gguf_get_n_tensors(file.pointer)):
            name = ggml().gguf_get_tensor_name(file.pointer, number).decode("utf-8", "replace")
            end = max(end, file.end_of(number))
            if found := _BLOCK.match(name):
                tensors[int(found[1])][found[2]] = number
        if end > (size := path.stat().st_size):
            raise corrupt(f"{path.name} is incomplete: it has {size:,} bytes, but its tensors end at byte {end:,}")
        n_blocks, n_there = file.number("block_count"), max(tensors, default=-1) + 1
        n_there += file.number("nextn_predict_layers") or 0  # may be missing in a file
        is_split = ggml().gguf_find_key(file.pointer, b"split.count") >= 0
        if n_blocks == 0 or (n_blocks is not None and n_blocks > n_there and not is_split):
            raise corrupt(f"{path.name} is incomplete: its header declares {n_blocks} blocks, but it has {n_there}")
        n_states = sum(map(_has_state, tensors.values()))
        kv_numbers = sum(_kv_numbers(file, block) for block in tensors.values())
        return Layers(n_blocks or n_there, kv_numbers, n_states * _state_numbers(file))


def _kv_numbers(file: OpenFile, block: Mapping[str, int]) -> int:
    """Return the count of numbers in a token's keys and values in a block, from the rows of the tensors that compute them."""
    width = max(file.number("embedding_length") or 0, 1)
    if "attn_k" in block:
        keys = file.rows(block["attn_k"], width)
        return keys + (file.rows(block["attn_v"], width) if "attn_v" in block else keys)
    if "attn_kv_a_mqa" in block:  # both compressed into one
        return file.rows(block["attn_kv_a_mqa"], width)
    if "attn_qkv" in block and not _has_state(block):
        n_heads = file.number("attention.head_count") or 1
        return max(0, file.rows(block["attn_qkv"], width) - n_heads * (file.number("attention.key_length") or width // n_heads))
    return 0


def _has_state(block: Iterable[str]) -> bool:
    return any(name.startswith("ssm_") for name in block)


def _state_numbers(file: OpenFile) -> int:
    keys = ("conv_kernel", "inner_size", "state_size", "group_count")
    kernel, inner, state, groups = (file.number(f"ssm.{key}") or 0 for key in keys)
    return state * inner + max(0, kernel - 1) * (inner + 2 * groups * state)


# -- ggml's reader ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that ggml has opened without its weights. pointer: ggml's."""

    pointer: int

    @property
    def data_offset(self) -> int:
        return int(ggml().gguf_get_data_offset(self.pointer))

    def end_of(self, number: int) -> int:
        """Return the end of a tensor, as an offset in bytes."""
        start = self.data_offset + ggml().gguf_get_tensor_offset(self.pointer, number)
        return int(start + ggml().gguf_get_tensor_size(self.pointer, number))

    def rows(self, number: int, width: int) -> int:
        """Return the number of rows of `width` numbers in a tensor."""
        kind, n_bytes = ggml().gguf_get_tensor_type(self.pointer, number), ggml().gguf_get_tensor_size(self.pointer, number)
        return int(n_bytes // max(ggml().ggml_type_size(kind), 1) * ggml().ggml_blck_size(kind) // width)

    def number(self, key: str) -> int | None:
        """Return a number from the metadata of the file's architecture, such as "block_count"; None if it is missing."""
        index = ggml().gguf_find_key(self.pointer, b"general.architecture")
        if index < 0 or ggml().gguf_get_kv_type(self.pointer, index) != _STRING:
            return None
        architecture = ggml().gguf_get_val_str(self.pointer, index)
        index = ggml().gguf_find_key(self.pointer, architecture + b"." + key.encode())
        if index < 0 or ggml().gguf_get_kv_type(self.pointer, index) != _UINT32:
            return None
        return int(ggml().gguf_get_val_u32(self.pointer, index))


@contextmanager
def opened(path: Path) -> Iterator[OpenFile | None]:
    """Context manager: open a file without its weights. Yield None if ggml cannot read it."""
    native_log.install()
    native_log.clear()
    pointer = ggml().gguf_init_from_file(os.fsencode(path), InitParams(True, None))
    try:
        yield OpenFile(pointer) if pointer else None
    finally:
        if pointer:
            ggml().gguf_free(pointer)


@cache
def ggml() -> Any:
    """Return ggml's library, with the types of the functions used here."""
    from llama_cpp._ctypes_extensions import load_shared_library
    from llama_cpp._ggml import libggml, libggml_base_path

    # On Windows the functions are only in ggml's base library. Elsewhere that would be loaded twice, with a separate log.
    library = libggml if hasattr(libggml, "gguf_init_from_file") else load_shared_library("ggml-base", libggml_base_path)
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_size_t
    for name, result, *arguments in (
        ("gguf_init_from_file", pointer, text, InitParams),
        ("gguf_free", None, pointer),
        ("gguf_get_n_tensors", number, pointer),
        ("gguf_find_tensor", number, pointer, text),
        ("gguf_get_tensor_name", text, pointer, number),
        ("gguf_get_tensor_size", size, pointer, number),
        ("gguf_get_tensor_offset", size, pointer, number),
        ("gguf_get_tensor_type", ctypes.c_int, pointer, number),
        ("gguf_get_data_offset", size, pointer),
        ("gguf_find_key", number, pointer, text),
        ("gguf_get_kv_type", ctypes.c_int, pointer, number),
        ("gguf_get_val_str", text, pointer, number),
        ("gguf_get_val_u32", ctypes.c_uint32, pointer, number),
        ("ggml_blck_size", number, ctypes.c_int),
        ("ggml_type_name", text, ctypes.c_int),
        ("ggml_type_size", size, ctypes.c_int),
        ("ggml_get_type_traits", ctypes.POINTER(TypeTraits), ctypes.c_int),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
