"""A GGUF file that llama.cpp has loaded, as generators and embedders share it: its vocabulary, and contexts over it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import llama_cpp

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.llama.machine import (
    WHERE_IT_FITS,
    Placement,
    device_list,
    free_memory,
    layers_for_gpu,
    physical_cores,
    repacking_helps,
    version,
)
from fbrag_cli.generation.llama.native_log import native_log


class Weights:
    """path: the file, which is mapped, not read. placement: of its layers. threads: None for the physical cores.

    model, vocab: llama.cpp's. layers_on_gpu: how many there are. Raises FbragError: `model_corrupt` if llama.cpp cannot load the
    file, `out_of_memory` if it would not fit.
    """

    def __init__(
        self,
        path: Path,
        *,
        placement: Placement = WHERE_IT_FITS,
        threads: int | None = None,
        cancellation: Cancellation | None = None,
        verbose: bool = False,
    ) -> None:
        self.model: Any = None
        self.cancellation = cancellation or Cancellation()
        self.threads = threads or physical_cores()
        native_log.verbose = verbose
        self.model = self._load(path, placement)
        self.layers_on_gpu = native_log.layers_on_gpu
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def context(self, params: Any) -> Any:
        """A context by `params`, which gives up when it is cancelled. None where llama.cpp makes none. It goes before `close`."""
        params.n_threads = params.n_threads_batch = self.threads
        params.kv_unified = True
        params.no_perf = True
        self._abort = llama_cpp.ggml_abort_callback(lambda data: self.cancellation.requested)
        params.abort_callback = self._abort
        native_log.clear()
        return llama_cpp.llama_init_from_model(self.model, params)

    def decode(self, context: Any, batch: Any) -> int:
        """llama.cpp's status: 0 where all went well."""
        native_log.clear()
        with self.cancellation.native():
            return int(llama_cpp.llama_decode(context, batch))

    def tokens_of(self, text: str, *, special: bool = False, surrounded: bool = False) -> list[int]:
        """special: whether markers are read as such. surrounded: by what the model wants before and after a text."""
        raw = text.encode("utf-8", "replace")
        size = len(raw) + 8
        buffer = (llama_cpp.llama_token * size)()
        n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), buffer, size, surrounded, special)
        if n < 0:
            buffer = (llama_cpp.llama_token * -n)()
            n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), buffer, -n, surrounded, special)
        return list(buffer[:n])

    def close(self) -> None:
        if self.model is not None:
            llama_cpp.llama_model_free(self.model)
            self.model = None

    def _load(self, path: Path, placement: Placement) -> Any:
        layers = layers_for_gpu(path, placement)
        need, free = path.stat().st_size, free_memory()
        if layers == 0 and need > free:
            raise FbragError(
                "out_of_memory",
                f"{path.name} needs {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free",
                "close other programs, or choose a smaller model (fbrag models list --all)",
            )
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = layers
        if placement.devices is not None:  # without layers there, llama.cpp would still send long batches to a GPU it may use
            on_devices = device_list(placement.devices)
            params.devices = ctypes.cast(on_devices, ctypes.c_void_p)
        if layers and placement.shares:
            shares = (ctypes.c_float * llama_cpp.llama_max_devices())(*placement.shares)
            params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        params.use_extra_bufts = repacking_helps()
        progress = llama_cpp.llama_progress_callback(lambda done, data: not self.cancellation.requested)
        params.progress_callback = progress
        native_log.clear()
        native_log.layers_on_gpu = 0
        with self.cancellation.native():
            model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not model:
            reason = native_log.last_error()
            if "alloc" in reason or "memory" in reason:
                raise FbragError(
                    "out_of_memory",
                    f"{path.name} does not fit: {reason}",
                    "choose a smaller model, or on a GPU fewer layers (--gpu-layers)",
                )
            raise FbragError(
                "model_corrupt",
                f"llama.cpp cannot load {path}: {reason}",
                f"check the file (fbrag models verify), and whether llama-cpp-python {version()} knows this kind of model",
            )
        return model
