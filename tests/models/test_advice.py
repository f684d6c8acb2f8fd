"""What a machine is told to take: by its memory and its GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import MappingProxyType

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.main import run
from fbrag_cli.models.advice import Advice, Machine, bytes_needed, is_slow, pair_bytes, pair_text, recommended
from fbrag_cli.models.catalog import Catalog, Pair, load_catalog
from fbrag_cli.models.store import StoredModel
from fbrag_cli.render.model_list import record, table
from fbrag_cli.text.printable import byte_size
from tests.conftest import ROOT
from tests.models.conftest import HUB, HUB_PATH, MODEL, Server, catalog_of

CATALOG = load_catalog()
DEFAULT = ("qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b")
GB = 1024**3


def taken(memory: float, gpu: float = 0, cores: int | None = None) -> tuple[str, str]:
    """The recommended pair for gibibytes of memory, of which a system shows somewhat less."""
    pair = recommended(CATALOG, Machine(round(memory * GB * 0.97), round(gpu * GB * 0.98), cores))
    return pair.small.id, pair.large.id


@pytest.mark.parametrize(
    ("memory", "cores", "expected"),
    [
        (4, 8, DEFAULT),
        (8, 1, DEFAULT),
        (8, 2, ("qwen3.5-4b", "qwen3.5-4b")),
        (16, 2, ("qwen3.5-4b", "qwen3.5-4b")),
        (16, 4, ("qwen3.5-9b", "qwen3.5-9b")),
        (32, 2, ("qwen3.6-35b-a3b", "qwen3.6-35b-a3b")),  # of 35 billion parameters, three read a token
        (512, 64, ("qwen3.6-35b-a3b", "qwen3.6-35b-a3b")),  # 27 billion that all read it are too slow for a CPU
    ],
)
def test_a_pair_for_each_cpu(memory: float, cores: int, expected: tuple[str, str]) -> None:
    assert taken(memory, cores=cores) == expected


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (4, DEFAULT),
        (6, ("qwen3.5-4b", "qwen3.5-4b")),
        (8, ("qwen3.5-9b", "qwen3.5-9b")),
        (12, ("qwen3.5-4b", "qwen3.5-9b")),
        (16, ("qwen3.5-4b", "qwen3.5-9b")),
        (24, ("qwen3.5-4b", "qwen3.8-27b")),
        (48, ("qwen3.6-35b-a3b", "qwen3.8-27b")),
        (80, ("qwen3.6-35b-a3b", "qwen3.8-27b")),
    ],
)
def test_a_pair_for_each_size_of_a_gpu_whatever_the_main_memory_is(gpu: float, expected: tuple[str, str]) -> None:
    assert taken(8, gpu) == taken(512, gpu, 1) == expected


def test_the_layers_of_a_suggested_pair_all_go_on_the_gpu() -> None:
    """As `layers_for_gpu` decides: the weights of the model that is loaded last fit, and 2 GB beside them."""
    for gpu in (6, 8, 12, 16, 24, 48, 80):
        machine = Machine(64 * GB, round(gpu * GB * 0.98))
        pair = recommended(CATALOG, machine)
        before = bytes_needed(pair.small.bytes, pair.small) if len(pair.models) > 1 else 0
        assert machine.gpu_memory - before - 2_000_000_000 >= pair.large.bytes


def test_the_page_on_machines_has_the_pairs_that_are_suggested() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith(("| CPU,", "| GPU,"))
    ]
    assert len(rows) >= 8
    for machine, small, large, download, memory in rows:
        cores = re.findall(r"(\d+) (?:or|cores)", machine.rpartition("GB")[2])
        on_gpu = machine.startswith("GPU")
        sizes = re.findall(r"\d+", machine.rpartition("GB")[0])
        for size, n_cores in product(map(int, sizes), map(int, cores or ["8"])):
            memory_of_cpu, memory_of_gpu = (64, size) if on_gpu else (size, 0)
            pair = recommended(CATALOG, Machine(round(memory_of_cpu * GB * 0.97), round(memory_of_gpu * GB * 0.98), n_cores))
            assert (small, large) == (pair.small.id, pair.large.id), machine
            assert (download, memory) == (byte_size(pair.bytes), byte_size(pair_bytes(pair))), machine


def test_a_pair_that_is_one_model_needs_its_weights_once() -> None:
    entry = CATALOG.models["qwen3.6-35b-a3b"]
    assert pair_bytes(Pair(entry, entry)) == bytes_needed(entry.bytes, entry)
    assert bytes_needed(10**9, None) > 2 * 10**9


def test_memory_counts_the_cells_of_a_prompt_and_the_states_of_sequences() -> None:
    entry = CATALOG.models["qwen3.8-27b"]
    cells, states = 12_000 * 16 * 2 * 4 * 256 * 2, 9 * 48 * (128 * 6144 + 3 * (6144 + 2 * 16 * 128)) * 4
    assert bytes_needed(entry.bytes, entry) == entry.bytes + cells + states + 500_000_000


def test_a_pair_is_slow_by_the_weights_that_read_a_token_on_each_core() -> None:
    small, moe = CATALOG.models["qwen3.5-2b"], CATALOG.models["qwen3.6-35b-a3b"]
    assert (small.active_bytes, moe.active_bytes) == (small.bytes, round(moe.bytes * 3 / 35))
    for cores, most in ((1, 1_490_000_000), (2, 2_990_000_000), (8, 11_900_000_000), (64, 11_900_000_000)):
        machine = Machine(64 * GB, cores=cores)
        assert not is_slow(most, most, machine)
        assert is_slow(most, round(1.1 * most), machine)
    assert not is_slow(10**11, 10**11, Machine(64 * GB, 24 * GB, cores=1))


def test_a_pair_is_described_by_what_it_takes() -> None:
    pair = next(pair for pair in CATALOG.pairs if len(pair.models) == 2)
    said = pair_text(pair)
    assert said.startswith(f"{pair.small.id} (small) + {pair.large.id} (large), {byte_size(pair.bytes)} download, ")
    assert said.endswith(f"{byte_size(pair_bytes(pair))} of memory")


def test_a_model_too_large_for_the_gpu_is_as_slow_as_on_the_cpu() -> None:
    catalog, machine = CATALOG, Machine(64 * GB, 8 * GB, cores=4)
    advice = Advice(machine, recommended(catalog, machine))
    listed = [StoredModel(entry.id, Path(entry.file), entry.bytes, None, entry, "missing") for entry in catalog.models.values()]
    slow = {model.name: record(model, {model.name: ()}, advice)["slow"] for model in listed}
    assert (slow["qwen3.8-27b"], slow["qwen3.5-9b"], slow["qwen3.6-35b-a3b"]) == (True, False, False)
    rows = [line for line in table(listed, dict.fromkeys(slow, ()), advice) if line.startswith("qwen3.8-27b")]
    assert "  CPU, slow  " in rows[0]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, store: Path, environ: dict[str, str]) -> Catalog:
    """This process has a catalog whose one suggestion is a model of the local hub, and a machine that it fits."""
    (entry,) = catalog_of(HUB).models.values()
    default = replace(entry, id="default", file="default.gguf")
    models = MappingProxyType({"default": default, "tiny": entry})
    catalog = Catalog(models, "default", "default", (Pair(entry, entry),))
    for module in ("models.catalog", "cli.models"):
        monkeypatch.setattr(f"fbrag_cli.{module}.load_catalog", lambda: catalog)
    monkeypatch.setattr("fbrag_cli.models.advice.this_machine", lambda: Machine(64 * GB))
    for name, value in (environ | {"FBRAG_MODELS_DIR": str(store)}).items():
        monkeypatch.setenv(name, value)
    return catalog


def test_the_suggested_pair_is_fetched_and_how_to_use_it_is_said(
    tiny: Catalog, store: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.serve_hub()
    assert run(["models", "pull", "--recommended"], Cancellation()) == 0
    assert (store / "tiny.gguf").read_bytes() == MODEL
    assert len(server.gets(HUB_PATH)) == 1
    out, err = capfd.readouterr()
    assert out == f"{store / 'tiny.gguf'}\n"
    assert err.splitlines()[-1] == "hint: fbrag models use recommended"


def test_the_recommended_pair_is_downloaded_and_used(tiny: Catalog, store: Path, server: Server, tmp_path: Path) -> None:
    server.serve_hub()
    config = tmp_path / "config.toml"
    config.touch()
    assert run(["models", "use", "recommended", "--config", str(config)], Cancellation()) == 0
    assert (store / "tiny.gguf").read_bytes() == MODEL
    assert config.read_text() == 'large = "tiny"\nsmall = "tiny"\n'
