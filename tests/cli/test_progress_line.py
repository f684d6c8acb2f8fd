from __future__ import annotations

import os
import re
import sys
import threading

import pytest

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import Preview, progress_line
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.progress import Event
from fbrag_cli.query import Query
from tests.test_corpus import document


def test_the_bar_of_a_stage_ends_with_it_below_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("fbrag_cli.cli.live.SHOW_AFTER_SECONDS", 0)
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        before = threading.enumerate()
        with progress_line(Console()) as line:
            line.preview = Preview(Query("Who?", collect_text(document("The cook was ill. " * 20, "ship.txt"), 60), Vanilla()))
            line(Event("embed", "start"))
            line(Event("embed", "progress", 16, 64))
            (drawing,) = [thread for thread in threading.enumerate() if thread not in before]  # rich draws the bar
            line(Event("embed", "done"))
            drawing.join(5)
            assert not drawing.is_alive()
    os.close(master)


def test_a_log_shows_that_a_long_run_is_alive(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each minute, without a terminal."""
    monkeypatch.setattr("fbrag_cli.cli.live._LOGGED_EVERY", 0.01)
    said = ""
    with progress_line(Console()) as line:
        for done in (0, 3, 5):
            line(Event("batch", "progress", done, 10, "rows"))
        while "5 of 10" not in said:
            said += capsys.readouterr().err
        assert re.search(r"(?m)^batch: 5 of 10 rows, about 1 min left$", said)
