"""Models that cannot be used as they were asked for, with real ones of 100 kB."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Scorer
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.placement import Device
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import OpenScorer
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Query
from fbrag_cli.session.models import Models
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.trace import Trace
from fbrag_cli.training.base_encoder import write_gguf
from tests.generation.tiny_gguf import Tiny
from tests.retrieval import minilm


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Tiny().write(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def test_a_model_without_its_adapter_is_not_taken_for_the_one_with_it(tiny: Path) -> None:
    models = Models(ModelSettings(gpu="off", threads=1))
    for _ in range(2):
        with pytest.raises(FbragError, match="could not add"):
            models.load(str(tiny), adapter=tiny)
    assert models.load(str(tiny)).count_tokens("a b")
    models.close()


def test_a_model_that_exceeds_the_gpu_is_refused_each_time_where_all_layers_are_asked_for(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fbrag_cli.generation.llama.machine.gpus", lambda: ())
    models = Models(ModelSettings(gpu="require", threads=1))
    for _ in range(2):
        with pytest.raises(FbragError, match="--gpu require needs all"):
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


def test_closing_stops_a_model_that_loads_ahead(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question failed while the other model was loading: the command ends at once."""
    stopped, never = list[bool](), threading.Event()

    def load(path: Path, loading: Loading, **others: object) -> None:
        assert loading.cancellation
        for _ in range(600):
            if loading.cancellation.requested:
                break
            never.wait(0.1)
        stopped.append(loading.cancellation.requested)
        loading.cancellation.raise_if_requested()
        raise AssertionError("nothing stops it")

    monkeypatch.setattr("fbrag_cli.generation.llama.generator.LlamaGenerator", load)
    models = Models(ModelSettings(gpu="off", threads=1))
    models.begin(str(tiny), "large")
    models.close()
    assert stopped == [True]


def test_a_trained_part_is_loaded_once_and_its_scorer_is_closed_with_the_models(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    labels = ("first", "second", "third")
    head = {"classifier.weight": np.ones((3, 384), np.float32), "classifier.bias": np.zeros(3, np.float32)}
    base = minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2"
    write_gguf(base, tmp_path / "scorer.gguf", pooling=4, window=512, changed=head, labels=labels)
    opened: list[Scorer] = []

    def load(folder: Path, open_scorer: OpenScorer) -> Scorer:
        opened.append(open_scorer(folder / "scorer.gguf"))
        return opened[-1]

    models = Models(ModelSettings(gpu="off", threads=1))
    part = models.part(str(tmp_path), load)
    assert models.part(str(tmp_path), load) is part
    assert (len(opened), part.labels) == (1, labels)
    assert part.scores("Who lit the lamp?", ["The keeper lit it.", ""]).shape == (2, 3)
    assert models.part(str(tmp_path), lambda folder, _: folder.name) == tmp_path.name  # another loader makes another part
    models.close()
    assert models.part(str(tmp_path), load) is not part
    models.close()


def test_a_model_that_was_replaced_by_one_of_its_size_and_time_answers_itself(tmp_path: Path) -> None:
    """`cp -p`, `rsync -t` and `tar x` keep the time of a file."""
    path, document = tmp_path / "own.gguf", tmp_path / "fine.txt"
    document.write_text("The brig sailed at noon.")
    settings = ModelSettings(small=str(path), large=str(path), gpu="off", threads=1)
    cache = Cache(tmp_path / "cache")

    def asked(weights: float) -> Trace:
        other = Tiny(weights=weights).write(tmp_path / "other.gguf")
        os.utime(other, ns=(10**18, 10**18))
        other.replace(path)
        with Session.open(settings, cache) as session:
            return session.ask(Query("Who sailed?", session.collect([str(document)]), FBRag()))

    honest = asked(0.3)
    other = asked(0.5)
    assert not {"samples", "answer"} & set(other.cached)
    assert other.answer != honest.answer
