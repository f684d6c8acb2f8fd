"""What a machine is told to take: by its memory and its GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.main import run
from fbrag_cli.models.advice import Machine, bytes_needed, described, first_run, pair_bytes, suggested
from fbrag_cli.models.catalogue import Catalogue, Pair, load_catalogue
from tests.conftest import ROOT
from tests.models.conftest import HUB, HUB_PATH, MODEL, Server, catalogue_of

CATALOGUE = load_catalogue()
DEFAULT = ("qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b")
GB = 1024**3


def taken(memory: float, gpu: float = 0) -> tuple[str, str]:
    pair = suggested(CATALOGUE, Machine(round(memory * GB * 0.97), round(gpu * GB * 0.98)))  # a system shows somewhat less
    return pair.small.id, pair.large.id


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (4, DEFAULT),
        (8, ("qwen2.5-coder-1.5b", "qwen3-4b-2507")),
        (16, ("qwen3-4b-2507", "qwen3-8b")),
        (24, ("qwen3-30b-a3b-2507", "qwen3-30b-a3b-2507")),
        (128, ("qwen3-30b-a3b-2507", "qwen3-30b-a3b-2507")),  # 70 billion weights are nothing for a CPU
    ],
)
def test_a_pair_for_each_size_of_main_memory(memory: float, expected: tuple[str, str]) -> None:
    assert taken(memory) == expected


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (4, DEFAULT),
        (8, ("qwen2.5-coder-1.5b", "qwen3-4b-2507")),
        (16, ("qwen3-4b-2507", "qwen3-8b")),
        (24, ("qwen3-30b-a3b-2507", "qwen3-30b-a3b-2507")),
        (80, ("llama-3.1-8b", "llama-3.1-70b")),
    ],
)
def test_a_pair_for_each_size_of_a_gpu_whatever_the_main_memory_is(gpu: float, expected: tuple[str, str]) -> None:
    assert taken(64, gpu) == expected


@pytest.mark.parametrize(
    ("cores", "large"), [(1, "qwen2.5-coder-1.5b"), (2, "qwen3-4b-2507"), (4, "qwen3-8b"), (16, "qwen3-30b-a3b-2507")]
)
def test_few_cores_are_not_told_to_take_what_they_cannot_read(cores: int, large: str) -> None:
    assert suggested(CATALOGUE, Machine(64 * GB, cores=cores)).large.id == large
    assert suggested(CATALOGUE, Machine(64 * GB, 80 * GB, cores)).large.id == "llama-3.1-70b"


def test_the_first_run_asks_one_question_of_what_was_measured() -> None:
    question, larger = first_run(["qwen2.5-coder-1.5b"], CATALOGUE, Machine(8 * GB, cores=2))
    assert question == (
        "first run: download the default model (1.1 GB, some 40 s a question on 2 cores, 26 of 74 hard questions right)?"
    )
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert "It answered 26 of 74 hard questions rightly" in readme
    assert larger == "this machine has room for qwen3-4b-2507 (3.6 GB) too: fbrag models pull --suggested"
    assert first_run(["qwen2.5-coder-1.5b"], CATALOGUE, Machine(4 * GB, cores=2))[1] == ""
    assert first_run(["smollm2-135m"], CATALOGUE, Machine(8 * GB)) == ("first run: download smollm2-135m (98 MB)?", "")


def test_a_pair_that_is_one_model_needs_its_weights_once() -> None:
    entry = CATALOGUE.models["qwen3-30b-a3b-2507"]
    assert pair_bytes(Pair(entry, entry)) == bytes_needed(entry.bytes, entry)
    assert bytes_needed(entry.bytes, entry) > entry.bytes + 10_000 * entry.kv_bytes
    assert bytes_needed(10**9, None) > 2 * 10**9


def test_seconds_are_said_where_they_were_measured() -> None:
    cpu, gpu = Machine(16 * GB), Machine(16 * GB, 16 * GB)
    assert described(CATALOGUE.default, CATALOGUE, cpu).endswith("some 40 s a question on 2 cores")
    assert described(CATALOGUE.default, CATALOGUE, gpu).endswith("of memory")
    assert described(suggested(CATALOGUE, cpu), CATALOGUE, cpu).endswith("of memory")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, store: Path, environ: dict[str, str]) -> Catalogue:
    """This process has a catalogue whose one suggestion is a model of the local hub, and a machine that it fits."""
    (entry,) = catalogue_of(HUB).models.values()
    default = replace(entry, id="default", file="default.gguf")
    models = MappingProxyType({"default": default, "tiny": entry})
    catalogue = Catalogue(models, "default", "default", (Pair(entry, entry),))
    monkeypatch.setattr("fbrag_cli.models.catalogue.load_catalogue", lambda: catalogue)
    monkeypatch.setattr("fbrag_cli.models.advice.this_machine", lambda: Machine(64 * GB))
    for name, value in (environ | {"FBRAG_MODELS_DIR": str(store)}).items():
        monkeypatch.setenv(name, value)
    return catalogue


def test_the_suggested_pair_is_fetched_and_how_to_use_it_is_said(
    tiny: Catalogue, store: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.serve_hub()
    assert run(["models", "pull", "--suggested"], Cancellation()) == 0
    assert (store / "tiny.gguf").read_bytes() == MODEL
    assert len(server.gets(HUB_PATH)) == 1
    out, err = capfd.readouterr()
    assert out == f"{store / 'tiny.gguf'}\n"
    assert err.splitlines()[-2:] == [f"hint: fbrag config set models.{role} tiny" for role in ("small", "large")]


@pytest.mark.skipif(os.name == "nt", reason="no pseudo terminals")
def test_the_first_run_offers_it_beside_the_default(store: Path, tmp_path: Path, clean_environment: dict[str, str]) -> None:
    import pty

    (tmp_path / "note.txt").write_text("The keeper is Agnes Moor.")
    code = (
        "from fbrag_cli.models import advice\n"
        f"advice.this_machine = lambda: advice.Machine({16 * GB})\n"
        "from fbrag_cli.cli.main import main\n"
        "main()"
    )
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "ask", "note.txt", "Who?", "--gpu", "off"],
        env=clean_environment | {"FBRAG_MODELS_DIR": str(store), "PYTHONPATH": str(Path.cwd())},
        cwd=tmp_path,
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
    )
    os.close(side)
    said = b""
    while not said.endswith(b"[Y/n] "):
        said += os.read(terminal, 1024)
    os.write(terminal, b"n\n")
    process.communicate(timeout=60)
    os.close(terminal)
    assert b"download the default model (1.1 GB, some 40 s a question on 2 cores, 26 of 74 hard questions right)? [Y/n]" in said
    assert b"this machine has room for qwen3-4b-2507 and qwen3-8b (7.5 GB) too: fbrag models pull --suggested" in said
    assert said.count(b"\n") == 1  # one line before the question
    assert process.returncode == 4
