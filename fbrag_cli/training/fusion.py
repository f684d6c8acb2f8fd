"""The stages of `fbrag train fusion`, in their order. Each goes on where an earlier run was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbrag_cli.errors import FbragError
from fbrag_cli.learned.r2_former import R2AG
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval import Comparing
from fbrag_cli.retrieval.list_features import ALL, comparing
from fbrag_cli.session.session import Choice
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.printable import counted
from fbrag_cli.training import fusion_samples as drawing
from fbrag_cli.training.documents import LongMaterial
from fbrag_cli.training.folder import Folder
from fbrag_cli.training.fusion_lists import AT, MAX_LIST, ChunkList, list_of, mean_recalls
from fbrag_cli.training.resumed import resumed
from fbrag_cli.training.work import Work, enough, languages_of

if TYPE_CHECKING:
    from fbrag_cli.training.fusion_fit import Fitted
    from fbrag_cli.training.r2_former_network import Sizes

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
    model = " ".join(training.model("small", training.choice).values())
    head = drawing.head(model, training.choice.retriever, training.material.sha256)
    return resumed(training.folder / SAMPLES, head, drawing.key_of, restart=restart)


def _drawn(training: FusionTraining) -> dict[drawing.Key, Row]:
    """Return the samples that are there. Raises FbragError `usage` without any."""
    with _samples(training) as (_, before):
        if not before:
            raise FbragError("usage", f"{training.folder} has no samples", "draw them first: --stage samples")
        return dict(before)


# -- 2. fusion -----------------------------------------------------------------------------------------------------------------


def train_fusion(training: FusionTraining) -> None:
    """Train the Transformer and, as its control, a logistic regression. FOLDER has the one with the lower dev loss; both are in
    folders of their own within it."""
    from fbrag_cli.training.fusion_fit import FORMERS, fit

    drawn = _drawn(training)
    lists, retriever = _lists(training, drawn)
    dev = [each for each in lists if each.dev]
    training.note(f"fusion: {counted(len(lists), 'list')}, {len(dev):,} of them for checking")
    made = {name: enough(partial(fit, lists, ALL, sizes)) for name, sizes in FORMERS.items()}
    base = mean_recalls(dev, None)
    recalls = {name: mean_recalls(dev, fitted.scores) for name, fitted in made.items()}
    training.note(_told("weighted sum", base, None))
    best, settings = min(made, key=lambda name: made[name].dev_loss), _settings(training, retriever)
    worth = _worth(lists, FORMERS[best], made[best])
    for name, fitted in made.items():
        training.note(_told(name, recalls[name], fitted.dev_loss))
        report = {
            "data": dict(training.material.sha256),
            "former": name,
            "lists": {"train": len(lists) - len(dev), "dev": len(dev)},
            "losses": fitted.losses,
            "best_epoch": fitted.best,
            "recall": {"weighted sum": base, **recalls},
            **({"worth": worth} if name == best else {}),
        }
        for path in (training.folder / name, *([training.folder] if name == best else [])):
            _put(path, fitted, FORMERS[name], report, settings)
    for name, without in worth.items():
        training.note(f"{best} without {name}: dev loss {without['dev_loss']:+.4f}, recall {_at(without['recall'])}")
    training.note(f"{training.folder} has the {best}")


def _lists(training: FusionTraining, drawn: Mapping[drawing.Key, Row]) -> tuple[list[ChunkList], Comparing]:
    """Return the lists of the questions that have samples, and the retriever of the last of them."""
    asked = [each for each in training.material.questions if each.key in drawn]
    quiet = Listener(cancellation=training.listener.cancellation)
    lists: list[ChunkList] = []
    for question in training.counted(asked, "lists", 0, len(asked)):
        retriever = training.session.retriever(drawing.collected(question.document().text), training.choice, quiet)
        lists.append(list_of(question, drawn[question.key], retriever))
    if not lists:
        raise FbragError("usage", f"{training.folder} has no samples of these questions", "draw them first: --stage samples")
    return lists, comparing(retriever)


def _worth(lists: Sequence[ChunkList], sizes: Sizes, whole: Fitted) -> dict[str, dict[str, Any]]:
    """Return what leaving out each feature, or the place in the list, does to dev loss and recall."""
    from fbrag_cli.training.fusion_fit import fit

    dev = [each for each in lists if each.dev]
    found = {}
    for left_out in (*ALL, "position"):
        names, positions = [name for name in ALL if name != left_out], left_out != "position"
        fitted = fit(lists, names, replace(sizes, positions=positions))
        found[left_out] = {
            "dev_loss": round(fitted.dev_loss - whole.dev_loss, 5),
            "recall": mean_recalls(dev, fitted.scores)["mean"],
        }
    return found


def _settings(training: FusionTraining, retriever: Comparing) -> dict[str, Any]:
    """Return the top-level entries of the record, but for those of a former."""
    return {
        "model": training.model("small", training.choice),
        "retriever": {"name": retriever.name, "key": retriever.key},
        "features": list(ALL),
        "order": "rank",
        "max_list": MAX_LIST,
        "row_scale": 1.0,
        "languages": languages_of([each.text for each in training.material.questions]),
    }


def _put(path: Path, fitted: Fitted, sizes: Sizes, report: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    folder = Folder(path, R2AG)
    folder.put_tensors("", fitted.tensors)
    inputs = {"data": report["data"], "lists": report["lists"]}
    folder.put("fusion", inputs, report, R2AG.tensors, **settings, heads=sizes.heads, layers=sizes.layers)


def _told(name: str, recall: Mapping[str, Sequence[float]], loss: float | None) -> str:
    dev_loss = "" if loss is None else f"dev loss {loss:.4f}, "
    at = " and ".join(map(str, AT))
    by_set = ", ".join(f"{each} {_at(values)}" for each, values in recall.items())
    return f"{name}: {dev_loss}evidence recall at {at}: {by_set}"


def _at(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


#: In their order, by name.
STAGES: Mapping[str, Callable[[FusionTraining], None]] = {
    "samples": draw_samples,
    "fusion": train_fusion,
}
