"""The stages of `fbrag train fit-rag`, in order. Each resumes an earlier run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions
from fbrag_cli.generation.llama.encoder import LlamaScorer
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.methods.fit_rag.parts import FIT_RAG, SCORER, Detector, FitRagParts
from fbrag_cli.methods.parts import read_tensors
from fbrag_cli.session.questions import how_many_pay
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.storage.paths import models_dir
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.printable import dumps, plural
from fbrag_cli.training.base_encoder import fetch, read_base
from fbrag_cli.training.fit_rag import combinations as combining
from fbrag_cli.training.fit_rag import detector as fit_rag_detector
from fbrag_cli.training.fit_rag import labels as labelling
from fbrag_cli.training.fit_rag import recognizer as fit_rag_recognizer
from fbrag_cli.training.fit_rag.settings import FitRagTraining
from fbrag_cli.training.rows import GoldQuestion, Pool
from fbrag_cli.training.training import Folder, Work, languages_of

LABELS, COMBINATIONS = "labels.jsonl", "combinations.jsonl"


@dataclass(frozen=True, kw_only=True)
class FitRagWork(Work):
    """The inputs of FIT-RAG's stages."""

    settings: FitRagTraining

    @cached_property
    def folder(self) -> Folder:
        """The output folder of the stages."""
        return Folder(self.path, FIT_RAG)

    @cached_property
    def questions(self) -> tuple[list[GoldQuestion], list[GoldQuestion]]:
        """The questions for the scorer and for the detector."""
        return labelling.split_questions(self.material.questions, self.settings.limit)

    @cached_property
    def pool(self) -> Pool:
        """The passages, ready for retrieval."""
        return Pool(self.material)


# -- 1. labels -----------------------------------------------------------------------------------------------------------------


def make_labels(work: FitRagWork) -> None:
    """Add the missing replies to FOLDER/labels.jsonl."""
    with _labels(work, restart=work.restart) as (file, before):
        trials = list(labelling.trials_of(work.pool, *work.questions))
        todo = [trial for trial in labelling.by_passage(trials) if trial.key not in before]
        work.note(f"labels: {len(trials):,} replies, {len(todo):,} still to make")
        labels = [before[trial.key] for trial in trials if trial.key in before]
        at_once = how_many_pay(work.session, Vanilla()) if work.at_once is None else work.at_once
        work.session.run_at_once(at_once)
        rows = labelling.labels(todo, work.session.model("large"), work.listener, at_once)
        for row in work.progress(rows, "replies", len(labels), len(trials)):
            file.write(row)
            labels.append(row)
            work.session.forget()
    work.note(f"labels: {labelling.described(labelling.count_pairs(labels))}")


def _labels(work: FitRagWork, *, restart: bool = False) -> Any:
    work.session.prepare(Vanilla())
    head = labelling.head(" ".join(work.language_model.values()), work.material)
    return work.folder.rows(LABELS, head, labelling.key_of, restart=restart)


def _made_labels(work: FitRagWork) -> dict[labelling.TrialKey, Row]:
    """Return the existing labels. Raises FbragError `usage` if there are none."""
    with _labels(work) as (_, before):
        known = {each.key for each in work.material.questions}
        if not (labels := {key: row for key, row in before.items() if key[:2] in known}):
            raise FbragError("usage", f"no labels in {work.folder.path}", "make them first: --stage labels")
        return labels


# -- 2. scorer -----------------------------------------------------------------------------------------------------------------


def make_scorer(work: FitRagWork) -> None:
    """Train the scorer on the labels, and write FOLDER/scorer.gguf."""
    from fbrag_cli.training.fit_rag.scorer import CHECKPOINT, train_scorer

    folder = work.folder
    pairs = labelling.pairs_of(work.questions[0], work.pool, _made_labels(work).values())
    named = work.settings.base
    base = read_base(Path(named) if named else fetch(models_dir(), work.listener.progress, os.environ))
    inputs = {"pairs": _digest(pairs), "base": base.sha256}
    if work.is_made(folder, "scorer", inputs, folder.path / CHECKPOINT):
        return
    work.note(f"scorer: {plural(len(pairs), 'pair')}")
    trained = train_scorer(pairs, base, folder.path, progress=work.listener.progress)
    report = {
        "data": dict(work.material.sha256),
        "labels": trained.labels,
        "epochs": [asdict(epoch) for epoch in trained.epochs],
        "best": trained.best,
        "w": [round(w, 3) for w in trained.weights],
        "llama_difference": trained.llama_difference,
    }
    if folder.about.get("files", {}).get(SCORER) != sha256_of(folder.path / SCORER):
        folder.drop("detector", "recognizer")  # trained on the logits of the previous scorer
    folder.put("scorer", inputs, report, SCORER, model=work.language_model, languages=languages_of([pair.text for pair in pairs]))
    (folder.path / CHECKPOINT).unlink(missing_ok=True)
    work.note(f"scorer: epoch {trained.best}, {trained.dev.described()}, w {trained.weights[-1]:.2f}")


def _digest(records: Iterable[Any]) -> str:
    return sha256("".join(map(repr, records)).encode("utf-8", "surrogatepass")).hexdigest()


# -- 3. detector ---------------------------------------------------------------------------------------------------------------


def make_detector(work: FitRagWork) -> None:
    """Make replies from combinations of windows, and train the detector on them."""
    folder, rows = work.folder, _make_combinations(work)
    inputs = {"combinations": _digest(map(dumps, rows)), "scorer": sha256_of(folder.path / SCORER)}
    try:
        fitted = fit_rag_detector.fit(rows)
    except ValueError as error:
        raise FbragError("usage", str(error), "add rows, or raise --limit") from None
    folder.put_tensors("detector.", fitted.tensors)
    folder.put("detector", inputs, fitted.report, FIT_RAG.tensors, detector={"threshold": fitted.threshold})
    search = fitted.report["search"]
    work.note(
        f"detector: {search['mean_windows']:.1f} windows at {fitted.threshold}, accuracy {search['accuracy']:.1f} "
        f"({search['accuracy_paper']:.1f} at the paper's {fit_rag_detector.PAPERS}, {search['accuracy_whole']:.1f} from all), "
        f"on {plural(int(search['questions']), 'question')} that did not choose it"
    )


def _combinations(work: FitRagWork, *, making: bool = False) -> Any:
    """Open FOLDER/combinations.jsonl. making: whether to start over if its rows come from another scorer.

    Raises FbragError `usage` without a scorer, and without `making` if the rows come from another scorer.
    """
    if not (scorer := work.folder.path / SCORER).exists():
        raise FbragError("usage", f"no scorer in {work.folder.path}", "train it first: --stage scorer")
    head = {"schema": combining.SCHEMA, "kind": "run", "model": work.language_model, "scorer": sha256_of(scorer)}
    before = work.folder.head_of(COMBINATIONS)
    is_of_another = before.get("scorer") != head["scorer"] and before == {**head, "scorer": before.get("scorer")}
    if is_of_another and not making:
        raise FbragError(
            "usage", f"{work.folder.path / COMBINATIONS} was made with another scorer", "make it again: --stage detector"
        )
    if is_of_another:
        work.note("combinations: starting over, because the scorer has changed")
    return work.folder.rows(COMBINATIONS, head, combining.key_of, restart=making and (work.restart or is_of_another))


def _make_combinations(work: FitRagWork) -> list[Row]:
    """Add the missing replies to FOLDER/combinations.jsonl. Return the rows of the questions for the detector."""
    kept = _combinations(work, making=True)
    right_alone = {key[:2]: row["right"] for key, row in _made_labels(work).items() if not key[2]}
    questions = {each.key: each for each in work.questions[1] if each.group and each.key in right_alone}
    with kept as (file, before), closing(LlamaScorer(work.folder.path / SCORER)) as scorer:
        parts = FitRagParts(scorer=scorer, detector=None, model=work.language_model, languages=())
        large, options = work.session.model("large"), CallOptions(cancellation=work.listener.cancellation)
        last = {key[0]: key[:2] for key in before}.values()  # the last question of each dataset, which may lack combinations
        whole = {key[:2] for key in before}.difference(last)
        todo = [questions[key] for key in questions if key not in whole]
        work.note(f"combinations: {plural(len(questions), 'question')}, {len(todo):,} still to do")
        for question in work.progress(todo, "questions", len(questions) - len(todo), len(questions)):
            case = combining.case_of(question, work.pool, parts, large)
            for row in combining.rows_of(case, parts, large, before, options, right_alone=right_alone[question.key]):
                if combining.key_of(row) not in before:
                    file.write(row)
                    before[combining.key_of(row)] = row
            work.session.forget()
        return combining.telling(row for key, row in before.items() if key[:2] in questions)


# -- 4. recognizer -------------------------------------------------------------------------------------------------------------


def make_recognizer(work: FitRagWork) -> None:
    """Collect the questions whose answers the model knows, and choose the thresholds."""
    folder, labels = work.folder, _made_labels(work)
    questions = {each.key: each for each in work.material.questions}
    alone = {key[:2]: bool(row["right"]) for key, row in labels.items() if not key[2]}
    known = [key for key in alone if not questions[key].dev]
    with _combinations(work) as (_, rows):
        checked = {key[:2]: row for key, row in rows.items() if "candidates" in row and key[:2] in alone}
        retrieved: dict[tuple[str, str], bool] = {}  # whether the reply is right at the point where the detector stops
        if (settings := folder.about.get("detector")) is not None:
            detector = Detector.of(read_tensors(folder.path / FIT_RAG.tensors), settings["threshold"])
            retrieved = fit_rag_detector.right_at_stop([row for row in rows.values() if row["dev"]], detector)
    if not known or not checked:
        raise FbragError(
            "usage", f"no combinations of questions for checking in {folder.path}", "make them first: --stage detector"
        )
    dev_pairs = [pair for pair in labelling.pairs_of(work.questions[0], work.pool, ()) if pair.dev]
    with closing(LlamaScorer(folder.path / SCORER)) as scorer:
        embeddings = scorer.embed([questions[key].text for key in known])
        delta = fit_rag_recognizer.delta_of(
            np.concatenate([scorer.scores(pair.question, [pair.text])[:, 0] for pair in dev_pairs]),
            np.array([pair.has_answer for pair in dev_pairs], bool),
        )
        dev = [
            fit_rag_recognizer.DevQuestion(
                has_answer=np.array(row["candidates"], np.float32),
                embedding=scorer.embed([questions[key].text])[0],
                alone=alone[key],
                retrieved=retrieved.get(key, row["right"]),
            )
            for key, row in checked.items()
        ]
    recognizer, report = fit_rag_recognizer.fit(embeddings, np.array([alone[key] for key in known], np.uint8), delta, dev)
    folder.put_tensors("recognizer.", recognizer.tensors())
    inputs = {"labels": _digest(known), "scorer": sha256_of(folder.path / SCORER)}
    folder.put("recognizer", inputs, report, FIT_RAG.tensors, recognizer=recognizer.settings())
    does = f"{100 * report['share_without_retrieval']:.0f}% of {plural(report['dev'], 'question')} need no retrieval"
    if np.isinf(delta):
        precision = 100 * fit_rag_recognizer.PRECISION
        does = f"disabled: at no threshold do {precision:.0f}% of the passages that the scorer accepts contain the answer"
    work.note(f"recognizer: {report['known']:,} of {report['questions']:,} questions are known; {does}")


#: The stages in order, by name.
STAGES: Mapping[str, Callable[[FitRagWork], None]] = {
    "labels": make_labels,
    "scorer": make_scorer,
    "detector": make_detector,
    "recognizer": make_recognizer,
}


def train(work: Work, settings: FitRagTraining) -> None:
    """Run the stages that the settings name. Each resumes an earlier run."""
    own = FitRagWork(**vars(work), settings=settings)
    for name, make in STAGES.items():
        if settings.stage in ("all", name):
            make(own)
