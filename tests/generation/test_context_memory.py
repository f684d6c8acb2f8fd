"""The memory that a context is said to take is about what llama.cpp takes; what does not fit is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Message, Sampling
from fbrag_cli.generation.llama import context
from fbrag_cli.generation.llama.context import Context, context_bytes
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.machine import native_log
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


def logged(log: str, kind: str) -> float:
    """The bytes of a kind of buffer that llama.cpp's log gives."""
    return sum(float(size) for size in re.findall(kind + r" buffer size = +([\d.]+) MiB", log)) * 2**20


@pytest.mark.parametrize(("n_cells", "n_sequences"), [(512, 1), (6144, 9), (12288, 5)])
def test_keys_values_and_states_are_counted(
    weights: Weights, n_cells: int, n_sequences: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    params = context._parameters(weights, n_cells, n_sequences)
    monkeypatch.setattr(native_log, "verbose", True)
    Context(weights, n_cells, n_sequences).close()
    log = capsys.readouterr().err
    kind = ARCHITECTURES[Path(weights._name).stem].kind
    keys_and_values, states = n_cells * weights.layers.kv_numbers * 2, n_sequences * weights.layers.state_numbers * 4
    rounding = 0.011 * 2**20  # of the log
    if "windows" in kind:
        assert 0.75 * logged(log, "KV") <= keys_and_values <= logged(log, "KV") + rounding
    else:
        assert keys_and_values == pytest.approx(logged(log, "KV"), abs=rounding)
    assert states == pytest.approx(logged(log, "RS"), abs=rounding)
    taken = sum(logged(log, each) for each in ("KV", "RS", "compute", "output"))
    assert keys_and_values + states <= context_bytes(weights, params) < 2 * taken


def test_a_context_is_refused_where_less_is_free(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number of bytes more or less decides, whatever the layers have."""
    asked = (Message("user", "x" * 200),)
    with LlamaGenerator(file, Loading(threads=1)) as model:
        need = context_bytes(model._weights, context._parameters(model._weights, 512, 2))
        monkeypatch.setattr(context, "free_memory", lambda: need - 20_000)
        with pytest.raises(FbragError, match="a context of 512 tokens needs") as told:
            model.generate(asked, 2, Sampling(1))
        assert told.value.code == "out_of_memory"
        monkeypatch.setattr(context, "free_memory", lambda: need + 20_000)
        assert model.generate(asked, 2, Sampling(1)).samples
        assert model.generate(asked, 2, Sampling(1)).samples  # of a model with states, without a copy of one


def test_calls_run_at_once_as_far_as_half_of_the_free_memory_goes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlamaGenerator(file, Loading(threads=1)) as model:
        model.at_once = 4
        model.generate((Message("user", "x"),), 1, Sampling(1))
        assert model._prompts.opened.n_cells == 4 * 512
        model._prompts.close()
        sequences = 2 * (5 if model._prompts.has_states else 8) + model._prompts._n_copies
        need = context_bytes(model._weights, context._parameters(model._weights, 2 * 512, sequences))
        monkeypatch.setattr(context, "free_memory", lambda: 2 * need + 1000)
        model.generate((Message("user", "x"),), 1, Sampling(1))
        assert model._prompts.opened.n_cells == 2 * 512
