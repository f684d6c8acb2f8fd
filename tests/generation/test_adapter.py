"""LoRA that is added to a model, with the real 135M model."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Message, Sampling
from fbrag_cli.generation.llama.generator import LlamaGenerator

ASKED = (Message("user", "Name the capital of France."),)
N_LAYERS, WIDTH, KEYS = 30, 576, 192


def write(path: Path, scale: float, width: int = WIDTH) -> Path:
    """LoRA on query and value, of rank 4. scale: of the second matrices."""
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 8.0)
    for block in range(N_LAYERS):
        for name, n_outputs in (("attn_q", width), ("attn_v", KEYS)):
            a, b = 0.1 * random.normal(size=(4, width)), scale * random.normal(size=(n_outputs, 4))
            writer.add_tensor(f"blk.{block}.{name}.weight.lora_a", a.astype(np.float32))
            writer.add_tensor(f"blk.{block}.{name}.weight.lora_b", b.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def reply(model: Path, adapter: Path | None) -> tuple[str, tuple[float, ...]]:
    with LlamaGenerator(model) as generator:
        if adapter:
            generator.add_adapter(adapter)
        sample = generator.generate(ASKED, 1, Sampling(8, temperature=0)).samples[0]
        return sample.text, generator.choice_probabilities(ASKED, ("the", "Paris"))


def test_it_counts_and_a_zero_changes_nothing(smollm2: Path, tmp_path: Path) -> None:
    plain = reply(smollm2, None)
    assert reply(smollm2, write(tmp_path / "zero.gguf", 0.0)) == plain
    assert reply(smollm2, write(tmp_path / "some.gguf", 0.3)) != plain


def test_what_is_no_adapter_of_the_model_is_refused(smollm2: Path, tmp_path: Path) -> None:
    for path in (smollm2, tmp_path / "missing.gguf", write(tmp_path / "narrow.gguf", 0.3, width=64)):
        with pytest.raises(FbragError, match=f"cannot add {path}") as refused:
            reply(smollm2, path)
        assert refused.value.code == "model_corrupt"
