"""`fbrag train fit-rag`: its settings, and its checks before the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fbrag_cli.settings import knob
from fbrag_cli.training.training import Training

if TYPE_CHECKING:
    from fbrag_cli.training.rows import Material


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRagTraining(Training):
    """Trains FIT-RAG. limit: questions per dataset for the scorer, None for all."""

    name: ClassVar[str] = "fit-rag"
    example: ClassVar[str] = "fit-rag nq.jsonl.gz 2wikimqa.jsonl.gz --limit 400 -o fit-rag/"
    first: ClassVar[str] = "--stage --limit --base"
    is_parallel: ClassVar[bool] = True
    help: ClassVar[str] = """
    Train FIT-RAG's scorer, detector and recognizer. It needs the extra train (5.6 GB with CUDA).

    \b
    Examples:
      fbrag train fit-rag nq.jsonl.gz --limit 400 -o fit-rag/ -m qwen2.5-coder-1.5b
      fbrag ask book.txt "Who sealed the chronometer box?" --method fit-rag --set fit-rag=fit-rag/

    Labeling takes longest: the model answers each question once per passage. Interrupted runs resume.
    """

    output: str = knob("fit-rag", "output folder", path="FOLDER")
    stage: Literal["all", "labels", "scorer", "detector", "recognizer"] = knob("all", "stage to run")
    limit: int | None = knob(
        None,
        "questions per dataset for the scorer (plus as many for the detector, and a quarter as many for checking)",
        minimum=1,
    )
    base: str | None = knob(None, "folder of a BERT encoder", path="FOLDER")

    def check(self) -> None:
        if self.stage not in ("labels", "recognizer"):
            Training.check(self)

    def check_rows(self, material: Material) -> None:
        from fbrag_cli.training.fit_rag.labels import check_questions, split_questions

        check_questions(self.stage, *split_questions(material.questions, self.limit))
