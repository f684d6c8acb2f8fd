"""`fbrag train r2ag`: turns rows into lists and lists into prompts, and trains an R2-Former whose rows help the model to answer,
or, with --relevance, one that knows only how relevant a passage is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.statistics import auc
from fbrag_cli.generation.generator import InputEmbeddings
from fbrag_cli.generation.server.address import is_server
from fbrag_cli.methods.r2ag.method import list_messages, list_words
from fbrag_cli.methods.relevance.features import FEATURES, RELEVANCE
from fbrag_cli.methods.relevance.former import ADAPTER, R2AG
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval import Retriever
from fbrag_cli.text.printable import plural
from fbrag_cli.training.r2ag.fit import CHECKPOINT, R2agFit, Standing, TokenizedList
from fbrag_cli.training.r2ag.frozen_model import ALPHA, RANK, Example, FrozenModel, NoModel
from fbrag_cli.training.r2ag.lists import PassageList, list_of, shuffled
from fbrag_cli.training.r2ag.settings import R2agTraining
from fbrag_cli.training.rows import GoldQuestion, Pool
from fbrag_cli.training.training import Folder, Work, languages_of, writing

if TYPE_CHECKING:
    from fbrag_cli.generation.llama.generator import LlamaGenerator

Fields = dict[str, Any]  # of a record

_LENGTHS_ALONE = 2, 20  # of lists, if only the relevance is trained: those that `ask` may have


@dataclass(frozen=True, kw_only=True)
class R2agWork(Work):
    """The inputs of R2AG's training."""

    settings: R2agTraining

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of a passage."""
        return tuple(name for name in FEATURES if name != self.settings.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Data from the model's file. about: its name, SHA-256 and sizes, empty without a model. deviation: standard deviation of its
    token embeddings."""

    path: Path | None = None
    about: Fields
    lists: list[TokenizedList]
    deviation: float = 1.0


def train(work: Work, settings: R2agTraining) -> None:
    """Train the components, and write FOLDER.

    Raises FbragError `usage` if lists for training or for checking are missing, or the model takes no input embeddings; `output`
    if the folder cannot be written.
    """
    work = R2agWork(**vars(work), settings=settings)
    lists, retriever = _lists(work)
    read = _unread(lists) if work.settings.relevance else _read(work, lists)
    folder, checkpoint = Folder(work.path, R2AG), work.path / CHECKPOINT
    digest = sha256(repr([(each.key, each.labels.tobytes(), each.dev) for each in lists]).encode()).hexdigest()
    inputs = {"lists": digest, "settings": work.settings.learnt_with, "model": read.about}
    if work.is_made(folder, "r2ag", inputs, checkpoint):
        return
    n_tokens = sum(each.example.n_tokens for each in read.lists if each.example.reply and not each.passages.dev)
    work.note(f"r2ag: {plural(len(lists), 'list')}, {sum(each.dev for each in lists):,} of them for checking")
    for_model = f"{n_tokens:,} tokens per epoch for {read.about['name']}, " if read.about else ""
    work.note(f"r2ag: {for_model}{plural(work.settings.epochs, 'epoch')}")
    started = perf_counter()
    model = FrozenModel(read.path, lora=work.settings.lora) if read.path else NoModel()
    sizes = {"n_embd": read.about.get("n_embd", 0), "deviation": read.deviation}
    fit = R2agFit(read.lists, model, work.settings, checkpoint, **sizes)
    with writing(work.path):
        for _ in work.progress(fit.run(), "steps", fit.standing.steps, fit.steps):
            pass
        fit.checkpoint.restore_best()
        report = _report(work, lists, fit.standing, fit.plain()) | {"seconds": round(perf_counter() - started)}
        _put(folder, fit, model, inputs, report, _record(work, read, retriever, lists))
    dev, nearness = report["dev"][report["best_epoch"] - 1], report["auc_of_relevance"]
    if read.about:
        work.note(f"dev loss of the answer: {dev['answer']:.3f} ({report['plain']:.3f} with the plain prompt)")
    if dev["auc"] is not None:
        by_score = "" if nearness is None else f" ({nearness:.3f} with only the retriever's score)"
        work.note(f"relevance: AUC {dev['auc']:.3f}{by_score}")


# -- lists and prompts ---------------------------------------------------------------------------------------------------------


def _lists(work: R2agWork) -> tuple[list[PassageList], Retriever]:
    """Return the lists, and the retriever of the last one."""
    pool, quiet = Pool(work.material), Listener(cancellation=work.listener.cancellation)
    lists: list[PassageList] = []
    questions, retriever = list(_chosen(work.material.questions, work.settings.limit)), None
    for question in work.progress(questions, "lists", 0, len(questions)):
        retriever = work.session.retriever(pool.of(question.group), work.settings.retriever, quiet)
        made = list_of(question, pool, retriever, _length(work.settings, question), work.features)
        lists += [made] if made else []
    if retriever is None or len({each.dev for each in lists if each.answer or work.settings.relevance}) < 2:
        what = "not enough rows: no lists with an answer for training, or none for checking"
        raise FbragError("usage", what, "add rows, or raise --limit")
    return shuffled(lists) if work.settings.control == "shuffled" else lists, retriever


def _length(settings: R2agTraining, question: GoldQuestion) -> int | None:
    """Return the length of a question's list, None to draw it as `list_of` does."""
    if settings.relevance and not settings.list_length:
        return Random(f"{question.dataset} {question.id}").randint(*_LENGTHS_ALONE)
    return settings.list_length


def _chosen(questions: Sequence[GoldQuestion], limit: int | None) -> Iterator[GoldQuestion]:
    """Yield the questions with evidence, by group: `limit` random ones per dataset, a quarter of them for checking.

    A larger limit includes the questions of a smaller one.
    """
    taken: dict[tuple[str, bool], list[GoldQuestion]] = {}
    for question in sorted(questions, key=lambda each: sha256(each.id.encode()).digest()):
        if question.group and question.gold:
            taken.setdefault((question.dataset, question.dev), []).append(question)
    for (_, dev), of_set in sorted(taken.items()):
        most = None if limit is None else max(1, limit // 4) if dev else limit
        yield from sorted(of_set[:most], key=lambda each: each.group)


def _unread(lists: Sequence[PassageList]) -> _Read:
    """Return the lists without prompts, for a training without a model."""
    nothing = Example((), ())
    return _Read(about={}, lists=[TokenizedList(passages=each, example=nothing, plain=nothing) for each in lists])


def _read(work: R2agWork, lists: Sequence[PassageList]) -> _Read:
    """Return each prompt as tokens of the model. The model itself is not run."""
    name = work.session.names()[1]
    if is_server(name):
        raise FbragError("usage", f"{name} is a server; R2AG is trained for a model on this machine", "use a model file")
    about: Fields = work.language_model
    with work.session.models.open(name, "large") as generator:
        if not generator.takes_input_embeddings:
            raise FbragError(
                "usage", f"{name} does not support input embeddings in a prompt", "train for another model: -m MODEL"
            )
        table = generator.token_table
        about = {**about, "n_embd": table.width, "n_vocab": table.n_tokens}
        tokenized = [TokenizedList(passages=each, **_examples(each, generator)) for each in lists]
        return _Read(path=generator.path, about=about, lists=tokenized, deviation=table.deviation())


def _examples(each: PassageList, generator: LlamaGenerator) -> Fields:
    """Return the prompt with rows and the prompt without."""
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


# -- the record and the report -------------------------------------------------------------------------------------------------


def _record(work: R2agWork, read: _Read, retriever: Retriever, lists: Sequence[PassageList]) -> Fields:
    """Return the top-level entries of the record, except those of the network."""
    of_model = {"model": read.about, "words": list_words()} if read.about else {}
    return {
        **of_model,
        "retriever": {"name": retriever.name, "key": retriever.key},
        "features": list(work.features),
        "order": "rank",
        "control": work.settings.learnt_with["control"],
        "list_lengths": sorted({len(each.passages) for each in lists}),
        "languages": languages_of([each.question for each in lists]),
    }


def _put(folder: Folder, fit: R2agFit, model: FrozenModel | NoModel, inputs: Fields, report: Fields, settings: Fields) -> None:
    """Write the files and their record."""
    folder.about = {}  # nothing of an earlier training is kept
    (folder.path / ADAPTER).unlink(missing_ok=True)
    folder.put_tensors("", fit.network.tensors())
    files = [R2AG.tensors]
    if isinstance(model, FrozenModel):
        settings = {**settings, "model": {**settings["model"], "architecture": model.architecture}}
        if model.parameters:
            model.write_lora(folder.path / ADAPTER)
            files, settings = [*files, ADAPTER], {**settings, "lora": {"rank": RANK, "alpha": ALPHA}}
    network = {"max_list": fit.max_list, "row_scale": fit.row_scale, "heads": fit.sizes.heads}
    folder.put("r2ag", inputs, report, *files, **settings, **network)


def _report(work: R2agWork, lists: Sequence[PassageList], standing: Standing, plain: list[float]) -> Fields:
    """Return the report for the record. answer_loss: the loss of each list for checking that has an answer, for comparing
    trainings."""
    dev, best, names = [each for each in lists if each.dev], standing.best(work.settings.qdm_weight), work.features
    nearness = None  # AUC of the retriever's own score, if it is a feature
    if RELEVANCE in names:
        scores = np.concatenate([each.features[:, names.index(RELEVANCE)] for each in dev]).astype(np.float64)
        nearness = auc(scores, np.concatenate([each.labels for each in dev]) > 0)
    return {
        "data": dict(work.material.sha256),
        "count": {"train": len(lists) - len(dev), "dev": len(dev)},
        "losses": [round(each, 4) for each in standing.losses],
        "dev": [{"answer": _mean(each.answer), "matching": round(each.matching, 4), "auc": each.auc} for each in standing.dev],
        "best_epoch": best + 1,
        "plain": _mean(plain),
        "auc_of_relevance": nearness,
        "answer_loss": {
            "ids": [each.id for each in dev if each.answer and plain],
            "plain": plain,
            "trained": standing.dev[best].answer,
        },
    }


def _mean(losses: Sequence[float]) -> float | None:
    """Return the mean of losses, None without any."""
    return round(float(np.mean(losses)), 4) if losses else None
