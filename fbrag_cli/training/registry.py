"""The trainings, in the order of the help. One line here registers a training."""

from __future__ import annotations

from fbrag_cli.training.fit_rag.training import FitRagTraining
from fbrag_cli.training.r2ag.training import R2agTraining
from fbrag_cli.training.training import Training

TRAININGS: list[type[Training]] = [
    FitRagTraining,
    R2agTraining,
]
