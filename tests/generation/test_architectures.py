"""Every architecture that people run: what a call returns does not depend on what ran before it or beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.generation.generator import Sampling, Turn
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading
from tests.generation.architectures import ARCHITECTURES

LOG = "The keeper wrote in her log that a brig with torn sails had passed at noon and was seen no more. "


def asked(question: str = "What passed?") -> tuple[Turn, ...]:
    return (Turn("user", LOG * 3 + question),)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each architecture."""
    return ARCHITECTURES[request.param].write(tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf")


@pytest.fixture(scope="module")
def model(file: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(file, Loading(threads=1)) as generator:
        yield generator


def test_it_loads_and_draws_samples_that_differ(model: LlamaGenerator) -> None:
    assert model.problems == ()
    drawn = model.generate(asked(), 3, Sampling(16))
    assert len({sample.text for sample in drawn.samples}) == 3
