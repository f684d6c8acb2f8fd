"""The folder of FIT-RAG's trained parts: what is read from it, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import save_file

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Scorer
from fbrag_cli.methods.fit_rag.parts import LABELS, Detector, FitRagParts, Recognizer, load
from fbrag_cli.storage.files import sha256_of

RECOGNIZER = {"k": 7, "delta": 1.5, "told": 0.04, "known": 0.5}
LAYERS = [(4, 20), (1, 4)]


def write(folder: Path, shapes: list[tuple[int, int]] = LAYERS, **changed: Any) -> Path:
    """Write a folder as `fbrag train fit-rag` does; the scorer is not opened here."""
    folder.mkdir(exist_ok=True)
    (folder / "scorer.gguf").write_bytes(b"GGUF of a scorer")
    random = np.random.default_rng(0)
    tensors = {}
    for i, shape in enumerate(shapes):
        tensors[f"detector.{i}.weight"] = random.normal(size=shape).astype(np.float32)
        tensors[f"detector.{i}.bias"] = random.normal(size=shape[0]).astype(np.float32)
    save_file(tensors, folder / "fit-rag.safetensors")
    about = {
        "format": "fbrag.fit-rag/1",
        "model": {"name": "taught", "sha256": "1" * 64},
        "languages": ["en"],
        "detector": {"threshold": 0.4},
        "files": {name: sha256_of(folder / name) for name in ("scorer.gguf", "fit-rag.safetensors")},
    }
    (folder / "fit-rag.json").write_text(json.dumps(about | changed))
    return folder


def opened(folder: Path, labels: tuple[str, ...] = LABELS) -> FitRagParts:
    def labelled(path: Path) -> Scorer:
        assert path.name == "scorer.gguf"
        return cast("Scorer", SimpleNamespace(labels=labels))

    return load(folder, labelled)


def test_a_folder_is_read(tmp_path: Path) -> None:
    parts = opened(write(tmp_path / "made"))
    assert parts.model["name"] == "taught"
    assert parts.detector is not None
    assert parts.detector.threshold == 0.4
    assert 0 < parts.detector.probability(np.full((3, 2), 0.5, np.float32)) < 1


def test_a_folder_without_a_detector_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "made")
    about = json.loads((folder / "fit-rag.json").read_text())
    del about["files"]["fit-rag.safetensors"], about["detector"]
    (folder / "fit-rag.json").write_text(json.dumps(about))
    assert opened(folder).detector is None


@pytest.mark.parametrize("labels", [(), LABELS[:1], (*LABELS, "third"), LABELS[::-1]])
def test_a_scorer_of_other_labels_is_refused(tmp_path: Path, labels: tuple[str, ...]) -> None:
    with pytest.raises(FbragError, match="not has_answer and llm_prefer") as refused:
        opened(write(tmp_path / "made"), labels)
    assert refused.value.code == "model_corrupt"


def truncated(folder: Path) -> None:
    path = folder / "fit-rag.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def rehashed(folder: Path) -> None:
    """Let the record name the files as they are now."""
    about = json.loads((folder / "fit-rag.json").read_text())
    about["files"] = {name: sha256_of(folder / name) for name in about["files"]}
    (folder / "fit-rag.json").write_text(json.dumps(about))


def a_pickle(folder: Path) -> None:
    (folder / "fit-rag.safetensors").write_bytes(pickle.dumps({"detector.0.weight": [1.0]}))
    rehashed(folder)


def not_a_number(folder: Path) -> None:
    save_file({"detector.0.weight": np.full((1, 20), np.nan, np.float32)}, folder / "fit-rag.safetensors")
    rehashed(folder)


def another_scorer(folder: Path) -> None:
    (folder / "scorer.gguf").write_bytes(b"GGUF of another scorer")


def huge(folder: Path) -> None:
    (folder / "fit-rag.json").write_text(" " * 1_100_000)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (truncated, "its SHA-256 is"),
        (a_pickle, "not a safetensors file"),
        (not_a_number, "invalid \\(NaN\\)"),
        (another_scorer, "scorer.gguf cannot be used: its SHA-256 is"),
        (huge, "cannot be read"),
        (lambda folder: (folder / "fit-rag.json").write_text("{"), "not JSON"),
        (lambda folder: (folder / "fit-rag.json").unlink(), "has no trained components"),
        (lambda folder: (folder / "scorer.gguf").unlink(), "cannot be read"),
    ],
)
def test_what_was_changed_is_refused(tmp_path: Path, spoil: Callable[[Path], object], told: str) -> None:
    folder = write(tmp_path / "made")
    spoil(folder)
    with pytest.raises(FbragError, match=told):
        opened(folder)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "fbrag.fit-rag/2"},
        {"files": {"../scorer.gguf": "0"}},
        {"files": {"scorer.gguf": "0", "weights.pt": "0"}},
        {"model": "taught"},
        {"languages": "en"},
        {"detector": {"threshold": "high"}},
        {"detector": {"threshold": float("nan")}},
        {"detector": None},
        {"recognizer": RECOGNIZER | {"k": 7.5}},
        {"recognizer": RECOGNIZER | {"k": 0}},
        {"recognizer": RECOGNIZER | {"known": float("nan")}},
        {"recognizer": RECOGNIZER | {"delta": 10**400}},
        {"recognizer": RECOGNIZER | {"told": True}},
        {"recognizer": RECOGNIZER | {"k": True}},
        {"detector": {"threshold": 10**400}},
    ],
)
def test_another_record_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(FbragError, match=r"its format is not|lacks what it should name") as error:
        opened(write(tmp_path / "made", **changed))
    assert error.value.code == "model_corrupt"


@pytest.mark.parametrize("shapes", [[(4, 19), (1, 4)], [(4, 20), (1, 5)], [(4, 20), (2, 4)], []])
def test_a_network_of_another_shape_is_refused(tmp_path: Path, shapes: list[tuple[int, int]]) -> None:
    folder = write(tmp_path / "made", shapes)
    with pytest.raises(FbragError, match="the detector of FIT-RAG cannot be used"):
        opened(folder)


def _as_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10**11)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("harm", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero"), _as_sparse])
@pytest.mark.parametrize("name", ["fit-rag.json", "fit-rag.safetensors", "scorer.gguf"])
def test_a_file_without_end_is_refused_at_once(tmp_path: Path, name: str, harm: Callable[[Path], object]) -> None:
    folder = write(tmp_path / "made")
    (folder / name).unlink()
    harm(folder / name)
    begun = process_time()
    with pytest.raises(FbragError, match="cannot be read") as refused:
        opened(folder)
    assert (refused.value.code, process_time() - begun < 10) == ("model_missing", True)


@pytest.mark.filterwarnings("error")
def test_numbers_that_overflow_are_a_corrupt_model() -> None:
    layers = [
        (np.full((2, 20), 3e38, np.float32), np.zeros(2, np.float32)),
        (np.array([[1, -1]], np.float32), np.zeros(1, np.float32)),
    ]
    with pytest.raises(FbragError, match="too large") as refused:
        Detector(layers, 0.5).probability(np.ones((10, 2), np.float32))
    assert refused.value.code == "model_corrupt"


@pytest.mark.filterwarnings("error")
def test_a_recognizer_of_another_width_is_a_corrupt_model() -> None:
    tensors = {"recognizer.embeddings": np.full((3, 4), 3e38, np.float32), "recognizer.right": np.array([1e9, 0, -5])}
    recognizer = Recognizer.of(tensors, RECOGNIZER | {"delta": -1e300})
    assert recognizer.told_share(np.ones(3, np.float32)) == 1
    assert recognizer.known_share(np.ones(4, np.float32)) == pytest.approx(1 / 3)
    with pytest.raises(FbragError, match="questions of 4 numbers, and the scorer makes 5") as refused:
        recognizer.known_share(np.ones(5, np.float32))
    assert refused.value.code == "model_corrupt"


def test_the_network_computes_what_its_layers_say() -> None:
    first = np.zeros((2, 20), np.float32)
    first[0, 0], first[1, 3] = 1, -1  # the answer of the first window, less the preference of the second
    detector = Detector([(first, np.zeros(2, np.float32)), (np.array([[2, 5]], np.float32), np.array([-1], np.float32))], 0.5)
    found = detector.probability(np.array([[0.5, 0.1], [0.2, 0.7]], np.float32))
    assert found == pytest.approx(1 / (1 + np.exp(-(2 * 0.5 + 5 * 0 - 1))))
