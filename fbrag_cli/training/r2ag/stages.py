"""`fbrag train r2ag`: rows become lists, lists become prompts, and an R2-Former learns what rows help the model to the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.statistics import auc
from fbrag_cli.generation.generator import InputEmbeddings
from fbrag_cli.methods.r2ag.features import FEATURES, RELEVANCE
from fbrag_cli.methods.r2ag.former import ADAPTER, R2AG
from fbrag_cli.methods.r2ag.method import list_messages, list_words
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval import Retriever
from fbrag_cli.text.printable import plural
from fbrag_cli.training.r2ag.fit import CHECKPOINT, R2agFit, Standing, TokenizedList
from fbrag_cli.training.r2ag.frozen_model import ALPHA, RANK, Example, FrozenModel
from fbrag_cli.training.r2ag.lists import PassageList, list_of, shuffled
from fbrag_cli.training.rows import GoldQuestion, Pool
from fbrag_cli.training.stages import Folder, Work, languages_of, writing

if TYPE_CHECKING:
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.training.r2ag.training import R2agTraining

Fields = dict[str, Any]  # of a record


@dataclass(frozen=True, kw_only=True)
class R2agWork(Work):
    """What the training of R2AG works with."""

    settings: R2agTraining

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of a passage."""
        return tuple(name for name in FEATURES if name != self.settings.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What is read from the model's file. about: its name, SHA-256 and sizes. deviation: that of its token embeddings."""

    path: Path
    about: Fields
    lists: list[TokenizedList]
    deviation: float


def train_r2ag(work: R2agWork) -> None:
    """Train the parts, and write FOLDER.

    Raises FbragError `usage` without lists of both kinds, or for a model that takes no rows; `output` where the folder cannot be
    written.
    """
    lists, retriever = _lists(work)
    read = _read(work, lists)
    folder, checkpoint = Folder(work.path, R2AG), work.path / CHECKPOINT
    digest = sha256(repr([(each.key, each.labels.tobytes(), each.dev) for each in lists]).encode()).hexdigest()
    inputs = {"lists": digest, "settings": work.settings.learnt_with, "model": read.about}
    if work.is_made(folder, "r2ag", inputs, checkpoint):
        return
    tokens = sum(each.example.n_tokens for each in read.lists if each.example.reply and not each.passages.dev)
    work.note(f"r2ag: {plural(len(lists), 'list')}, {sum(each.dev for each in lists):,} of them for checking")
    work.note(f"r2ag: {tokens:,} tokens an epoch for {read.about['name']}, {plural(work.settings.epochs, 'epoch')}")
    started = perf_counter()
    model = FrozenModel(read.path, lora=work.settings.lora)
    sizes = {"n_embd": read.about["n_embd"], "deviation": read.deviation}
    fit = R2agFit(read.lists, model, work.settings, checkpoint, **sizes)
    with writing(work.path):
        for _ in work.progress(fit.run(), "steps", fit.standing.steps, fit.steps):
            pass
        fit.checkpoint.restore_best()
        report = _report(work, lists, fit.standing, fit.plain()) | {"seconds": round(perf_counter() - started)}
        _put(folder, fit, model, inputs, report, _record(work, read, retriever, lists))
    dev, nearness = report["dev"][report["best_epoch"] - 1], report["auc_of_relevance"]
    work.note(f"loss of the answer, for checking: {dev['answer']:.3f}, by the plain prompt {report['plain']:.3f}")
    if dev["auc"] is not None:
        by_score = "" if nearness is None else f", by the retriever's score alone {nearness:.3f}"
        work.note(f"relevance: AUC {dev['auc']:.3f}{by_score}")


# -- lists and prompts ---------------------------------------------------------------------------------------------------------


def _lists(work: R2agWork) -> tuple[list[PassageList], Retriever]:
    """Return the lists, and the retriever of the last of them."""
    pool, quiet = Pool(work.material), Listener(cancellation=work.listener.cancellation)
    lists: list[PassageList] = []
    questions, retriever = list(_chosen(work.material.questions, work.settings.limit)), None
    for question in work.progress(questions, "lists", 0, len(questions)):
        retriever = work.session.retriever(pool.of(question.group), work.settings.retriever, quiet)
        made = list_of(question, pool, retriever, work.settings.list_length, work.features)
        lists += [made] if made else []
    if retriever is None or len({each.dev for each in lists if each.answer}) < 2:
        what = "the rows give no lists for training, or none for checking, with an answer to learn"
        raise FbragError("usage", what, "give more questions: more rows, or a higher --limit")
    return shuffled(lists) if work.settings.control == "shuffled" else lists, retriever


def _chosen(questions: Sequence[GoldQuestion], limit: int | None) -> Iterator[GoldQuestion]:
    """Yield the questions with evidence, by their groups: of each data set `limit` at random, a quarter for checking.

    The questions of a smaller limit are among those of a larger one.
    """
    taken: dict[tuple[str, bool], list[GoldQuestion]] = {}
    for each in sorted(questions, key=lambda each: sha256(each.id.encode()).digest()):
        if each.group and each.gold:
            taken.setdefault((each.dataset, each.dev), []).append(each)
    for (_, dev), found in sorted(taken.items()):
        most = None if limit is None else max(1, limit // 4) if dev else limit
        yield from sorted(found[:most], key=lambda each: each.group)


def _read(work: R2agWork, lists: Sequence[PassageList]) -> _Read:
    """Return the model's tokens of each prompt. The model's weights are not run."""
    loaders = work.session.pool.loaders()  # refuses a server, before it is asked anything
    about: Fields = work.language_model
    name = about["name"]
    with loaders[name]() as generator:
        if not generator.takes_input_embeddings:
            raise FbragError("usage", f"{name} takes no input embeddings in a prompt", "train for another model: -m MODEL")
        table = generator.token_table
        about = {**about, "n_embd": table.width, "n_vocab": table.n_tokens}
        tokenized = [TokenizedList(passages=each, **_examples(each, generator)) for each in lists]
        return _Read(path=generator.path, about=about, lists=tokenized, deviation=table.deviation())


def _examples(each: PassageList, generator: LlamaGenerator) -> Fields:
    """Return the prompt with rows, and without them."""
    places = [InputEmbeddings.of(np.array([[i]], np.float32)) for i in range(len(each.passages))]
    reply = tuple(generator.tokenize_reply(each.answer)) if each.answer else ()
    prompts = {
        "example": list_messages(each.passages, each.question, places),
        "plain": list_messages(each.passages, each.question, None),
    }
    return {
        name: Example(tuple(max(-1, token) for token in generator.tokenize(messages)), reply)
        for name, messages in prompts.items()
    }


# -- what is written and said --------------------------------------------------------------------------------------------------


def _record(work: R2agWork, read: _Read, retriever: Retriever, lists: Sequence[PassageList]) -> Fields:
    """Return the top-level entries of the record, but for those of the network."""
    return {
        "model": read.about,
        "retriever": {"name": retriever.name, "key": retriever.key},
        "features": list(work.features),
        "order": "rank",
        "words": list_words(),
        "control": work.settings.learnt_with["control"],
        "list_lengths": sorted({len(each.passages) for each in lists}),
        "languages": languages_of([each.question for each in lists]),
    }


def _put(folder: Folder, fit: R2agFit, model: FrozenModel, inputs: Fields, report: Fields, settings: Fields) -> None:
    """Write the files, and the record that names them."""
    has_lora = bool(model.parameters)
    folder.about = {}  # of a training before this one nothing stays
    (folder.path / ADAPTER).unlink(missing_ok=True)
    folder.put_tensors("", fit.network.tensors())
    if has_lora:
        model.write_lora(folder.path / ADAPTER)
        settings = {**settings, "lora": {"rank": RANK, "alpha": ALPHA}}
    settings = {**settings, "model": {**settings["model"], "architecture": model.architecture}}
    network = {"max_list": fit.max_list, "row_scale": fit.row_scale, "heads": fit.sizes.heads}
    folder.put("r2ag", inputs, report, R2AG.tensors, *([ADAPTER] if has_lora else []), **settings, **network)


def _report(work: R2agWork, lists: Sequence[PassageList], standing: Standing, plain: list[float]) -> Fields:
    """Return what the record keeps. answer_loss: the loss of each list for checking that has an answer, to compare trainings."""
    dev, best, names = [each for each in lists if each.dev], standing.best(work.settings.qdm_weight), work.features
    nearness = None  # AUC of the retriever's own score, where it is a feature
    if RELEVANCE in names:
        scores = np.concatenate([each.features[:, names.index(RELEVANCE)] for each in dev]).astype(np.float64)
        nearness = auc(scores, np.concatenate([each.labels for each in dev]) > 0)
    return {
        "data": dict(work.material.sha256),
        "count": {"train": len(lists) - len(dev), "dev": len(dev)},
        "losses": [round(each, 4) for each in standing.losses],
        "dev": [
            {"answer": round(float(np.mean(each.answer)), 4), "matching": round(each.matching, 4), "auc": each.auc}
            for each in standing.dev
        ],
        "best_epoch": best + 1,
        "plain": round(float(np.mean(plain)), 4),
        "auc_of_relevance": nearness,
        "answer_loss": {"ids": [each.id for each in dev if each.answer], "plain": plain, "trained": standing.dev[best].answer},
    }
