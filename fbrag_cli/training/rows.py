"""Reads training rows: JSON Lines of questions with their passages, and the stories and meetings next to them.

Errors in a row are reported with its line. The result is `Material`: questions, and the passages that may contain their answers.
A `Pool` retrieves from these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

from fbrag_cli.corpus import Passage as Chunk
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.datasets import MAX_ROW, dataset_files, drawn_rows, read_start
from fbrag_cli.evaluation.metrics import normalized
from fbrag_cli.query import Collection, question_fault
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.languages import detect

#: Share of a file's rows, at its end, that are held out for checking. Questions for training and for checking share the passages
#: of a file, and may share a story or meeting: the check is on other questions, not on other texts.
DEV_SHARE = 0.2

_CHUNK_WORDS = 300  # for meetings
_HINT = "fbrag train --help"
# Answers that many passages contain by chance, so that containing them means nothing.
_SAYS_NOTHING = re.compile(r"yes|no|\d|.{0,2}", re.IGNORECASE)
_WHOLE = 100_000  # words of a chunk: a passage is one chunk


Span = tuple[int, int]  # start and end, in characters


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage. id: SHA-256 of its text, 16 hex digits. group: retrieval is among the passages of one group."""

    id: str
    text: str
    group: str


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with gold answers.

    group: group of its passages, "" for none. gold: ids of the passages with the answer, if the row names them. verbatim: whether
    texts contain answers verbatim; stories often do not, and then only `gold` counts. dev: whether it is for checking, not for
    training.
    """

    id: str
    dataset: str
    text: str
    answers: tuple[str, ...]
    group: str
    gold: tuple[str, ...]
    verbatim: bool
    dev: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.dataset, self.id

    @property
    def is_telling(self) -> bool:
        """Whether it is meaningful that a text contains a gold answer."""
        return self.verbatim and bool(self._telling())

    def answered_in(self, reply: str) -> bool:
        """Return whether `reply` contains a gold answer as whole words, normalized as for exact match."""
        return self._stands_in(reply, self.answers)

    def has_answer(self, passage: Passage) -> bool:
        """Return Has_Answer: whether the passage is named as evidence or contains a gold answer. Answers such as "5", which a
        passage may contain by chance, do not count."""
        return passage.id in self.gold or (self.verbatim and self._stands_in(passage.text, self._telling()))

    def _telling(self) -> tuple[str, ...]:
        return tuple(answer for answer in self.answers if not _SAYS_NOTHING.fullmatch(answer.strip()))

    def _stands_in(self, text: str, answers: tuple[str, ...]) -> bool:
        said = f" {normalized(text)} "
        return any(plain and f" {plain} " in said for plain in map(normalized, answers))


@dataclass(frozen=True, slots=True)
class Material:
    """Training data. questions: in the order of their files. passages: by group, each once. sha256: SHA-256 of each file, by
    name."""

    questions: tuple[GoldQuestion, ...]
    passages: Mapping[str, tuple[Passage, ...]]
    sha256: Mapping[str, str]


Evidence = tuple[list[Passage], tuple[str, ...]]  # passages, and the ids of those with the answer


# -- rows ------------------------------------------------------------------------------------------------------------------------


def read_material(paths: Iterable[Path]) -> Material:
    """Read JSON Lines (.gz or not): rows with `_id`, `input`, `answers`, and one of `documents` (passages with `text`, and
    optionally `title` and `gold`; retrieval is among all passages of a file), `story` with `gold_sections` (from
    NAME-stories.json.gz next to the file), `meeting` with `gold_turns` (from NAME-meetings.json.gz; its passages are chunks), or
    none (only the question). The second row with the same `_id` in a file is named "ID#2".

    Raises FbragError `doc_not_found`; `doc_unreadable`, with the line, for a row with missing fields or references, or with the
    id of a row in another file.
    """
    questions: list[GoldQuestion] = []
    passages: dict[str, dict[str, Passage]] = {}
    digests, taken = {}, dict[tuple[str, str], Path]()
    for path in dataset_files(paths):
        rows = [(place, _checked(path, place, _row, text)) for place, text in drawn_rows(path, None, 0)]
        digests[path.name] = sha256_of(path)
        file, n_train = _RowsFile(path, [row for _, row in rows]), len(rows) - round(len(rows) * DEV_SHARE)
        for i, (place, row) in enumerate(rows):
            own, gold = _checked(path, place, file.evidence, row)
            key = _checked(path, place, _unique, row, path, taken)
            if own:
                passages.setdefault(own[0].group, {}).update({each.id: each for each in own})
            question = GoldQuestion(
                id=key[1],
                dataset=key[0],
                text=row["input"],
                answers=tuple(map(str, row["answers"])),
                group=own[0].group if own else "",
                gold=gold,
                verbatim=row.keys().isdisjoint(("story", "meeting")),
                dev=i >= n_train,
            )
            questions.append(question)
    return Material(tuple(questions), {group: tuple(found.values()) for group, found in passages.items()}, digests)


def _checked(path: Path, place: str, check: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of `check`. Turn its ValueError into FbragError `doc_unreadable` with the location of the row."""
    try:
        return check(*arguments)
    except ValueError as error:
        raise FbragError("doc_unreadable", f"{path}, {place}: {error}", _HINT, document=str(path)) from None


def _row(text: str) -> Row:
    row: Any = _parsed(text)
    texts = (row.get("_id"), row.get("input")) if isinstance(row, dict) else (None,)
    if not all(isinstance(each, str) for each in texts) or not isinstance(row.get("answers"), list):
        raise ValueError("a row needs _id, input and answers")
    if fault := question_fault(row["input"]):
        raise ValueError(fault)
    return dict(row)


def _parsed(data: str | bytes) -> Any:
    """Return a JSON object, None for anything else. Raises ValueError for text that cannot be encoded."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return None
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("invalid text: a lone surrogate (\\ud800 to \\udfff)") from None
    return parsed


def _unique(row: Row, path: Path, taken: dict[tuple[str, str], Path]) -> tuple[str, str]:
    """Return the dataset of a row and a unique id. taken: file of each id so far.

    Raises ValueError if a row in another file has the id.
    """
    dataset, name, n = str(row.get("dataset", path.stem)), row["_id"], 1
    while (other := taken.get((dataset, name))) is not None:
        if other != path:
            raise ValueError(f"duplicate id {row['_id']!r} in {dataset}, also in {other}")
        n += 1
        name = f"{row['_id']}#{n}"
    taken[dataset, name] = path
    return dataset, name


# -- passages ------------------------------------------------------------------------------------------------------------------


class _RowsFile:
    """A file of rows, with the stories and meetings next to it."""

    def __init__(self, path: Path, rows: Sequence[Row]) -> None:
        self._name = path.name
        self._stories = _beside(path, "stories", dict) if any("story" in row for row in rows) else {}
        turns = _beside(path, "meetings", list) if any("meeting" in row for row in rows) else {}
        self._meetings = {name: _Meeting.of(each) for name, each in turns.items()}

    def evidence(self, row: Row) -> Evidence:
        """Return the nonblank passages of a row, and the ids of those with the answer.

        Raises ValueError for an invalid passage, and for a missing story, meeting or part of one.
        """
        if "documents" in row:
            return self._of_documents(row["documents"])
        if "story" in row:
            return self._of_story(row)
        return self._of_meeting(row) if "meeting" in row else ([], ())

    def _of_documents(self, documents: Any) -> Evidence:
        known = isinstance(documents, list) and all(isinstance(each, dict) for each in documents)
        if not known or not all(_are_texts((each.get("text"), each.get("title") or "")) for each in documents):
            raise ValueError("`documents` must be a list of objects with `text`")
        documents = [each for each in documents if each["text"].strip()]
        texts = ["\n".join(filter(None, [each.get("title"), each["text"]])) for each in documents]
        return _chosen(texts, self._name, [bool(each.get("gold")) for each in documents])

    def _of_story(self, row: Row) -> Evidence:
        sections: Mapping[str, str] = _named("story", row, self._stories)
        gold = _gold("story", "gold_sections", row, lambda name: isinstance(name, str) and name in sections)
        whole = {name: text for name, text in sections.items() if text.strip()}
        return _chosen(list(whole.values()), f"{self._name}: {row['story']}", [name in gold for name in whole])

    def _of_meeting(self, row: Row) -> Evidence:
        meeting: _Meeting = _named("meeting", row, self._meetings)
        gold = _gold("meeting", "gold_turns", row, lambda value: _is_stretch(value, len(meeting.turns)))
        spans = [(meeting.turns[first][0], meeting.turns[last][1]) for first, last in gold]
        texts = [chunk.text for chunk in meeting.chunks]
        return _chosen(texts, f"{self._name}: {row['meeting']}", [is_relevant(chunk, spans) for chunk in meeting.chunks])


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A meeting. turns: span of each turn in the text. chunks: chunks of the text."""

    turns: Sequence[Span]
    chunks: Sequence[Chunk]

    @classmethod
    def of(cls, turns: Sequence[str]) -> _Meeting:
        text, ends = "\n".join(turns), accumulate(len(turn) + 1 for turn in turns)
        spans = [(end - 1 - len(turn), end - 1) for turn, end in zip(turns, ends, strict=True)]
        document = Document.of("m", "m", Extracted(Content(text), "text/plain"), language=detect(text))
        return cls(spans, build_corpus([document], _CHUNK_WORDS).chunks)


def is_relevant(chunk: Chunk, gold: Iterable[Span]) -> bool:
    """Return whether the chunk covers at least half of a piece of evidence, or half of the chunk is in one."""
    for start, end in gold:
        n_shared = max(0, min(chunk.end, end) - max(chunk.start, start))
        if 0 < 2 * n_shared >= min(end - start, chunk.end - chunk.start):
            return True
    return False


def _chosen(texts: Sequence[str], group: str, gold: Sequence[bool]) -> Evidence:
    passages = [Passage(sha256(text.encode()).hexdigest()[:16], text, group) for text in texts]
    return passages, tuple(each.id for each, is_gold in zip(passages, gold, strict=True) if is_gold)


def _named(kind: str, row: Row, known: Mapping[str, Any]) -> Any:
    """Return the story or meeting named by a row. Raises ValueError."""
    name = row[kind]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"unknown {kind} {name!r}")
    return known[name]


def _gold(kind: str, key: str, row: Row, fits: Callable[[object], bool]) -> list[Any]:
    """Return the parts that a row names as evidence, empty if it names none. Raises ValueError for an invalid one."""
    named = row.get(key, [])
    if not isinstance(named, list) or not all(map(fits, named)):
        raise ValueError(f"`{key}` names a part that the {kind} does not have")
    return named


def _beside(path: Path, kind: str, holder: type) -> dict[str, Any]:
    """Return the object in NAME-KIND.json.gz next to a file. holder: type of its values, which contain texts."""
    file = path.with_name(f"{path.name.partition('.')[0]}-{kind}.json.gz")
    try:
        parsed = _parsed(read_start(file, MAX_ROW))
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not all(isinstance(each, holder) and _are_texts(each) for each in parsed.values()):
        raise FbragError("doc_unreadable", f"{file} is not a JSON object of {kind}", _HINT, document=str(file))
    return parsed


def _is_stretch(value: object, n_turns: int) -> bool:
    """Return whether a value is a pair of a first and a last turn."""
    if not isinstance(value, list) or len(value) != 2 or not all(type(each) is int for each in value):
        return False
    return 0 <= int(value[0]) <= int(value[1]) < n_turns


def _are_texts(values: Any) -> bool:
    return all(isinstance(each, str) for each in (values.values() if isinstance(values, dict) else values))


# -- retrieval -------------------------------------------------------------------------------------------------------------------


class Pool:
    """A corpus with its index for the passages of each group. Each is made when first needed."""

    def __init__(self, material: Material) -> None:
        self.passages = material.passages
        self._made: dict[str, Collection] = {}

    def of(self, group: str) -> Collection:
        """Return the collection of a group. Passage i is chunk i, since none is blank."""
        if group not in self._made:
            passages = self.passages[group]
            language = detect(" ".join(each.text for each in passages[:200]))
            texts = [(each.id, Extracted(Content(each.text), "text/plain")) for each in passages]
            corpus = build_corpus([Document.of(id, id, text, id, language) for id, text in texts], _WHOLE)
            self._made[group] = Collection(corpus, BM25.of(corpus))
        return self._made[group]

    def ranked(self, question: GoldQuestion) -> list[Passage]:
        """Return all passages of the question's group, ranked by BM25."""
        order = best(self.of(question.group).retriever.scores(question.text), None)
        return [self.passages[question.group][position] for position in order]
