"""The R2-Former's folder: what is read from it, what is refused, and what its numbers mean."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.relevance.former import R2AG, R2Former, load, shapes
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.dense import Dense
from fbrag_cli.storage.files import sha256_of

FEATURES = ["relevance", "precedent", "neighbour"]
TENSORS = "r2ag.safetensors"
MODEL = {"name": "m", "sha256": "1" * 64}


def write(folder: Path, *, n_embd: int = 0, **changed: Any) -> Path:
    """Write a folder as `fbrag train r2ag` does: 3 features, width 8, 2 heads, feed-forward 12, lists of up to 6 chunks."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    sizes = shapes(len(FEATURES), 8, 6, 12, n_embd)
    tensors = {name: (0.4 * random.normal(size=shape)).astype(np.float32) for name, shape in sizes.items()}
    tensors["feature.std"] = np.abs(tensors["feature.std"]) + 1
    save_file(tensors, folder / TENSORS)
    about = {
        "format": "fbrag.r2ag/1",
        "retriever": {"name": "bm25", "key": BM25.key},
        "features": FEATURES,
        "max_list": 6,
        "heads": 2,
        "model": MODEL,
        "words": "0",
        "row_scale": 0.03,
        "languages": ["en"],
        "files": {TENSORS: sha256_of(folder / TENSORS)},
    }
    (folder / "r2ag.json").write_text(json.dumps(about | changed))
    return folder


def some_features(n: int) -> NDArray[np.float32]:
    return np.random.default_rng(n).normal(size=(n, len(FEATURES))).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_a_folder_is_read_and_gives_probabilities(tmp_path: Path, n: int) -> None:
    former = load(write(tmp_path / "made"))
    found = former.relevance(some_features(n))
    assert found.shape == (n,)
    assert found.dtype == np.float32
    assert (found > 0).all()
    assert (found < 1).all()
    assert former.languages == ("en",)


def test_a_chunk_counts_for_the_others(tmp_path: Path) -> None:
    x = some_features(4)
    changed = x.copy()
    changed[3] += 1
    attending = load(write(tmp_path / "made"))
    assert np.abs(attending.relevance(changed) - attending.relevance(x))[:3].min() > 1e-5


def test_rows_are_projected_and_scaled(tmp_path: Path) -> None:
    folder = write(tmp_path / "made", n_embd=5)
    named, former, x = load_file(folder / TENSORS), load(folder), some_features(4)
    expected = 0.03 * (former.encoded(x) @ named["projection.weight"].T + named["projection.bias"])
    np.testing.assert_allclose(former.rows(x), expected, atol=1e-6)
    with pytest.raises(ValueError, match="no projection"):
        load(write(tmp_path / "plain")).rows(x)


def test_a_list_that_is_too_long_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="6 are the most"):
        load(write(tmp_path / "made")).relevance(some_features(7))


# -- what is refused ---------------------------------------------------------------------------------------------------------


def rehashed(folder: Path, change: Callable[[dict[str, NDArray[Any]]], object] | None = None, data: bytes | None = None) -> None:
    """Change the tensors, or write other bytes, and let the record name the file as it is now."""
    path = folder / TENSORS
    if change:
        tensors = dict(load_file(path))
        change(tensors)
        save_file(tensors, path)
    if data is not None:
        path.write_bytes(data)
    about = json.loads((folder / "r2ag.json").read_text())
    about["files"] = {TENSORS: sha256_of(path)}
    (folder / "r2ag.json").write_text(json.dumps(about))


def put(name: str, *shape: int, value: float = 1) -> Callable[[Path], None]:
    return lambda folder: rehashed(folder, lambda tensors: tensors.update({name: np.full(shape, value, np.float32)}))


def header_of_a_megabyte(folder: Path) -> None:
    header = b"{" + b" " * 1_000_000 + b"}"
    rehashed(folder, data=len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: (folder / "r2ag.json").unlink(), "has no trained components of R2AG"),
        (lambda folder: (folder / "r2ag.json").write_text("{"), "not JSON"),
        (lambda folder: (folder / TENSORS).unlink(), "cannot be read"),
        (lambda folder: (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes()[:-1]), "its SHA-256 is"),
        (lambda folder: rehashed(folder, data=pickle.dumps({"position": [1.0]})), "not a safetensors file"),
        (header_of_a_megabyte, "its header exceeds 1 MB"),
        (put("feature.mean", 3, value=np.nan), "invalid \\(NaN\\)"),
        (put("match.bias", 1, value=np.inf), "invalid \\(NaN\\)"),
        (lambda folder: rehashed(folder, lambda tensors: tensors.pop("norm2.bias")), "lacks the tensors norm2.bias"),
        (put("norm3.bias", 8), "has the tensors 'norm3.bias'"),
        (put("projection.bias", 8), "has the tensors 'projection.bias'"),
        (put("position", 5, 8), r"position has the shape \(5, 8\) in place of \(6, 8\)"),
        (put("input.weight", 8, 4), "input.weight has the shape"),
        (put("match.weight", 2, 8), "match.weight has the shape"),
        (put("input.weight"), "input.weight has the shape"),
        (put("feature.std", 3, value=0), "no spread"),
    ],
)
def test_what_was_changed_is_refused(tmp_path: Path, spoil: Callable[[Path], object], told: str) -> None:
    folder = write(tmp_path / "made")
    spoil(folder)
    with pytest.raises(FbragError, match=told):
        load(folder)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"format": "fbrag.r2ag/2"}, "its format is not fbrag.r2ag/1"),
        ({"features": ["relevance", "forward", "neighbour"]}, "cannot make the features 'forward'"),
        ({"features": ["relevance", "neighbour", "neighbour"]}, "lacks what it should name"),
        ({"features": FEATURES[:2]}, "feature.mean has the shape"),
        ({"features": "relevance"}, "lacks what it should name"),
        ({"retriever": {"name": "bm25"}}, "lacks what it should name"),
        ({"files": {"../r2ag.safetensors": "0"}}, "lacks what it should name"),
        ({"files": {TENSORS: "0", "weights.pt": "0"}}, "lacks what it should name"),
        ({"max_list": "6"}, "lacks what it should name"),
        ({"max_list": 7}, "position has the shape"),
        ({"heads": 3}, "width 8 cannot be shared by 3 heads"),
        ({"heads": 0}, "lacks what it should name"),
        ({"row_scale": None}, "lacks what it should name"),
        ({"row_scale": float("nan")}, "lacks what it should name"),
        ({"languages": "en"}, "lacks what it should name"),
        ({"words": "0", "model": {"name": "m"}}, "lacks what it should name"),
        ({"words": 1}, "lacks what it should name"),
        ({"model": None}, "lacks what it should name"),
        ({"control": None}, "lacks what it should name"),
    ],
)
def test_another_record_is_refused(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(FbragError, match=told) as error:
        load(write(tmp_path / "made", **changed))
    assert error.value.code == "model_corrupt"


def _as_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10**11)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("harm", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero"), _as_sparse])
@pytest.mark.parametrize("name", ["r2ag.json", TENSORS])
def test_a_file_without_end_is_refused_at_once(tmp_path: Path, name: str, harm: Callable[[Path], object]) -> None:
    folder = write(tmp_path / "made")
    (folder / name).unlink()
    harm(folder / name)
    begun = process_time()
    with pytest.raises(FbragError, match="cannot be read") as refused:
        load(folder)
    assert (refused.value.code, process_time() - begun < 10) == ("model_missing", True)
    assert R2AG.described(str(folder))


def _with(folder: Path, **tensors: NDArray[Any]) -> Path:
    """Put tensors in the place of others, and name the file as it is now."""
    save_file({**load_file(folder / TENSORS), **tensors}, folder / TENSORS)
    about = json.loads((folder / "r2ag.json").read_text())
    (folder / "r2ag.json").write_text(json.dumps(about | {"files": {TENSORS: sha256_of(folder / TENSORS)}}))
    return folder


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: write(folder, n_embd=5, row_scale=1e308),
        lambda folder: write(folder, n_embd=5, row_scale=10**400),
        lambda folder: write(folder, n_embd=5, row_scale=True),
        lambda folder: write(folder, n_embd=5, heads=True),
        lambda folder: write(folder, n_embd=5, max_list=True),
        lambda folder: _with(write(folder, n_embd=5, row_scale=1e9), **{"projection.bias": np.full(5, 3e38, np.float32)}),
        lambda folder: _with(write(folder, n_embd=5), **{"feature.std": np.full(3, 1e-45, np.float32)}),
        lambda folder: _with(write(folder, n_embd=5), **{"input.weight": np.full((8, 3), 1e300)}),
    ],
)
def test_numbers_that_no_row_can_hold_are_a_corrupt_model(tmp_path: Path, spoil: Callable[[Path], Path]) -> None:
    def used() -> None:
        former = load(spoil(tmp_path / "made"))
        former.relevance(some_features(4))
        former.rows(some_features(4))

    with pytest.raises(FbragError) as refused:
        used()
    assert refused.value.code == "model_corrupt"


def test_parts_name_their_language_model_and_its_adapter(tmp_path: Path) -> None:
    made = write(tmp_path / "rows", control="soft", n_embd=5)
    assert (load(made).model, load(made).words, load(made).control, load(made).adapter) == (MODEL, "0", "soft", None)
    (made / "lora.gguf").write_bytes(b"GGUF")
    about = json.loads((made / "r2ag.json").read_text())
    about["files"]["lora.gguf"] = sha256_of(made / "lora.gguf")
    (made / "r2ag.json").write_text(json.dumps(about))
    assert load(made).adapter == made / "lora.gguf"
    (made / "lora.gguf").write_bytes(b"GGU")
    with pytest.raises(FbragError, match=r"lora\.gguf cannot be used: its SHA-256 is"):
        load(made)


def test_parts_without_a_language_model_have_neither_rows_nor_an_adapter(tmp_path: Path) -> None:
    def without_model(made: Path, **changed: Any) -> Path:
        about = json.loads((made / "r2ag.json").read_text()) | changed
        del about["model"], about["words"]
        (made / "r2ag.json").write_text(json.dumps(about))
        return made

    alone = load(without_model(write(tmp_path / "alone")))
    assert (alone.model, alone.words, alone.makes_rows) == (None, "", False)
    rows = without_model(write(tmp_path / "rows", n_embd=5))
    lora = write(tmp_path / "lora")
    (lora / "lora.gguf").write_bytes(b"GGUF")
    files = {TENSORS: sha256_of(lora / TENSORS), "lora.gguf": sha256_of(lora / "lora.gguf")}
    for made in (rows, without_model(lora, files=files)):
        with pytest.raises(FbragError, match=r"r2ag\.json does not name the language model") as refused:
            load(made)
        assert refused.value.code == "model_corrupt"


class Embedding:
    name, key = "mine", "f00d"

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        return np.ones((len(texts), 1), np.float32)


def test_another_retriever_is_refused(tmp_path: Path) -> None:
    former: R2Former = load(write(tmp_path / "made"))
    with pytest.raises(FbragError, match="are for the retriever bm25, and this is dense:mine") as error:
        former.check(Dense(Embedding(), np.ones((1, 1), np.float32)))
    assert error.value.code == "usage"
    with pytest.raises(FbragError, match=r"keys bm25 1\.2 .* and f00d"):
        load(write(tmp_path / "other", retriever={"name": "dense:mine", "key": "bm25 1.2 0.5"})).check(
            Dense(Embedding(), np.ones((1, 1), np.float32))
        )
