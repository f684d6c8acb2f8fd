"""A folder of trained parts while it is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.parts import PartsFormat
from fbrag_cli.training.training import Folder

KIND, FILE = PartsFormat("Somebody", "fbrag.parts/1", "parts.json", "parts.safetensors"), "scorer.gguf"


@pytest.mark.parametrize("record", ["[]", "null", "no JSON", "[" * 100_000])
def test_a_record_that_is_none_is_refused(tmp_path: Path, record: str) -> None:
    (tmp_path / KIND.record).write_text(record)
    with pytest.raises(FbragError, match=r"parts\.json") as refused:
        Folder(tmp_path, KIND)
    assert refused.value.code == "usage"


def test_what_cannot_be_written_is_an_error_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = Folder(tmp_path, KIND)
    folder.path = tmp_path / "file"  # as if it had been replaced since
    for write in (lambda: folder.put_tensors("", {}), lambda: folder.put("scorer", {}, {}), lambda: folder.drop("scorer")):
        with pytest.raises(FbragError, match="cannot be written") as refused:
            write()
        assert refused.value.code == "output"


def test_a_stage_that_is_dropped_takes_its_tensors_along(tmp_path: Path) -> None:
    folder = Folder(tmp_path, KIND)
    (tmp_path / FILE).write_bytes(b"old")
    folder.put("scorer", {}, {}, FILE, model={})
    folder.put_tensors("detector.", {"detector.0.bias": np.ones(1)})
    folder.put("detector", {}, {}, KIND.tensors, detector={"threshold": 0.5})
    folder.drop("detector")
    folder.put("scorer", {"new": 1}, {}, FILE)
    about = Folder(tmp_path, KIND).about
    assert (about["files"].keys(), about["training"].keys(), "detector" in about) == ({FILE}, {"scorer"}, False)
    assert not (tmp_path / KIND.tensors).exists()
