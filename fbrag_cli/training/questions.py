"""Questions to train on, and the passages in which their answers may stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fbrag_cli.corpus import Chunk, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation import metrics
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.text.languages import detect
from fbrag_cli.training.evidence import Parts, is_relevant
from fbrag_cli.training.row_files import Row, RowsOfFile, read_files, title_and_text

_CHUNK_WORDS = 300  # of a meeting
# Answers that stand in many passages by chance: containment says nothing of them (FIT-RAG.md, 2.2).
_SAYS_NOTHING = re.compile(r"yes|no|\d|.{0,2}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Passage:
    """id: SHA-256 of its text, 16 hex digits. group: passages of one group are retrieved from together."""

    id: str
    text: str
    group: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with gold answers. group: of the passages among which it is asked, "" where it has none. gold: ids of the
    passages that hold the answer, as far as the row names them. verbatim: whether an answer stands in texts as it is; of a told
    story it often does not, and only `gold` counts. dev: whether it is for checking, not for training."""

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
        """Whether it means something that a text holds a gold answer."""
        return self.verbatim and bool(self._telling())

    def answered_in(self, reply: str) -> bool:
        """Return whether a gold answer stands in `reply` as whole words, normalised as for exact match."""
        return self._stands_in(reply, self.answers)

    def told_in(self, passage: str) -> bool:
        """Return the same of a passage, in which an answer like "5" may stand by chance: only other ones count."""
        return self._stands_in(passage, self._telling())

    def _telling(self) -> tuple[str, ...]:
        return tuple(answer for answer in self.answers if not _SAYS_NOTHING.fullmatch(answer.strip()))

    def _stands_in(self, text: str, answers: tuple[str, ...]) -> bool:
        example = Example(self.id, self.dataset, self.text, answers, str, self.id)
        return bool(metrics.answer_in(example, [text]))


@dataclass(frozen=True, slots=True)
class Material:
    """questions: in the order of their files. passages: by group, each once. sha256: of each file, by its name."""

    questions: tuple[Question, ...]
    passages: Mapping[str, tuple[Passage, ...]]
    sha256: Mapping[str, str]


def read_material(paths: Iterable[Path]) -> Material:
    """Read JSON Lines (.gz or not): rows with `_id`, `input`, `answers`, and one of `documents` (passages with `text`, and
    `title` and `gold` where they are known; those of a file are retrieved from together), `story` with `gold_sections` (of
    NAME-stories.json.gz beside the file), `meeting` with `gold_turns` (of NAME-meetings.json.gz; its passages are chunks), or
    none (the question alone).

    Raises FbragError `doc_not_found`, `doc_unreadable` with the line.
    """
    questions: list[Question] = []
    passages: dict[str, dict[str, Passage]] = {}
    digests = {}
    for file in read_files(paths):
        digests[file.path.name] = sha256_of(file.path)
        meetings = {name: _Meeting.of(turns) for name, turns in file.meetings.items()}
        for row, dev in file.rows:
            own, gold = _passages(file, row, meetings)
            if own:
                passages.setdefault(own[0].group, {}).update({each.id: each for each in own})
            group = own[0].group if own else ""
            answers = tuple(map(str, row["answers"]))
            verbatim = row.keys().isdisjoint(("story", "meeting"))
            questions.append(Question(row["_id"], row["dataset"], row["input"], answers, group, gold, verbatim, dev))
    return Material(tuple(questions), {group: tuple(found.values()) for group, found in passages.items()}, digests)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """turns: with their places in the text. chunks: of the text."""

    turns: Parts
    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, turns: Sequence[str]) -> _Meeting:
        parts = Parts.of(turns, range(len(turns)))
        text = parts.text
        document = Document.of("m", "m", Extracted(Content(text), "text/plain"), language=detect(text))
        return cls(parts, tuple(build_corpus([document], _CHUNK_WORDS).chunks))


def _passages(file: RowsOfFile, row: Row, meetings: Mapping[str, _Meeting]) -> tuple[list[Passage], tuple[str, ...]]:
    """Return the passages of a row, none of them blank, and the ids of those that hold the answer."""
    name = file.path.name
    if "documents" in row:
        documents = row["documents"]
        found = [_passage(title_and_text(each), name) for each in documents]
        return found, tuple(found[i].id for i, each in enumerate(documents) if each.get("gold"))
    if "story" in row:
        sections = {section: text for section, text in file.stories[row["story"]].items() if text.strip()}
        found = [_passage(text, f"{name}: {row['story']}") for text in sections.values()]
        wanted = set(row["gold_sections"])
        return found, tuple(each.id for each, section in zip(found, sections, strict=True) if section in wanted)
    if "meeting" in row:
        meeting = meetings[row["meeting"]]
        spans = meeting.turns.spans_of(map(tuple, row["gold_turns"]))
        found = [_passage(chunk.text, f"{name}: {row['meeting']}") for chunk in meeting.chunks]
        return found, tuple(each.id for each, chunk in zip(found, meeting.chunks, strict=True) if is_relevant(chunk, spans))
    return [], ()


def _passage(text: str, group: str) -> Passage:
    return Passage(sha256(text.encode()).hexdigest()[:16], text, group)


def split(questions: Sequence[Question], limit: int | None) -> tuple[list[Question], list[Question]]:
    """Return the questions for the scorer and those for the detector. Both have the questions for checking.

    Of each data set the scorer has the first `limit` for training, at most two thirds (None: two thirds), the detector as many of
    those that follow; for checking a quarter of `limit` (None: all). What the scorer was trained on it scores too well to teach
    the detector.
    """
    by_set: dict[tuple[str, bool], list[Question]] = {}
    for each in questions:
        by_set.setdefault((each.dataset, each.dev), []).append(each)
    first: list[Question] = []
    second: list[Question] = []
    for (_, dev), found in by_set.items():
        if dev:
            checking = found if limit is None else found[: max(1, limit // 4)]
            first += checking
            second += checking
        else:
            n = min(limit or len(found), -(-2 * len(found) // 3))
            first += found[:n]
            second += found[n : 2 * n]
    return first, second
