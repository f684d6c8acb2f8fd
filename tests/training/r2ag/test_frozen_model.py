"""The language model in torch: it reads what llama.cpp reads, with input embeddings and with LoRA, and its gradients are
right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import InputEmbeddings, Message
from fbrag_cli.generation.llama.generator import LlamaGenerator
from tests.conftest import needs

WORDS = ("Paris", "London", "the", "French")
WIDTH = 576


def turns(rows: np.ndarray) -> tuple[Message, ...]:
    asked = Message.of("user", ("Near:", InputEmbeddings.of(rows), " it was said.\n\nName the capital of France."))
    return asked, Message("assistant", "The capital of France is")


def test_torch_and_llama_cpp_read_the_same(smollm2: Path, tmp_path: Path) -> None:
    torch = needs("torch")
    from fbrag_cli.training.r2ag.frozen_model import Example, FrozenModel

    random = np.random.default_rng(0)
    rows = (0.117 * random.normal(size=(3, WIDTH))).astype(np.float32)
    model = FrozenModel(smollm2, lora=True)

    def expected(tokens: list[int], generator: LlamaGenerator) -> list[float]:
        """The probability that the reply begins with each of the words, by torch."""
        example = Example(tuple(max(-1, token) for token in tokens), (0,))
        with torch.no_grad():
            found = torch.softmax(model.logits(example, torch.from_numpy(rows))[0], 0)
        spellings = [{f"{lead}{form}" for lead in ("", " ") for form in (w.lower(), w.capitalize(), w.upper())} for w in WORDS]
        return [float(sum(found[t] for t in {generator.tokenize_reply(s)[0] for s in each})) for each in spellings]

    # 1. Foreign rows among a prompt's tokens.
    with LlamaGenerator(smollm2) as generator:
        plain = generator.choice_probabilities(turns(rows), WORDS)
        assert plain[0] > 0.2
        tokens = generator.tokenize(turns(rows))
        assert np.abs(np.subtract(plain, expected(tokens, generator))).sum() < 0.05

    # 2. LoRA, after it has been trained to something.
    with torch.no_grad():
        for name, each in model.parameters.items():
            if "lora_B" in name:
                each.copy_(torch.from_numpy(0.3 * random.normal(size=tuple(each.shape))))
    path = model.write_lora(tmp_path / "lora.gguf")
    with LlamaGenerator(smollm2) as generator:
        generator.add_adapter(path)
        tuned = generator.choice_probabilities(turns(rows), WORDS)
        assert np.abs(np.subtract(tuned, plain)).sum() > 0.1
        assert np.abs(np.subtract(tuned, expected(tokens, generator))).sum() < 0.05
        reply = tuple(generator.tokenize_reply("Paris"))

    # 3. The slope of the loss along a direction, without LoRA.
    example = Example(tuple(max(-1, token) for token in tokens), reply)
    direction = torch.from_numpy(random.normal(size=rows.shape).astype(np.float32))
    inserted = torch.from_numpy(rows).requires_grad_(True)
    with model.untrained():
        model.loss(example, inserted).backward()
        assert inserted.grad is not None
        slope, step = float((inserted.grad * direction).sum()), 1e-3
        with torch.no_grad():
            above, below = (float(model.loss(example, inserted + sign * step * direction)) for sign in (1, -1))
    if model.computes_exactly:
        assert slope == pytest.approx((above - below) / (2 * step), rel=0.05, abs=0.02)


def test_what_is_no_language_model_is_refused(tmp_path: Path) -> None:
    needs("torch")
    from fbrag_cli.training.r2ag.frozen_model import FrozenModel

    (tmp_path / "none.gguf").write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(FbragError, match="transformers could not load") as refused:
        FrozenModel(tmp_path / "none.gguf")
    assert refused.value.code == "model_corrupt"
