"""The trainings, in the order of the help. One line here registers a training."""

from __future__ import annotations

from fbrag_cli.training.fit_rag.settings import FitRagTraining
from fbrag_cli.training.r2ag.settings import R2agTraining
from fbrag_cli.training.training import Training

#: Settings -> the module whose `train(work, settings)` trains. It is imported then: torch takes seconds.
TRAININGS: dict[type[Training], str] = {
    FitRagTraining: "fbrag_cli.training.fit_rag.stages",
    R2agTraining: "fbrag_cli.training.r2ag.stages",
}
