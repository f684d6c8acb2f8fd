"""A run of many rows, with a stand-in for the model: what it keeps in memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path

from fbrag_cli.batch.jobs import Job, every
from fbrag_cli.batch.run import BatchSettings, rows
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.progress import Listener
from fbrag_cli.session.settings import DocumentSettings
from tests.evaluation.test_runner import Bench

_LONG = 9_900  # characters of a question


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The brig sailed at noon.", "utf-8")
    questions = [Job((), str(i), f"{i} " + "When? " * (_LONG // 6)) for i in range(60)]
    jobs: list[Job] = every([(str(tmp_path / "a.txt"),)], questions)
    settings = BatchSettings(method=Vanilla(select=1), retriever="bm25", reading=DocumentSettings(), at_once=1, models={})
    bench = Bench()
    with bench.session() as session:
        sizes = []
        tracemalloc.start()
        for row in rows(jobs, session, settings, Listener()):
            assert row["status"] == "answered", row["error"]
            bench.models["large"].asked.clear()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    grown = sorted(after - before for before, after in pairwise(sizes[9:]))
    assert sum(grown[:-5]) < 10 * _LONG  # less five jumps: a module that is imported, a table that doubles
