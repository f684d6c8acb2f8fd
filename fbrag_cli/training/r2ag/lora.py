"""LoRA as a GGUF file, which llama.cpp adds to a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.storage.files import whole_file


def write_lora(tensors: Mapping[str, NDArray[np.float32]], path: Path, *, architecture: str, n_heads: int, alpha: float) -> Path:
    """Write LoRA's matrices to `path`, whole or not at all. Return `path`.

    tensors: by llama.cpp's names: "blk.N.attn_q.weight.lora_a" (rank, n_inputs) and "….lora_b" (n_outputs, rank).
    architecture: name of the model's architecture in llama.cpp. n_heads: number of its attention heads. Raises OSError.
    """
    with whole_file(path) as unfinished:
        writer = gguf.GGUFWriter(unfinished, architecture)
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
        for name in sorted(tensors, key=lambda name: (int(name.split(".")[1]), name)):
            turned = architecture == "llama" and name.endswith("attn_q.weight.lora_b")
            writer.add_tensor(name, _turned(tensors[name], n_heads) if turned else np.ascontiguousarray(tensors[name]))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return path


def _turned(matrix: NDArray[Any], n_heads: int) -> NDArray[Any]:
    """Return the rows in llama.cpp's order for its architecture "llama", which rotates neighbours and not halves."""
    rows = matrix.reshape(n_heads, 2, len(matrix) // n_heads // 2, -1).swapaxes(1, 2)
    return np.ascontiguousarray(rows.reshape(matrix.shape))
