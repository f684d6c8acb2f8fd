"""A GGUF file loaded by llama.cpp, for generators and encoders: its tokenizer, token embeddings and contexts."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.gguf_file import ggml, opened, read_layers
from fbrag_cli.generation.llama.machine import (
    corrupt,
    device_list,
    layers_for_gpu,
    llama_cpp,
    native_log,
    repacking_helps,
    usable_cores,
    version,
)
from fbrag_cli.generation.placement import WHERE_IT_FITS, Placement
from fbrag_cli.limits import free_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How to load a model file, and what is known about it.

    name: the model's name in errors and results; None for the name of its file. sha256: digest of the file (hex), None if
    unknown. placement: devices of its layers. threads: number of CPU threads; None for the physical cores. cancellation: stops
    the loading, and the calls of an encoder until another one is set. verbose: whether llama.cpp's log goes to stderr.
    """

    name: str | None = None
    sha256: str | None = None
    placement: Placement = WHERE_IT_FITS
    threads: int | None = None
    cancellation: Cancellation | None = None
    verbose: bool = False


BY_DEFAULT = Loading()

_TOKEN_EMBEDDINGS = b"token_embd.weight"
_SAMPLED = 2048  # rows from which the standard deviation is computed


class Weights:
    """A loaded model file. It is memory-mapped, not read.

    model, vocab: llama.cpp's pointers. layers: what the layers store in a context. layers_on_gpu: number of layers on GPUs.
    cancellation: of the running call, set before each call. Raises FbragError: `model_corrupt` if the file is inconsistent or
    llama.cpp cannot load it, `out_of_memory` if it does not fit.
    """

    def __init__(self, path: Path, loading: Loading = BY_DEFAULT) -> None:
        self.model: Any = None
        self._adapter: Any = None
        self.cancellation = loading.cancellation or Cancellation()
        self._abort = llama_cpp.ggml_abort_callback(lambda data: self.cancellation.requested)  # for all contexts
        self.threads = loading.threads or usable_cores()
        self._path, self._name = path, path.name
        native_log.install()
        native_log.verbose = loading.verbose
        self.layers = read_layers(path)
        self._placement, self._asked_layers = loading.placement, layers_for_gpu(path, loading.placement, self.layers.n_blocks)
        self._check_memory(path.stat().st_size)
        self.model = self._load()
        if not self.model:
            raise _not_loaded(path, native_log.last_error())
        self.layers_on_gpu = layers_on_gpu(self.model, self._asked_layers)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def add_adapter(self, path: Path) -> None:
        """Add a LoRA GGUF file to all contexts made from now on. Raises FbragError `model_corrupt` for another file."""
        native_log.clear()
        with self.cancellation.native():
            self._adapter = llama_cpp.llama_adapter_lora_init(self.model, os.fsencode(path))
        if not self._adapter:
            what = f"llama.cpp could not add {path} to {self._name}: {native_log.last_error()}"
            raise FbragError("model_corrupt", what, "train it for this model")

    def context(self, params: Any) -> Any:
        """Return a new context with `params`, or None if llama.cpp cannot make one. Free it before `close`."""
        params.n_threads = params.n_threads_batch = self.threads
        params.kv_unified = True
        params.no_perf = True
        params.abort_callback = self._abort
        native_log.clear()
        context = None
        try:
            with self.cancellation.native():  # it writes to the log, whose callback cannot pass on a signal's error
                context = llama_cpp.llama_init_from_model(self.model, params)
            if context and self._adapter:
                self._adapt(context)
        except BaseException:
            if context:
                llama_cpp.llama_free(context)
            raise
        return context

    def decode(self, context: Any, batch: Any) -> int:
        """Run one batch and return llama.cpp's status, 0 for success. Raises the error of a requested cancellation."""
        native_log.clear()
        with self.cancellation.native():
            return int(llama_cpp.llama_decode(context, batch))

    def tokens_of(self, text: str, *, special: bool = False, surrounded: bool = False) -> list[int]:
        """Return the token ids of `text`. special: whether to parse the model's markers. surrounded: whether to add the tokens
        that the model expects before and after a text."""
        raw = text.encode("utf-8", "replace")
        size = len(raw) + 8
        buffer = (llama_cpp.llama_token * size)()
        n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), buffer, size, surrounded, special)
        if n < 0:
            buffer = (llama_cpp.llama_token * -n)()
            n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), buffer, -n, surrounded, special)
        return list(buffer[:n])

    @cached_property
    def token_table(self) -> TokenTable:
        """The model's token embeddings. Raises FbragError `model_corrupt` if they cannot be read."""
        return TokenTable(self._path)

    def close(self) -> None:
        """Free the model."""
        if self.model is not None:
            self.__dict__.pop("token_table", None)
            llama_cpp.llama_model_free(self.model)  # and its adapter
            self.model = None

    def _adapt(self, context: Any) -> None:
        adapters, scales = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(self._adapter), (ctypes.c_float * 1)(1.0)
        if llama_cpp.llama_set_adapters_lora(context, adapters, 1, scales):
            raise FbragError("model_corrupt", f"llama.cpp could not use the adapter of {self._name}", "train it for this model")

    def _check_memory(self, need: int) -> None:
        free = free_memory()
        if self._asked_layers == 0 and need > free:
            raise FbragError(
                "out_of_memory",
                f"{self._name} needs {need / 1e9:.1f} GB of memory; only {free / 1e9:.1f} GB is free",
                "close other programs, or use a smaller model (fbrag models list --all)",
            )

    def _load(self) -> Any:
        """Return the model, None if llama.cpp cannot load it."""
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = self._asked_layers
        if (
            self._placement.devices is not None
        ):  # even without layers there, llama.cpp would send long batches to a GPU that it may use
            on_devices = device_list(self._placement.devices)
            params.devices = ctypes.cast(on_devices, ctypes.c_void_p)
        if self._asked_layers and self._placement.shares:
            shares = (ctypes.c_float * llama_cpp.llama_max_devices())(*self._placement.shares)
            params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        params.use_extra_bufts = repacking_helps()
        progress = llama_cpp.llama_progress_callback(lambda done, data: not self.cancellation.requested)
        params.progress_callback = progress
        native_log.clear()
        with self.cancellation.native():
            return llama_cpp.llama_model_load_from_file(os.fsencode(self._path), params)


def layers_on_gpu(model: Any, asked: int) -> int:
    """Return the number of a loaded model's layers on GPUs, including the output layer.

    llama.cpp has no function for this. It places the requested number of layers (-1 for all), beginning with the last, or fails.
    """
    n_layers = int(llama_cpp.llama_model_n_layer(model)) + 1
    return n_layers if asked < 0 else min(asked, n_layers)


def _not_loaded(path: Path, reason: str) -> FbragError:
    if "alloc" in reason or "memory" in reason:
        return FbragError(
            "out_of_memory",
            f"{path.name} does not fit: {reason}",
            "use a smaller model, or on a GPU fewer layers (--set gpu-layers=N)",
        )
    return FbragError(
        "model_corrupt",
        f"llama.cpp could not load {path}: {reason}",
        f"check the file (fbrag models verify), and whether llama-cpp-python {version()} supports this kind of model",
    )


# -- token embeddings ------------------------------------------------------------------------------------------------------


class TokenTable:
    """The token embeddings of a GGUF file, as the float32 numbers that the model computes with, read with ggml's own reader.

    The file is memory-mapped, so only the requested rows are read. No model is loaded. width: length of a row, the model's
    `n_embd`. n_tokens: number of rows, the size of the vocabulary. kind: ggml's name of their type, such as "q8_0". Raises
    FbragError `model_corrupt` for a file without a table, or with one of an unknown type.
    """

    def __init__(self, path: Path) -> None:
        with opened(path) as file:
            if file is None:
                raise _unreadable(path, "not a GGUF file")
            if (number := ggml().gguf_find_tensor(file.pointer, _TOKEN_EMBEDDINGS)) < 0:
                raise _unreadable(path, "missing")
            self.width = file.number("embedding_length") or 0
            n_bytes, end = ggml().gguf_get_tensor_size(file.pointer, number), file.end_of(number)
            kind = ggml().gguf_get_tensor_type(file.pointer, number)
        self._traits = ggml().ggml_get_type_traits(kind).contents
        name = ggml().ggml_type_name(kind) or b"?"
        self.kind = name.decode()
        if self._traits.name != name or self._traits.block_bytes != ggml().ggml_type_size(kind):
            raise _unreadable(path, "this build of llama.cpp has a different type table")
        if not (self.kind == "f32" or self._traits.to_float):
            raise _unreadable(path, f"unsupported type {self.kind}")
        if self.width < 1 or self.width % self._traits.block:
            raise _unreadable(path, f"invalid row length {self.width}")
        row_bytes = self.width // self._traits.block * self._traits.block_bytes
        self.n_tokens = n_bytes // row_bytes
        if not n_bytes or n_bytes % row_bytes or end > path.stat().st_size:
            raise _unreadable(path, "truncated, or of the wrong shape")
        self._data = np.memmap(path, np.uint8, "r", offset=end - n_bytes, shape=(self.n_tokens, row_bytes))

    def rows(self, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the embeddings of tokens: float32 `(len(ids), width)`. Raises IndexError for an id outside the vocabulary."""
        wanted = np.asarray(ids, np.int64)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < self.n_tokens:
            raise IndexError(f"token ids {wanted.min()} to {wanted.max()} exceed a table of {self.n_tokens} rows")
        raw = np.ascontiguousarray(self._data[wanted])
        if self.kind == "f32":
            return raw.view("<f4")
        rows = np.empty((len(wanted), self.width), np.float32)
        self._traits.to_float(raw.ctypes.data, rows.ctypes.data, rows.size)
        return rows

    def deviation(self) -> float:
        """Return the standard deviation of the table's entries, from up to 2,048 evenly spread rows."""
        spread = np.linspace(0, self.n_tokens - 1, min(self.n_tokens, _SAMPLED)).astype(np.int64)
        return float(self.rows(spread).std(dtype=np.float64))


def _unreadable(path: Path, reason: str) -> FbragError:
    return corrupt(f"could not read the token embeddings of {path.name}: {reason}")
