"""Rows of an earlier run: those of other settings are refused in one line."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.run import Earlier, earlier
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions


def test_rows_with_a_setting_that_is_gone_are_refused_by_its_name() -> None:
    settings = {"method": "fb-rag", "select": 5}
    row = {"settings": {**settings, "fusion": "raw"}, "versions": versions(), "sha256": None, "document": "a.txt", "id": "1"}
    with pytest.raises(
        FbragError, match=r"^out\.jsonl was written with other settings \(fusion \(was raw\) is no longer set\)$"
    ) as refused:
        earlier([row | {"status": "answered", "question": "Who?"}], settings, "out.jsonl")
    assert refused.value.code == "usage"


@pytest.mark.parametrize("sha256", [5, [5], {"a": "b"}, True])
def test_rows_whose_checksum_is_none_are_refused(sha256: object) -> None:
    settings = {"method": "fb-rag"}
    row = {"settings": settings, "versions": versions(), "document": "a.txt", "id": "1", "status": "answered", "question": "Who?"}
    with pytest.raises(FbragError, match="some rows are incomplete"):
        earlier([row | {"sha256": sha256}], settings, "out.jsonl")


@pytest.mark.skipif(not os.path.exists("/proc/kmsg"), reason="a file of Linux that never ends")
def test_a_file_that_never_ends_is_not_waited_for() -> None:
    before = Earlier("out.jsonl", {}, {}, {"/proc/kmsg": ["0"]})
    with suppress(FbragError):  # where it may be read, it is another one now
        before.check_jobs([Job(("/proc/kmsg",), "1", "Who?")])
