"""Questions with long documents to train on: about 10,000 words each, in which the passages of a row stand among others.

Passages stand among those of other questions of the file, a story among other stories of its book, a meeting by itself. What is
added, and the order, are random, the same in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.training.evidence import Parts, Span, Text, spans_of
from fbrag_cli.training.row_files import Row, RowsOfFile, read_files, title_and_text

#: Words up to which a document is filled.
WORDS = 10_000
_BETWEEN = "\n\n"  # texts of a document

#: A text with the evidence in it.
Own = tuple[Text, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class LongDocument:
    """gold: where the evidence stands in the text."""

    text: str
    gold: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongQuestion:
    """own: texts that belong to the question, with the evidence in each. others: those that the document is filled up with.
    dev: whether it is for checking, not for training."""

    id: str
    dataset: str
    text: str
    own: tuple[Own, ...]
    others: Sequence[Text]
    dev: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.dataset, self.id

    def document(self) -> LongDocument:
        """Make the document."""
        random, texts = Random(f"{self.dataset} {self.id}"), list(self.own)
        have, words = {each.text for each, _ in texts}, sum(each.n_words for each, _ in texts)
        for other in random.sample(self.others, len(self.others)):
            if words + other.n_words <= WORDS and other.text not in have:
                texts.append((other, ()))
                words += other.n_words
        random.shuffle(texts)
        plain = [each.text for each, _ in texts]
        starts = [start for start, _ in spans_of(plain, len(_BETWEEN))]
        gold = [(at + start, at + end) for at, (_, spans) in zip(starts, texts, strict=True) for start, end in spans]
        return LongDocument(_BETWEEN.join(plain), tuple(gold))


@dataclass(frozen=True, slots=True)
class LongMaterial:
    """sha256: of each file, by its name."""

    questions: tuple[LongQuestion, ...]
    sha256: Mapping[str, str]


def read_long(paths: Iterable[Path], limit: int | None) -> LongMaterial:
    """Read the files of `questions.read_material`; rows may also have `meeting` and `gold_turns`, of NAME-meetings.json.gz.

    limit: questions of each data set to train on, and a quarter as many for checking (None: all); drawn at random, so that those
    of a smaller limit are among those of a larger one. The data sets are taken in turn. Rows whose evidence is unknown are left
    out. Raises FbragError `doc_not_found`, `doc_unreadable`, and `usage` for a file without any evidence.
    """
    digests: dict[str, str] = {}
    drawn: list[list[LongQuestion]] = []
    for file in read_files(paths):
        digests[file.path.name] = sha256_of(file.path)
        found = sorted(_questions(file), key=lambda each: sha256(each.id.encode()).digest())
        if not found:
            raise FbragError("usage", f"{file.path} names no evidence for its questions", "fbrag train fusion --help")
        for dev in (False, True):
            share = None if limit is None else max(1, limit // 4) if dev else limit
            drawn.append([each for each in found if each.dev == dev][:share])
    return LongMaterial(tuple(each for turn in zip_longest(*drawn) for each in turn if each is not None), digests)


def _questions(file: RowsOfFile) -> Iterator[LongQuestion]:
    own_of, others_of = _sources(file)
    for row, dev in file.rows:
        own = own_of(row)
        if any(spans for _, spans in own):
            fields = {"id": row["_id"], "dataset": row["dataset"], "text": row["input"]}
            yield LongQuestion(**fields, own=own, others=others_of(row), dev=dev)


def _sources(file: RowsOfFile) -> tuple[Callable[[Row], tuple[Own, ...]], Callable[[Row], Sequence[Text]]]:
    """Return what gives the texts of a row, and what gives those to fill its document up with."""
    stories = {name: Parts.of(parts.values(), parts) for name, parts in file.stories.items()}
    meetings = {name: Parts.of(turns, range(len(turns))) for name, turns in file.meetings.items()}
    books: dict[str, list[Text]] = {}
    for name, story in stories.items():
        books.setdefault(_book(name), []).append(story.text)
    passages = [
        Text(each) for each in dict.fromkeys(title_and_text(each) for row, _ in file.rows for each in row.get("documents", ()))
    ]

    def own_of(row: Row) -> tuple[Own, ...]:
        if "documents" in row:
            return tuple(map(_passage, row["documents"]))
        if "story" in row:
            return (stories[row["story"]].with_evidence((name, name) for name in row["gold_sections"]),)
        if "meeting" in row:
            return (meetings[row["meeting"]].with_evidence(map(tuple, row["gold_turns"])),)
        return ()

    def others_of(row: Row) -> Sequence[Text]:
        if "documents" in row:
            return passages
        return books[_book(row["story"])] if "story" in row else ()

    return own_of, others_of


def _book(story: str) -> str:
    return story.partition("/")[0]


def _passage(document: Mapping[str, Any]) -> Own:
    text = title_and_text(document)
    return Text(text), ((len(text) - len(document["text"]), len(text)),) if document.get("gold") else ()
