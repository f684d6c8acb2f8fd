"""`fbrag train r2ag`: its settings, and its checks before the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fbrag_cli.errors import FbragError
from fbrag_cli.settings import knob
from fbrag_cli.training.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class R2agTraining(Training):
    """Trains R2AG. limit: lists per dataset to train on, None for all. list_length: passages per list, None for 5 to 10. rows:
    whether passages have input embeddings. lora: whether to train LoRA. relevance: whether to train only the relevance, by L_QDM,
    without a language model. control: "soft" for rows that depend only on the position
    in the list, "shuffled" for features of other passages in the list. qdm_weight: weight of L_QDM in the loss."""

    name: ClassVar[str] = "r2ag"
    example: ClassVar[str] = "r2ag nq.jsonl.gz 2wikimqa.jsonl.gz -m qwen2.5-coder-0.5b -o r2ag/"
    seed: ClassVar[int] = 0
    first: ClassVar[str] = "--limit --epochs --relevance --lora --retriever"
    help: ClassVar[str] = """
    Train R2AG's input embeddings for a model. It needs the extra train (5.6 GB with CUDA). Without a training,
    --method r2ag uses the part in the package. That works with every model; it did not answer better here than a plain list.

    \b
    Examples:
      fbrag train r2ag nq.jsonl.gz 2wikimqa.jsonl.gz --limit 400 -m qwen2.5-coder-0.5b -o r2ag/
      fbrag train r2ag 2wikimqa.jsonl.gz qmsum.jsonl.gz --relevance --epochs 8 -o relevance/
      fbrag ask book.txt "Who sealed the chronometer box?" --method r2ag --set r2ag=r2ag/ -m qwen2.5-coder-0.5b

    Expect hours without a GPU, and minutes with --relevance. Interrupted runs resume.
    """

    output: str = knob("r2ag", "output folder", path="FOLDER")
    retriever: str = knob("bm25", "bm25, or an embedding model (GGUF file or Hugging Face name)")
    limit: int | None = knob(None, "lists per dataset (plus a quarter as many for checking)", minimum=1)
    list_length: int | None = knob(None, "passages per list", minimum=2, maximum=40)
    epochs: int = knob(2, "how often to read each list", minimum=1)
    relevance: bool = knob(False, "train only the relevance: for every model, without reading one")
    lora: bool = knob(False, "also train LoRA")
    rows: bool = knob(True, "train input embeddings (--no-rows: only LoRA, as RAFT)")
    control: Literal["none", "soft", "shuffled"] = knob(
        "none", "soft: rows with only the position; shuffled: features of other passages"
    )
    without: Literal["none", "relevance", "precedent", "neighbour"] = knob("none", "a feature to drop, for an ablation")
    qdm_weight: float = knob(1.0, "weight of relevance in the loss", minimum=0)

    @property
    def learnt_with(self) -> dict[str, bool | int | float | str]:
        """The settings that affect the weights, for the record. A folder made with other values is trained again."""
        return {
            "rows": self.rows,
            "lora": self.lora,
            "relevance": self.relevance,
            "control": "" if self.control == "none" else self.control,
            "epochs": self.epochs,
            "qdm_weight": self.qdm_weight,
            "seed": self.seed,
        }

    def check(self) -> None:
        if not self.rows and (not self.lora or self.control != "none"):
            raise FbragError("usage", "--no-rows trains only LoRA, without a control", "add --lora, and drop --control")
        if self.relevance and (self.lora or self.control == "soft"):
            raise FbragError(
                "usage", "--relevance trains neither rows nor LoRA", "drop --relevance, or --lora and --control soft"
            )
        Training.check(self)
