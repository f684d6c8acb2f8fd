"""The stages of `fbrag train fusion`, in their order. Each goes on where an earlier run was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fbrag_cli.session.session import Choice
from fbrag_cli.training import fusion_samples as drawing
from fbrag_cli.training.documents import LongMaterial
from fbrag_cli.training.resumed import resumed
from fbrag_cli.training.work import Work

SAMPLES = "samples.jsonl"


@dataclass(frozen=True, kw_only=True)
class FusionTraining(Work):
    """folder: of what is made. choice: the model that draws samples, and the retriever."""

    folder: Path
    material: LongMaterial
    choice: Choice


# -- 1. samples ----------------------------------------------------------------------------------------------------------------


def draw_samples(training: FusionTraining) -> None:
    """Draw the samples that are missing in FOLDER/samples.jsonl."""
    with _samples(training, restart=training.restart) as (file, before):
        questions = training.material.questions
        todo = [each for each in questions if each.key not in before]
        training.note(f"samples: of {len(questions):,} questions, {len(todo):,} of them to draw")
        rows = drawing.samples(todo, training.session, training.choice, training.listener)
        for row in training.counted(rows, "questions", len(questions) - len(todo), len(questions)):
            file.write(row)
            training.session.forget()


def _samples(training: FusionTraining, *, restart: bool = False) -> Any:
    training.session.prepare(drawing.METHOD, training.choice, answering=False)
    model = " ".join(training.model(type(drawing.METHOD), "small", training.choice).values())
    head = drawing.head(model, training.choice.retriever, training.material.sha256)
    return resumed(training.folder / SAMPLES, head, drawing.key_of, restart=restart)


#: In their order, by name.
STAGES: Mapping[str, Callable[[FusionTraining], None]] = {
    "samples": draw_samples,
}
