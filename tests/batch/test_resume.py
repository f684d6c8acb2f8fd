"""Rows of an earlier run: those of other settings are refused in one line."""

from __future__ import annotations

import pytest

from fbrag_cli.batch.resume import earlier
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions


def test_rows_with_a_setting_that_is_gone_are_refused_by_its_name() -> None:
    settings = {"method": "fb-rag", "select": 5}
    row = {"settings": {**settings, "fusion": "raw"}, "versions": versions(), "sha256": None, "document": "a.txt", "id": "1"}
    with pytest.raises(FbragError, match=r"^out\.jsonl holds rows of other settings: fusion \(raw\) is gone$") as refused:
        earlier([row | {"status": "answered", "question": "Who?"}], settings, "out.jsonl")
    assert refused.value.code == "usage"
