"""`fbrag train r2ag`: its settings, and what is checked before the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fbrag_cli.errors import FbragError
from fbrag_cli.settings import knob
from fbrag_cli.training.training import Training, folder, option

if TYPE_CHECKING:
    from fbrag_cli.training.stages import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class R2agTraining(Training):
    """limit: number of lists of each data set to train on, None for all. list_length: passages of each list, None for 5 to 10.
    rows: whether passages have input embeddings. lora: whether the model has LoRA. control: "soft" for rows that know the place
    in the list alone, "shuffled" for features of other passages of the list. qdm_weight: weight of L_QDM in the loss."""

    name: ClassVar[str] = "r2ag"
    example: ClassVar[str] = "r2ag nq.jsonl.gz 2wikimqa.jsonl.gz -m qwen2.5-coder-0.5b -o r2ag/"
    seed: ClassVar[int] = 0
    first: ClassVar[str] = "--limit --epochs --lora --retriever"
    help: ClassVar[str] = """
    Train R2AG's input embeddings for a model, which stays as it is. In the clone: pip install -e '.[train]' (with CUDA 5.6 GB).

    \b
    Examples:
      fbrag train r2ag nq.jsonl.gz 2wikimqa.jsonl.gz --limit 400 -m qwen2.5-coder-0.5b -o r2ag/
      fbrag ask book.txt "Who sealed the chronometer box?" --method r2ag --set r2ag=r2ag/ -m qwen2.5-coder-0.5b

    Without a GPU it takes hours: the model reads each list, and gradients go back through it. A run that was stopped goes on
    where it was.
    """

    output: str = folder("r2ag")
    retriever: str = knob("bm25", "bm25, or an embedding model: a GGUF file, a name of the hub", group="Training", metavar="NAME")
    limit: int | None = option(
        None, "lists of each data set, a quarter as many for checking", varies="all", minimum=1, metavar="N"
    )
    list_length: int | None = option(None, "passages of each list", varies="5 to 10", minimum=2, maximum=40, metavar="N")
    epochs: int = option(2, "times each list is read", minimum=1, metavar="N")
    lora: bool = option(False, "train LoRA of the model as well")
    rows: bool = option(True, "train input embeddings; without them, LoRA alone (RAFT)", varies="", flags=("--rows/--no-rows",))
    control: Literal["none", "soft", "shuffled"] = option(
        "none", "soft: rows know the place alone; shuffled: features of other passages"
    )
    without: Literal["none", "relevance", "precedent", "neighbour"] = option("none", "a feature to leave out, for an ablation")
    qdm_weight: float = option(1.0, "weight of the relevance in the loss", varies="1", minimum=0, metavar="X")

    @property
    def learnt_with(self) -> dict[str, bool | int | float | str]:
        """What the numbers depend on, as the record has it: a folder that was made with other values is made anew."""
        return {
            "rows": self.rows,
            "lora": self.lora,
            "control": "" if self.control == "none" else self.control,
            "epochs": self.epochs,
            "qdm_weight": self.qdm_weight,
            "seed": self.seed,
        }

    def check(self) -> None:
        if not self.rows and (not self.lora or self.control != "none"):
            raise FbragError("usage", "--no-rows trains LoRA alone, without a control", "add --lora, and leave --control out")
        Training.check(self)

    def run(self, work: Work) -> None:
        from fbrag_cli.training.r2ag.stages import R2agWork, train_r2ag

        train_r2ag(R2agWork(**vars(work), settings=self))
