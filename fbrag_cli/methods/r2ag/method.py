"""R2AG: the retriever's knowledge of its list, as input embeddings in the prompt (Ye et al., 2024).

1. The retriever ranks chunks for the question. The best of them are a list.
2. Features of the list: how near each chunk is to the question, to those before it, and to those beside it.
3. The R2-Former, a small Transformer, makes of them a row of the model's embedding space for each chunk (equations 2 and 3).
4. The large model reads each chunk behind its row, best first, and answers. It stays as it is.

The R2-Former of fbrag works with every model. It was trained without one, and gives each chunk a probability p to be relevant.
The row of a chunk is (1 - p) e(" irrelevant") + p e(" relevant"), where e is the model's own embedding of a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fbrag_cli.corpus import Passage
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Blend, InputEmbeddings, Message, Row
from fbrag_cli.methods.method import GetDigest, GetPart, OpenScorer, Tools
from fbrag_cli.methods.prompts import BETWEEN, form_of, support_question
from fbrag_cli.methods.ranking import ChunkMethod, language_warning, whole_chunks
from fbrag_cli.progress import stage
from fbrag_cli.query import Query
from fbrag_cli.settings import knob
from fbrag_cli.trace import Column, Selection, Stage, Table, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.methods.relevance.former import R2Former

    Array = NDArray[np.float32]


_TRAIN = "train the parts: fbrag train r2ag --help"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalInformation:
    """The output of the R2-Former for the list, best first.

    names: of the columns of `features`, float32 (n, n_features). relevance: float32 (n,), the probability that each chunk is
    relevant. rows: the row before each chunk; None if the prompt has none.
    """

    names: tuple[str, ...]
    features: Array
    relevance: Array
    rows: Sequence[Row] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class R2Ag(ChunkMethod):
    """The settings. r2ag: folder of the trained parts (`methods.relevance.former`), None for those that ship with fbrag."""

    name: ClassVar[str] = "r2ag"
    table_keys: ClassVar[tuple[str, ...]] = ("retrieval_information",)
    own_prompt: ClassVar[bool] = True

    r2ag: str | None = knob(None, "folder that 'fbrag train r2ag' wrote, instead of the part in the package", path="FOLDER")

    def described(self) -> dict[str, Any]:
        """Return the settings, with the content of the folder in place of its path."""
        from fbrag_cli.methods.relevance.former import R2AG

        return {**ChunkMethod.described(self), "r2ag": R2AG.described(self._folder())}

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Choose the list, and make its rows. Raises FbragError `usage` for parts that do not fit."""
        former = self._former(tools)
        selected = self.select_by_question(query, tools)
        ranked = selected.selection.ranked[: former.max_list]
        with stage("select", tools.progress) as selecting:
            chunks = [tools.corpus.chunks[position] for position in ranked]
            information = _information(query.text, chunks, selected.scores.backward, former, tools)
        copies = {position: selected.selection.duplicates[position] for position in ranked}
        cut = f"R2AG was trained on lists of {former.max_list} chunks; only the best {former.max_list} are read"
        return replace(
            selected,
            selection=Selection(copies, whole_chunks(tools.corpus, ranked)),
            stages=(*selected.stages, Stage("select", selecting.seconds)),
            warnings=(
                *selected.warnings,
                *([cut] if len(ranked) < len(selected.selection.duplicates) else []),
                *language_warning("the R2-Former", former.languages, chunks),
            ),
            tables=() if information is None else _tables(chunks, information),
            method_state=information,
        )

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        return list_messages(self.passages(trace), trace.question, _rows(trace), self.instructions)

    def support_messages(self, trace: Trace, answer: str) -> tuple[Message, ...]:
        return list_support_messages(self.passages(trace), trace.question, answer, _rows(trace))

    def adapter(self, part: GetPart, digest: GetDigest) -> Path | None:
        former = part(self._folder(), _load)
        if former.model:
            _check_model(former.model, digest())
        return former.adapter

    def check(self) -> None:
        from fbrag_cli.methods.relevance.former import R2AG

        R2AG.read(Path(self._folder()), bool)

    def _folder(self) -> str:
        """Return the folder of the parts."""
        from fbrag_cli.methods.relevance.former import SHIPPED

        return self.r2ag or str(SHIPPED)

    def _former(self, tools: Tools) -> R2Former:
        former = tools.part(self._folder(), _load)
        former.check(tools.retriever)
        if former.model and former.words != list_words():
            raise FbragError("usage", f"the parts in {self.r2ag} were trained for another prompt than this version has", _TRAIN)
        return former


def _load(folder: Path, _: OpenScorer) -> R2Former:
    from fbrag_cli.methods.relevance.former import load

    return load(folder)


def _information(
    question: str, chunks: Sequence[Passage], backward: Array, former: R2Former, tools: Tools
) -> RetrievalInformation | None:
    """Return the features, the relevance and the rows of a list; None for one chunk alone, which is near to no other."""
    from fbrag_cli.methods.relevance.features import Scored, list_features, permuted

    if len(chunks) < 2:
        return None
    features = list_features(former.features, chunks, tools.retriever, Scored(question, backward))
    if former.control == "shuffled":
        features = permuted(features, question)
    relevance = former.relevance(features)
    rows = list_rows(former, features, relevance)
    return RetrievalInformation(names=former.features, features=features, relevance=relevance, rows=rows)


def list_rows(former: R2Former, features: Array, relevance: Array) -> Sequence[Row] | None:
    """Return the row of each chunk; None for parts that make none. features, relevance: of the list, float32 (n, n_features)
    and (n,)."""
    if former.makes_rows:
        return [InputEmbeddings.of(row[None]) for row in former.rows(features)]
    return [_anchored(round(float(p), 3)) for p in relevance] if former.model is None else None


def _anchored(p: float) -> Blend:
    """Return the row of a chunk between two words of the model's own. p: the probability that it is relevant."""
    return Blend(((" irrelevant", 1 - p), (" relevant", p)))


def _tables(chunks: Sequence[Passage], information: RetrievalInformation) -> tuple[Table, ...]:
    """Return the list with relevance and features, and the relevance to stand beside the chunks."""
    relevance, listed = Column("relevance", "relevance"), tuple(chunks)
    values = tuple(map(float, information.relevance))
    features = [dict(zip(information.names, map(float, row), strict=True)) for row in information.features]
    return (
        Table(
            name="retrieval_information",
            unit="result",
            columns=(relevance, Column("features", "features")),
            rows=tuple(zip(values, features, strict=True)),
            passages=listed,
        ),
        Table(columns=(relevance,), rows=tuple(zip(values, strict=True)), passages=listed, beside_chunks=True),
    )


def _rows(trace: Trace) -> Sequence[Row] | None:
    """Return the row of each chunk of the context; None if the prompt has none."""
    information = trace.method_state
    return information.rows if isinstance(information, RetrievalInformation) else None


def _check_model(learnt: Mapping[str, str], found: str | None) -> None:
    """Check that the large model is the one that the parts were trained for. found: its SHA-256, None for a server."""
    if found is None:
        problem = "a server takes no input embeddings in a prompt"
        raise FbragError("usage", problem, f"use the model of this machine that the parts were trained for: {learnt['name']}")
    if found != learnt["sha256"]:
        problem = f"the parts were trained for {learnt['name']} (SHA-256 {learnt['sha256']}), and the large model has {found}"
        raise FbragError("usage", problem, f"use the other model: -m {learnt['name']}")


# -- the prompts: a list of results, each behind its input embedding; the words are ours -------------------------------


def list_messages(
    texts: Sequence[str], question: str, rows: Sequence[Row] | None, instructions: str | None = None
) -> tuple[Message, ...]:
    """Return the prompt for the answer from a numbered list of results, each with its input embedding.

    rows: one for each text; None for the same prompt without rows and the words that announce them.
    """
    asked = f"Answer the question from these results and from nothing else. {form_of(instructions)}\n\nQuestion: {question}"
    return (Message.about(_results(texts, rows), asked),)


def list_words() -> str:
    """Return the SHA-256 (hex) of the words of `list_messages`: rows are trained to stand among them."""
    (message,) = list_messages(["", ""], "", [InputEmbeddings(bytes(4), 1)] * 2)
    parts = (part if isinstance(part, str) else "⟨row⟩" for part in message.parts)
    return sha256("\0".join(parts).encode()).hexdigest()


def list_support_messages(texts: Sequence[str], question: str, answer: str, rows: Sequence[Row] | None) -> tuple[Message, ...]:
    """Return the check of the answer, as `prompts.support_messages`. It begins as `list_messages` does, rows included."""
    return (Message.about(_results(texts, rows), support_question(question, answer, "results")),)


def _results(texts: Sequence[str], rows: Sequence[Row] | None) -> Iterator[str | Row]:
    """Yield the task and the list, as parts of a message."""
    yield "Answer the question from the search results below and from nothing else. Some of them may be irrelevant.\n"
    if rows is not None:
        yield "A similarity mark before each result shows how near it is to the question and to the other results.\n"
    yield "\nResults:\n"
    yield from _listed(texts, rows)
    yield BETWEEN if texts else ""


def _listed(texts: Sequence[str], rows: Sequence[Row] | None) -> Iterator[str | Row]:
    """Yield the numbered texts, each with its row."""
    marks = [()] * len(texts) if rows is None else [(" similarity:", each) for each in rows]
    for number, (text, mark) in enumerate(zip(texts, marks, strict=True), 1):
        yield f"{BETWEEN if number > 1 else ''}[{number}]"
        yield from mark
        yield f" {text}"
