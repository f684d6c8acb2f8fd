"""Where the layers of a model go, on machines whose GPUs are told, not had."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fbrag_cli import limits
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama import machine
from fbrag_cli.generation.llama.gguf_file import opened
from fbrag_cli.generation.placement import ON_THE_CPU, WHERE_IT_FITS, Device, Placement
from fbrag_cli.progress import silent
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.settings import ModelSettings

N_LAYERS = 30
GIGABYTE = 10**9


def layers(monkeypatch: pytest.MonkeyPatch, model: Path, placement: Placement, *free_bytes: float) -> int:
    gpus = tuple(Device(f"CUDA{i}", "a card", True, int(free), 24 * GIGABYTE) for i, free in enumerate(free_bytes))
    monkeypatch.setattr(machine, "gpus", lambda: gpus)
    return machine.layers_for_gpu(model, placement, N_LAYERS)


def test_all_of_it_where_it_fits_and_else_its_share(monkeypatch: pytest.MonkeyPatch, smollm2: Path) -> None:
    size = smollm2.stat().st_size
    kept_free = 2 * GIGABYTE  # for what a prompt needs
    assert layers(monkeypatch, smollm2, WHERE_IT_FITS) == 0
    assert layers(monkeypatch, smollm2, WHERE_IT_FITS, kept_free + size) == -1
    assert layers(monkeypatch, smollm2, WHERE_IT_FITS, kept_free + size / 2) == N_LAYERS // 2
    assert layers(monkeypatch, smollm2, WHERE_IT_FITS, kept_free / 2, kept_free / 2 + size * 0.35) == N_LAYERS // 3
    assert layers(monkeypatch, smollm2, WHERE_IT_FITS, kept_free / 2) == 0


def test_only_the_cards_that_it_may_use_count(monkeypatch: pytest.MonkeyPatch, smollm2: Path) -> None:
    assert layers(monkeypatch, smollm2, Placement(devices=("CUDA1",)), GIGABYTE, 20 * GIGABYTE) == -1
    assert layers(monkeypatch, smollm2, Placement(devices=("CUDA0",)), GIGABYTE, 20 * GIGABYTE) == 0
    assert layers(monkeypatch, smollm2, ON_THE_CPU, 20 * GIGABYTE) == 0


def test_a_number_of_layers_is_taken_at_its_word(monkeypatch: pytest.MonkeyPatch, smollm2: Path) -> None:
    assert layers(monkeypatch, smollm2, Placement(5), GIGABYTE) == 5
    assert layers(monkeypatch, smollm2, Placement(-1), GIGABYTE) == -1
    assert layers(monkeypatch, smollm2, Placement(5)) == 0  # no GPU


def test_a_build_is_known_by_its_libraries_even_if_the_driver_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """llama.cpp names a backend only if its driver loads."""
    (tmp_path / "lib").mkdir()
    for name in ("libggml.so", "libggml-base.so.0", "libggml-cpu.so", "libggml-cuda.so", "libllama.so"):
        (tmp_path / "lib" / name).touch()
    monkeypatch.setattr("llama_cpp.__file__", str(tmp_path / "__init__.py"))
    assert machine.backends() == ("CPU", "CUDA")
    assert machine.gpu_backends() == ("CUDA",)
    monkeypatch.setattr(machine, "gpus", lambda: ())
    with pytest.raises(FbragError, match=r"no GPU found \(llama.cpp was built for CUDA\)") as refused:
        check_gpu(ModelSettings(gpu="require"), ["model.gguf"], silent)
    assert "driver" in str(refused.value.hint)


def test_limits_of_a_container_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine, "physical_cores", lambda: 64)
    free = limits.free_memory()
    assert machine.usable_cores() == 64
    for quota, cores in (("max 100000", 64), ("250000 100000", 2), ("50000 100000", 1), ("9900000 100000", 64)):
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
        assert machine.usable_cores() == cores
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert limits.free_memory() > free / 2
    assert limits.total_memory() > 10_000_000
    (tmp_path / "memory.max").write_text("10000000\n")
    assert limits.free_memory() == 7_000_000
    assert limits.total_memory() == 10_000_000
    (tmp_path / "memory.stat").write_text("anon 1000000\ninactive_file 2000000\n")
    assert limits.free_memory() == 9_000_000


def test_what_llama_cpp_tells_of_devices_stays_off_the_terminal() -> None:
    """A build for a GPU has a line for each when it first looks; here one of its errors stands for them."""
    code = """
import llama_cpp
from fbrag_cli.generation.llama import machine
machine.devices()
llama_cpp.llama_model_load_from_file(b"/there/is/none.gguf", llama_cpp.llama_model_default_params())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_reason_of_a_failure_stays_when_another_model_loads(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF\xff\xff\xff\xff")

    def read() -> None:
        with opened(damaged) as file:
            assert file is None

    with ThreadPoolExecutor(1) as other:
        other.submit(read).result()
        reason = other.submit(machine.native_log.last_error).result()
        machine.native_log.clear()  # another model begins to load, in this thread
        assert machine.native_log.last_error() == "no reason given"
        assert other.submit(machine.native_log.last_error).result() == reason != "no reason given"
