"""Which model goes where, by the options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fbrag_cli.generation.generator import ModelInfo
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.placement import Placement
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.progress import silent
from fbrag_cli.query import ModelNames, Query, Role
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import NOWHERE


class Recorded:
    """A generator of which only the placement is looked at."""

    placements: ClassVar[dict[str, Placement]]
    n_loaded: ClassVar[int]
    choice_probabilities = None

    def __init__(self, path: Path, loading: Loading, **others: Any) -> None:
        assert loading.name
        self.placements[loading.name] = loading.placement
        type(self).n_loaded += 1
        self.path, self.problems = path, ()
        self.info = ModelInfo(loading.name, None, "9/9", 512)

    def close(self) -> None:
        pass


@pytest.fixture
def placements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Placement]:
    for name in ("small", "large"):
        (tmp_path / f"{name}.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("FBRAG_MODELS_DIR", str(tmp_path))
    Recorded.placements, Recorded.n_loaded = {}, 0
    monkeypatch.setattr("fbrag_cli.generation.llama.generator.LlamaGenerator", Recorded)
    return Recorded.placements


def load(settings: ModelSettings, *roles: Role, small: str = "small", large: str = "large") -> None:
    with Session.open(replace(settings, small=small, large=large), NOWHERE) as session:
        for role in roles:
            assert session.model(role).info


def test_each_model_has_its_cards_and_the_layers_are_the_large_ones(placements: dict[str, Placement]) -> None:
    load(ModelSettings(gpu_layers="5", device="CUDA0, CUDA1", tensor_split="3,1"), "small", "large")
    assert placements == {"small": Placement(None, ("CUDA0", "CUDA1")), "large": Placement(5, ("CUDA0", "CUDA1"), (3.0, 1.0))}


@pytest.mark.parametrize("large", ["large", "large.gguf", "{folder}/./large.gguf", "{folder}/linked.gguf"])
def test_one_file_for_both_goes_where_the_large_model_goes_and_is_loaded_once(
    placements: dict[str, Placement], tmp_path: Path, large: str
) -> None:
    """Whichever name it has, and although the small model is needed first: a conversation rewrites its question with it."""
    (tmp_path / "linked.gguf").symlink_to(tmp_path / "large.gguf")
    load(
        ModelSettings(gpu_layers="all", tensor_split="3,1"), "small", "large", small="large", large=large.format(folder=tmp_path)
    )
    assert list(placements.values()) == [Placement(-1, None, (3.0, 1.0))]
    assert Recorded.n_loaded == 1


def test_one_file_for_both_is_read_first_as_the_default_pair_is(placements: dict[str, Placement], tmp_path: Path) -> None:
    """Stage III begins with what Stage II has read only if one model does both."""
    settings = ModelSettings(small="large", large=str(tmp_path / "large.gguf"))
    with Session.open(settings, NOWHERE) as session:
        document = tmp_path / "fine.txt"
        document.write_text("The brig sailed at noon.")
        query = Query("Who sailed?", session.collect([str(document)]), FBRag())
        assert session.resolved(query).method == FBRag()
        assert session.resolved(replace(query, models=ModelNames(small="small"))).method != FBRag()


def test_a_small_model_alone_has_no_layers_of_a_large_one(placements: dict[str, Placement]) -> None:
    load(ModelSettings(gpu_layers="5", device="CUDA1"), "small")
    assert placements == {"small": Placement(None, ("CUDA1",))}


def test_off_leaves_no_card_to_either(placements: dict[str, Placement]) -> None:
    load(ModelSettings(gpu="off", gpu_layers="5", device="CUDA1"), "small", "large")
    assert [each.devices for each in placements.values()] == [(), ()]


def test_a_server_elsewhere_counts_as_a_gpu_and_one_here_as_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fbrag_cli.generation.llama.machine.gpus", lambda: ())
    monkeypatch.setattr("fbrag_cli.generation.build.has_nvidia", lambda environ: False)
    here, elsewhere = "http://localhost:8080/v1", "http://gpu-box:8000/v1"
    for models, on_gpu in (((elsewhere, elsewhere), True), ((here, elsewhere), False), (("small", elsewhere), False)):
        assert check_gpu(ModelSettings(), models, silent) is on_gpu
    monkeypatch.setattr("fbrag_cli.generation.build.has_nvidia", lambda environ: True)
    assert check_gpu(ModelSettings(), (here, here), silent)
