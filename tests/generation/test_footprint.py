"""The memory that a context is said to take is what llama.cpp takes, for each architecture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Sampling, Turn
from fbrag_cli.generation.llama import context
from fbrag_cli.generation.llama.context import Context
from fbrag_cli.generation.llama.footprint import bytes_in, context_bytes, most_bytes
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.llama.weights import Loading, Weights
from tests.generation.architectures import ARCHITECTURES


@pytest.fixture(scope="module", params=ARCHITECTURES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ARCHITECTURES[request.param].write(tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf")


@pytest.fixture
def weights(file: Path) -> Iterator[Weights]:
    opened = Weights(file, Loading(threads=1))
    yield opened
    opened.close()


@pytest.mark.parametrize(("n_cells", "n_sequences"), [(512, 1), (6144, 9), (12288, 5)])
def test_it_is_what_llama_cpp_takes(weights: Weights, n_cells: int, n_sequences: int) -> None:
    params = context._parameters(weights, n_cells, n_sequences)
    asked, most = context_bytes(weights, params), most_bytes(weights, params)
    with native_log.collected() as lines:
        Context(weights, n_cells, n_sequences).close()
    taken = bytes_in("".join(lines))
    assert 1 / 1.3 < asked / taken < 1.3
    assert taken <= most
    sizes = [line for line in lines if " size = " in line and "MiB" in line]
    assert any("KV buffer" in line for line in sizes)
    assert any("compute buffer" in line for line in sizes)
    assert any("RS buffer" in line for line in sizes) == ("hybrid" in ARCHITECTURES[Path(weights._name).stem].kind)


def test_a_context_is_refused_where_less_is_free(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number of bytes more or less decides, whatever the layers have."""
    asked = (Turn("user", "x" * 200),)
    with LlamaGenerator(file, Loading(threads=1)) as model:
        need = context_bytes(model._weights, context._parameters(model._weights, 512, 2))
        monkeypatch.setattr(context, "free_memory", lambda: need - 20_000)
        with pytest.raises(FbragError, match="a context of 512 tokens needs") as told:
            model.generate(asked, 2, Sampling(1))
        assert told.value.code == "out_of_memory"
        monkeypatch.setattr(context, "free_memory", lambda: need + 20_000)
        assert model.generate(asked, 2, Sampling(1)).samples
        assert model.generate(asked, 2, Sampling(1)).samples  # of a model with states, without a copy of one


def test_a_request_to_stop_is_met_while_llama_cpp_is_asked(weights: Weights) -> None:
    params = context._parameters(weights, 512, 1)
    assert context_bytes(weights, params)
    weights.cancellation.request(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        context_bytes(weights, params)


def test_calls_run_at_once_as_far_as_half_of_the_free_memory_goes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlamaGenerator(file, Loading(threads=1)) as model:
        model.at_once = 4
        model.generate((Turn("user", "x"),), 1, Sampling(1))
        assert model._prompts.opened.n_cells == 4 * 512
        model._prompts.close()
        sequences = 2 * (5 if model._prompts.has_states else 8) + model._prompts._n_copies
        need = context_bytes(model._weights, context._parameters(model._weights, 2 * 512, sequences))
        monkeypatch.setattr(context, "free_memory", lambda: 2 * need + 100_000)
        model.generate((Turn("user", "x"),), 1, Sampling(1))
        assert model._prompts.opened.n_cells == 2 * 512
