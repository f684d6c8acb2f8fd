"""FIT-RAG's labels of a passage: whether it contains the answer, and whether the model answers correctly from only this passage.

Labels are rows of a file, made once per language model: this takes hours, all other stages take minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions, Generator, Sampling
from fbrag_cli.methods.prompts import answer_messages, question_messages
from fbrag_cli.progress import Listener
from fbrag_cli.session.questions import in_order
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.printable import plural
from fbrag_cli.training.fit_rag.pairs import Pair
from fbrag_cli.training.rows import GoldQuestion, Material, Passage, Pool

SCHEMA = "fbrag.label/1"
#: Passages to label per question, and how many of them may contain the answer (our choice: FIT-RAG.md, 2.2).
PASSAGES, WITH_ANSWER = 8, 3
#: Number of best-matching passages to choose from, as in the paper (section 4.2). Lower ones contain the answer by chance.
NEAREST = 50
#: Tokens of a reply, which is only the answer.
REPLY_TOKENS = 32

TrialKey = tuple[str, str, tuple[str, ...]]  # dataset, question, passages


@dataclass(frozen=True, slots=True)
class Trial:
    """A reply to make, from some passages or from none."""

    question: GoldQuestion
    passages: tuple[Passage, ...]

    @property
    def key(self) -> TrialKey:
        return *self.question.key, tuple(each.id for each in self.passages)


def split_questions(questions: Sequence[GoldQuestion], limit: int | None) -> tuple[list[GoldQuestion], list[GoldQuestion]]:
    """Return the questions for the scorer and those for the detector. Both include the questions for checking.

    From each dataset, the scorer gets the first `limit` training questions, up to two thirds (None: two thirds), and the detector
    as many of the next; for checking, both get a quarter of `limit` (None: all). They must not share training questions, because
    the scorer scores those too well to train the detector.
    """
    by_set: dict[tuple[str, bool], list[GoldQuestion]] = {}
    for each in questions:
        by_set.setdefault((each.dataset, each.dev), []).append(each)
    first: list[GoldQuestion] = []
    second: list[GoldQuestion] = []
    for (_, dev), of_set in by_set.items():
        if dev:
            checking = of_set if limit is None else of_set[: max(1, limit // 4)]
            first += checking
            second += checking
        else:
            n = min(limit or len(of_set), -(-2 * len(of_set) // 3))
            first += of_set[:n]
            second += of_set[n : 2 * n]
    return first, second


def check_questions(stage: str, questions: Iterable[GoldQuestion], others: Iterable[GoldQuestion]) -> None:
    """Raise FbragError `usage`, before the run, if the scorer or the detector (if it is to be made) has no questions for training
    or none for checking."""
    has_pairs = {each.dev for each in questions if each.group and (each.is_telling or (each.gold and not each.verbatim))}
    has_replies = {each.dev for each in others if each.group and each.is_telling}
    for name, having in (("scorer", has_pairs), ("detector", has_replies)):
        if stage in ("all", name) and having != {True, False}:
            lacking = " and none ".join(["for training"] * (False not in having) + ["for checking"] * (True not in having))
            what = f"not enough questions with passages and usable answers for the {name}: none {lacking}"
            raise FbragError("usage", what, "add rows, or run single stages: --stage labels, --stage scorer")


def trials_of(pool: Pool, questions: Iterable[GoldQuestion], others: Iterable[GoldQuestion]) -> Iterator[Trial]:
    """Yield, for each question, the trial without a passage and one trial per candidate; for each of the others only the trial
    without a passage. Questions about stories, and those whose answers many texts contain by chance, have none."""
    seen = set()
    for question in questions:
        if question.is_telling:
            seen.add(question.key)
            yield Trial(question, ())
            yield from (Trial(question, (passage,)) for passage in nearest_candidates(pool, question))
    for question in others:
        if question.is_telling and question.key not in seen:
            yield Trial(question, ())


def by_passage(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials grouped by passage, those without a passage last.

    A prompt begins with its passage, so the passage is read once for all questions.
    """
    return sorted(trials, key=lambda trial: (not trial.passages, [each.id for each in trial.passages]))


def nearest_candidates(pool: Pool, question: GoldQuestion) -> list[Passage]:
    """Return the passages to label for a question, best match first, from the best matches and its evidence; [] without a
    group."""
    if not question.group:
        return []
    ranked = pool.ranked(question)
    evidence = [each for each in ranked[NEAREST:] if each.id in question.gold]
    return candidates(question, ranked[:NEAREST] + evidence)


def candidates(question: GoldQuestion, nearest_first: Sequence[Passage]) -> list[Passage]:
    """Return the passages to label, best match first: up to three with the answer, and the best matches without it."""
    having: list[Passage] = []
    lacking: list[Passage] = []
    for passage in nearest_first:
        has = question.has_answer(passage)
        if has and len(having) < WITH_ANSWER:
            having.append(passage)
        elif not has and len(lacking) < PASSAGES:
            lacking.append(passage)
    chosen = {each.id for each in (*having, *lacking[: PASSAGES - len(having)])}
    return [each for each in nearest_first if each.id in chosen]


def labels(trials: Iterable[Trial], large: Generator, listener: Listener, at_once: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the row of each trial, in order. at_once: replies to make in shared batches. Above 1, rounding depends on the batch,
    so a resumed run may get different replies.

    `right` in a row with one passage is LLM_Prefer: the greedy reply from it contains a gold answer.
    """

    def label(trial: Trial, own: Listener) -> dict[str, Any]:
        question = trial.question
        reply = reply_of(large, [each.text for each in trial.passages], question.text, CallOptions(cancellation=own.cancellation))
        return {
            "schema": SCHEMA,
            "kind": "reply",
            "dataset": question.dataset,
            "question": question.id,
            "passages": [each.id for each in trial.passages],
            "dev": question.dev,
            "has_answer": [question.has_answer(each) for each in trial.passages],
            "right": question.answered_in(reply),
            "reply": reply,
        }

    return in_order(label, trials, at_once, listener)


def reply_of(large: Generator, texts: Sequence[str], question: str, options: CallOptions) -> str:
    """Return the model's greedy reply to a question, from some texts or from none."""
    messages = answer_messages(texts, question) if texts else question_messages(question)
    return large.generate(messages, 1, Sampling(REPLY_TOKENS, temperature=0, seed=0), options).samples[0].text.strip()


def head(model: str, material: Material) -> dict[str, Any]:
    """Return the first row of a file of labels: everything on which they depend."""
    settings = {"passages": PASSAGES, "with_answer": WITH_ANSWER, "nearest": NEAREST, "reply_tokens": REPLY_TOKENS}
    return {"schema": SCHEMA, "kind": "run", "model": model, "data": dict(material.sha256), **settings}


def key_of(row: Row) -> TrialKey:
    """Return the key of the trial whose reply is in a row."""
    return row["dataset"], row["question"], tuple(row["passages"])


def count_pairs(rows: Iterable[Row]) -> Counter[tuple[bool, bool]]:
    """Return the number of single passages for each pair of labels (Has_Answer, LLM_Prefer)."""
    return Counter((bool(row["has_answer"][0]), bool(row["right"])) for row in rows if len(row["passages"]) == 1)


def described(counts: Counter[tuple[bool, bool]]) -> str:
    """Return the counts of `count_pairs` in words. Labels that differ are mismatched."""
    both, neither, has, leads = (counts[pair] for pair in ((True, True), (False, False), (True, False), (False, True)))
    total = sum(counts.values())
    return (
        f"{plural(total, 'passage')}: {both:,} contain the answer and lead to it, {neither:,} neither, {has:,} only contain it, "
        f"{leads:,} only lead to it ({100 * (has + leads) / max(1, total):.0f}% mismatched)"
    )


def pairs_of(questions: Iterable[GoldQuestion], pool: Pool, rows: Iterable[Row]) -> list[Pair]:
    """Return the pairs of each question and its candidates, with the labels from rows; LLM_Prefer is None if there is no reply.

    Questions whose answers many texts contain by chance have no pairs.
    """
    right = {key_of(row): bool(row["right"]) for row in rows}
    pairs = []
    for question in questions:
        if question.is_telling or (question.gold and not question.verbatim):
            for passage in nearest_candidates(pool, question):
                prefers = right.get(Trial(question, (passage,)).key)
                has = question.has_answer(passage)
                pairs.append(Pair(question.text, passage.text, has, prefers, question.dev, f"{question.dataset} {question.id}"))
    return pairs
