"""The data of the catalogue holds together."""

from __future__ import annotations

import re

from fbrag_cli.models.advice import pair_bytes
from fbrag_cli.models.catalogue import load_catalogue
from fbrag_cli.models.hub import HubSource
from fbrag_cli.models.wheels import WheelSource


def test_every_model_can_be_had_and_checked() -> None:
    catalogue = load_catalogue()
    assert {catalogue.default_small, catalogue.default_large} <= catalogue.models.keys()
    for name, entry in catalogue.models.items():
        assert name == entry.id == entry.id.casefold()
        assert entry.file.endswith(".gguf")
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert entry.sources
    files = [entry.file for entry in catalogue.models.values()]
    assert len(set(files)) == len(files)


def test_pairs_need_more_and_more_memory_and_their_kv_cells_are_known() -> None:
    catalogue = load_catalogue()
    needs = [pair_bytes(pair) for pair in (catalogue.default, *catalogue.pairs)]
    assert needs == sorted(needs)
    assert all(entry.kv_bytes for entry in catalogue.models.values())


def test_the_wheels_of_a_model_add_up_to_it() -> None:
    catalogue = load_catalogue()
    from_index = {entry.id for entry in catalogue.models.values() if any(isinstance(each, WheelSource) for each in entry.sources)}
    assert from_index == {"smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}
    for name in from_index:
        entry = catalogue.models[name]
        (wheels,) = (source for source in entry.sources if isinstance(source, WheelSource))
        assert sum(part.bytes for part in wheels.parts) == entry.bytes
        assert len({part.wheel for part in wheels.parts}) == len(wheels.parts)


def test_every_hub_file_is_pinned_to_a_commit() -> None:
    sources = [source for entry in load_catalogue().models.values() for source in entry.sources]
    for hub in (source for source in sources if isinstance(source, HubSource)):
        assert re.fullmatch("[0-9a-f]{40}", hub.revision), hub


def test_a_model_is_found_by_its_name_in_any_case_and_by_its_file() -> None:
    catalogue = load_catalogue()
    smollm2 = catalogue.models["smollm2-135m"]
    assert catalogue.find("SmolLM2-135M") is smollm2
    assert catalogue.find("SmolLM2-135M-Instruct.Q4_1.gguf") is smollm2
    assert catalogue.find("smollm2") is None
