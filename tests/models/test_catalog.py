"""The data of the catalog holds together."""

from __future__ import annotations

import re

from fbrag_cli.models.advice import pair_bytes
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.hub import HubSource
from fbrag_cli.models.wheels import WheelSource


def test_every_model_can_be_had_and_checked() -> None:
    catalog = load_catalog()
    assert {catalog.default_small, catalog.default_large} <= catalog.models.keys()
    for name, entry in catalog.models.items():
        assert name == entry.id == entry.id.casefold()
        assert entry.file.endswith(".gguf")
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert entry.sources
    files = [entry.file for entry in catalog.models.values()]
    assert len(set(files)) == len(files)


def test_pairs_need_more_and_more_memory_and_their_kv_cells_are_known() -> None:
    catalog = load_catalog()
    needs = [pair_bytes(pair) for pair in (catalog.default, *catalog.pairs)]
    assert needs == sorted(needs)
    assert all(entry.kv_bytes for entry in catalog.models.values())


def test_hybrids_have_cells_in_every_fourth_layer_and_a_state_in_the_others() -> None:
    """As llama.cpp counts them (`n_embd_k_gqa`, `n_embd_r`, `n_embd_s`): a key and a value of 256 numbers of 16 bits a head; in
    the other layers a state of 128 numbers of 32 bits a channel, and the last three inputs of their convolution."""
    layers = {  # layers, heads of keys and values, channels
        "qwen3.5-2b": (24, 2, 2048),
        "qwen3.5-4b": (32, 4, 4096),
        "qwen3.5-9b": (32, 4, 4096),
        "qwen3.6-35b-a3b": (40, 2, 4096),
        "qwen3.8-27b": (64, 4, 6144),
    }
    models = load_catalog().models
    assert {name for name, entry in models.items() if entry.state_bytes} == layers.keys()
    for name, (n_layers, heads, channels) in layers.items():
        assert models[name].kv_bytes == n_layers // 4 * heads * 256 * 2 * 2
        assert models[name].state_bytes == n_layers // 4 * 3 * (128 * channels + 3 * (channels + 2 * 16 * 128)) * 4


def test_a_replaced_model_names_one_of_today_and_is_in_no_pair() -> None:
    catalog = load_catalog()
    replaced = {entry.id: entry.replaced_by for entry in catalog.models.values() if entry.replaced_by}
    assert replaced
    assert all(not catalog.models[newer].replaced_by for newer in replaced.values())
    assert not any(entry.replaced_by for pair in (catalog.default, *catalog.pairs) for entry in pair.models)


def test_the_wheels_of_a_model_add_up_to_it() -> None:
    catalog = load_catalog()
    from_index = {entry.id for entry in catalog.models.values() if any(isinstance(each, WheelSource) for each in entry.sources)}
    assert from_index == {"smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}
    for name in from_index:
        entry = catalog.models[name]
        (wheels,) = (source for source in entry.sources if isinstance(source, WheelSource))
        assert sum(part.bytes for part in wheels.parts) == entry.bytes
        assert len({part.wheel for part in wheels.parts}) == len(wheels.parts)


def test_every_hub_file_is_pinned_to_a_commit() -> None:
    sources = [source for entry in load_catalog().models.values() for source in entry.sources]
    for hub in (source for source in sources if isinstance(source, HubSource)):
        assert re.fullmatch("[0-9a-f]{40}", hub.revision), hub


def test_a_model_is_found_by_its_name_in_any_case_and_by_its_file() -> None:
    catalog = load_catalog()
    smollm2 = catalog.models["smollm2-135m"]
    assert catalog.find("SmolLM2-135M") is smollm2
    assert catalog.find("SmolLM2-135M-Instruct.Q4_1.gguf") is smollm2
    assert catalog.find("smollm2") is None
