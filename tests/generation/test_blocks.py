"""Chunks that are read on their own and kept: by the 135M model, whose answers are not the point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.cache import Cache
from fbrag_cli.generation import Generations, Sampling
from fbrag_cli.generation.block_states import KIND, BlockStates
from fbrag_cli.generation.llama import LlamaGenerator
from fbrag_cli.prompts import Turn, forward_turns

CHUNKS = (
    "The Garefowl was a barque of four hundred tons, built at Osterwick.",
    "The keeper of the light at Marrow Head was called Bosun Hale, and he had a cat.",
    "Nobody had wound the chronometer since the second of March.",
)
GREEDY = Sampling(16, temperature=0)


@pytest.fixture
def model(smollm2: Path, tmp_path: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(smollm2) as loaded:
        loaded.block_states = BlockStates(Cache(tmp_path / "cache"), "smollm2")
        yield loaded


def asked(model: LlamaGenerator, chunks: tuple[str, ...], question: str = "Where was she built?", n: int = 1) -> Generations:
    return model.generate(model.prompt(forward_turns(chunks, question, apart=True)), n, GREEDY)


def exact(model: LlamaGenerator, chunks: tuple[str, ...]) -> Generations:
    return model.generate(model.prompt(forward_turns(chunks, "Where was she built?")), 1, GREEDY)


def first_token(model: LlamaGenerator, chunk: str, *, apart: bool) -> NDArray[np.float32]:
    """How probable each token is as the reply's first; with another chunk they differed by 0.24."""
    model.generate(model.prompt(forward_turns((chunk,), "Where was she built?", apart=apart)), 1, Sampling(1))
    weights = np.exp(model._sequences.logits(-1))
    return weights / weights.sum()


@pytest.mark.parametrize("chunk", CHUNKS)
def test_one_block_is_read_as_it_would_be_anyway(model: LlamaGenerator, chunk: str) -> None:
    """It sees all that stands before it, and the end sees it: nothing is approximate yet."""
    apart, whole = asked(model, (chunk,)), exact(model, (chunk,))
    assert apart.samples[0].text.split()[:6] == whole.samples[0].text.split()[:6]  # the rest is the same through rounding
    assert apart.prompt_tokens == pytest.approx(whole.prompt_tokens, abs=2)  # tokens are not joined across its ends
    assert np.abs(first_token(model, chunk, apart=True) - first_token(model, chunk, apart=False)).sum() / 2 < 0.1


def test_what_was_read_once_is_not_read_again(model: LlamaGenerator, smollm2: Path, tmp_path: Path) -> None:
    first = asked(model, CHUNKS)
    assert first.cached_tokens == 0
    with LlamaGenerator(smollm2) as other:  # a later process
        other.block_states = BlockStates(Cache(tmp_path / "cache"), "smollm2")
        again = asked(other, CHUNKS)
        assert again.samples == first.samples
        n_chunks = sum(other.count_tokens(f"{chunk}\n\n") for chunk in CHUNKS)
        assert again.cached_tokens == n_chunks
        turned = asked(other, (CHUNKS[2], CHUNKS[0]), "Who wound it?", n=3)  # other places, another question, more samples
        assert turned.cached_tokens > other.count_tokens(CHUNKS[2]) + other.count_tokens(CHUNKS[0])
        assert turned.samples[0].text.strip()
        assert len({sample.text for sample in turned.samples}) == 1  # greedy
    assert len(list((tmp_path / "cache" / KIND).iterdir())) == len(CHUNKS)


def test_other_models_and_beginnings_have_their_own(model: LlamaGenerator, tmp_path: Path) -> None:
    asked(model, CHUNKS)
    model.block_states = BlockStates(Cache(tmp_path / "cache"), "another")
    assert asked(model, CHUNKS).cached_tokens < 50  # the beginning alone
    model.block_states = BlockStates(Cache(tmp_path / "cache"), "smollm2")
    chunk = f"{CHUNKS[0]}\n\n"
    begun = model.prompt([Turn("user", f"Read this first.\n\n{chunk}Where was she built?", (chunk,))])
    kept = len(list((tmp_path / "cache" / KIND).iterdir()))
    model.generate(begun, 1, GREEDY)
    assert len(list((tmp_path / "cache" / KIND).iterdir())) == kept + 1


def test_an_exact_reading_after_it_is_exact(model: LlamaGenerator, smollm2: Path) -> None:
    asked(model, CHUNKS)
    after = exact(model, CHUNKS)
    with LlamaGenerator(smollm2) as fresh:
        assert after.samples == exact(fresh, CHUNKS).samples
    assert after.cached_tokens < 50


def test_a_damaged_state_is_made_again(model: LlamaGenerator, tmp_path: Path) -> None:
    first = asked(model, CHUNKS)
    for path in (tmp_path / "cache" / KIND).iterdir():
        path.write_bytes(path.read_bytes()[:1000])
    assert asked(model, CHUNKS).samples == first.samples
    assert asked(model, CHUNKS).cached_tokens > 0
