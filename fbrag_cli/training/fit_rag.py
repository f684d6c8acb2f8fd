"""The stages of `fbrag train fit-rag`, in their order. Each goes on where an earlier run was stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from fbrag_cli.methods.vanilla import Vanilla
from fbrag_cli.progress import Event, stage
from fbrag_cli.session.session import DEFAULT, Listener, Session
from fbrag_cli.storage.rows import JsonLines, Row, open_rows
from fbrag_cli.text.printable import dumps
from fbrag_cli.training import fit_rag_labels as labelling
from fbrag_cli.training.questions import Material, Question

LABELS = "labels.jsonl"
#: Replies after which the time for the others is said.
_TIMED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What the stages work with. questions: those of the material that are used. note: receives what the user should know."""

    folder: Path
    material: Material
    questions: list[Question]
    session: Session
    listener: Listener
    note: Callable[[str], None]
    restart: bool = False


def make_labels(training: Training) -> list[Row]:
    """Make the replies that are missing in FOLDER/labels.jsonl, and return all rows. Raises FbragError `usage` where the folder
    holds labels of another model or of other data."""
    session, path = training.session, training.folder / LABELS
    session.prepare(Vanilla)
    head = labelling.head(session.identities(Vanilla)["large"], training.material)
    with open_rows(path, JsonLines(labelling.SCHEMA, dumps), restart=training.restart) as file:
        before = labelling.done(file.rows, head, str(path))
        if not file.rows:
            file.write(head)
        tasks = list(labelling.tasks_of(training.material, training.questions))
        todo = [task for task in tasks if task.key not in before]
        training.note(f"labels: {len(tasks):,} replies of {head['model'].split()[0]}, {len(todo):,} of them to make")
        rows = [before[task.key] for task in tasks if task.key in before]
        with stage("train", training.listener.progress):
            started = perf_counter()
            made = labelling.labels(todo, session.large(DEFAULT), training.listener)
            for n, row in enumerate(made, 1):
                file.write(row)
                rows.append(row)
                training.listener.progress(Event("train", "progress", len(rows), len(tasks), "replies"))
                session.forget()
                if n == _TIMED and len(todo) > 4 * _TIMED:
                    seconds = (perf_counter() - started) / n
                    training.note(f"labels: about {hours(seconds * (len(todo) - n))} left, {seconds:.1f} s a reply")
    training.note(labelling.count_pairs(rows).described())
    return rows


def hours(seconds: float) -> str:
    """Return a time in words: "3.2 h", "12 min"."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"
