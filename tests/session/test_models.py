"""Models that cannot be used as they were asked for, with real ones of 100 kB."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.machine import Device
from fbrag_cli.progress import Event, Listener
from fbrag_cli.session.models import Models
from fbrag_cli.session.settings import ModelSettings
from tests.generation.tiny_gguf import Tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Tiny().write(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def test_a_model_without_its_adapter_is_not_taken_for_the_one_with_it(tiny: Path) -> None:
    models = Models(ModelSettings(gpu="off", threads=1))
    for _ in range(2):
        with pytest.raises(FbragError, match="cannot add"):
            models.load(str(tiny), tiny)
    assert models.load(str(tiny)).count_tokens("a b")
    models.close()


def test_a_model_that_exceeds_the_gpu_is_refused_each_time_where_all_layers_are_asked_for(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fbrag_cli.generation.llama.machine.gpus", lambda: ())
    models = Models(ModelSettings(gpu="require", threads=1))
    for _ in range(2):
        with pytest.raises(FbragError, match="--gpu require asks for all"):
            models.load(str(tiny))
    models.close()


@pytest.mark.parametrize(("gpu", "n_warnings"), [("auto", 1), ("off", 0)])
def test_a_gpu_on_which_no_layer_fits_makes_a_warning(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, n_warnings: int
) -> None:
    full = Device("CUDA0", "a full GPU", is_gpu=True, free_bytes=0, total_bytes=8_000_000_000)
    monkeypatch.setattr("fbrag_cli.generation.llama.machine.gpus", lambda: (full,))
    events: list[Event] = []
    models = Models(ModelSettings(gpu=gpu, threads=1), Listener(progress=events.append))  # type: ignore[arg-type]
    models.load(str(tiny))
    models.close()
    assert len([event for event in events if event.kind == "warning" and "0 of 2 layers fit" in event.text]) == n_warnings
