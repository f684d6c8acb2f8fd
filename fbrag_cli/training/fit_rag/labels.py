"""FIT-RAG's labels of a passage: whether it holds the answer, and whether the model answers rightly from it alone.

A label is a row of a file, made once for a language model, and kept: all other stages take minutes, this one hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fbrag_cli.generation.generator import CallOptions, Generator, Sampling
from fbrag_cli.methods.prompts import answer_messages, question_messages
from fbrag_cli.progress import Listener
from fbrag_cli.session.questions import in_order
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.printable import plural
from fbrag_cli.training.fit_rag.pairs import Pair
from fbrag_cli.training.rows import GoldQuestion, Material, Passage, Pool

SCHEMA = "fbrag.label/1"
#: Passages of a question that are labelled, and how many of them may hold the answer (FIT-RAG.md, 2.2: ours).
PASSAGES, WITH_ANSWER = 8, 3
#: Among so many of the nearest, as in the paper (section 4.2). Farther away an answer stands in a passage by chance.
NEAREST = 50
#: Tokens of a reply: the answer alone.
REPLY_TOKENS = 32

TrialKey = tuple[str, str, tuple[str, ...]]  # data set, question, passages


@dataclass(frozen=True, slots=True)
class Trial:
    """A reply to make: from some passages, or from none."""

    question: GoldQuestion
    passages: tuple[Passage, ...]

    @property
    def key(self) -> TrialKey:
        return *self.question.key, tuple(each.id for each in self.passages)


def split_questions(questions: Sequence[GoldQuestion], limit: int | None) -> tuple[list[GoldQuestion], list[GoldQuestion]]:
    """Return the questions for the scorer and those for the detector. Both have the questions for checking.

    Of each data set the scorer has the first `limit` for training, at most two thirds (None: two thirds), the detector as many of
    those that follow; for checking a quarter of `limit` (None: all). What the scorer was trained on it scores too well to teach
    the detector.
    """
    by_set: dict[tuple[str, bool], list[GoldQuestion]] = {}
    for each in questions:
        by_set.setdefault((each.dataset, each.dev), []).append(each)
    first: list[GoldQuestion] = []
    second: list[GoldQuestion] = []
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


def trials_of(pool: Pool, questions: Iterable[GoldQuestion], others: Iterable[GoldQuestion]) -> Iterator[Trial]:
    """Yield, for each question, the reply without a passage and those with one of its candidates; for each of the others the
    reply without a passage. Questions of stories, and those whose answers stand in many texts by chance, have none."""
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
    """Return the trials of each passage one after the other, those without a passage last.

    A prompt begins with its passage, which is then read once for all questions.
    """
    return sorted(trials, key=lambda trial: (not trial.passages, [each.id for each in trial.passages]))


def nearest_candidates(pool: Pool, question: GoldQuestion) -> list[Passage]:
    """Return the passages of a question to label, nearest first, from the nearest ones and its evidence; [] without a group."""
    if not question.group:
        return []
    found = pool.ranked(question)
    evidence = [each for each in found[NEAREST:] if each.id in question.gold]
    return candidates(question, found[:NEAREST] + evidence)


def candidates(question: GoldQuestion, nearest_first: Sequence[Passage]) -> list[Passage]:
    """Return the passages to label, nearest first: up to three that hold the answer, the others the nearest that do not."""
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
    """Yield the row of each trial, in order. at_once: replies that are made in common batches. Above 1 rounding depends on the
    others in a batch, so that a run that was stopped may go on with other replies.

    `right` of a row with one passage is LLM_Prefer: the greedy reply from it holds a gold answer.
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
    """Return the model's greedy reply to a question from some texts, or from none."""
    messages = answer_messages(texts, question) if texts else question_messages(question)
    return large.generate(messages, 1, Sampling(REPLY_TOKENS, temperature=0, seed=0), options).samples[0].text.strip()


def head(model: str, material: Material) -> dict[str, Any]:
    """Return the row that begins a file of labels: what all of them depend on."""
    settings = {"passages": PASSAGES, "with_answer": WITH_ANSWER, "nearest": NEAREST, "reply_tokens": REPLY_TOKENS}
    return {"schema": SCHEMA, "kind": "run", "model": model, "data": dict(material.sha256), **settings}


def key_of(row: Row) -> TrialKey:
    """Return the key of the trial whose reply a row holds."""
    return row["dataset"], row["question"], tuple(row["passages"])


def count_pairs(rows: Iterable[Row]) -> Counter[tuple[bool, bool]]:
    """Return how many single passages have each pair of labels: Has_Answer and LLM_Prefer."""
    return Counter((bool(row["has_answer"][0]), bool(row["right"])) for row in rows if len(row["passages"]) == 1)


def described(counts: Counter[tuple[bool, bool]]) -> str:
    """Return the counts of `count_pairs` in words. Labels that differ are mismatched."""
    both, neither, has, leads = (counts[pair] for pair in ((True, True), (False, False), (True, False), (False, True)))
    total = sum(counts.values())
    return (
        f"of {plural(total, 'passage')}: {both:,} hold the answer and lead to it, {neither:,} neither, {has:,} hold it only, "
        f"{leads:,} lead to it only ({100 * (has + leads) / max(1, total):.0f} % mismatched)"
    )


def pairs_of(questions: Iterable[GoldQuestion], pool: Pool, rows: Iterable[Row]) -> list[Pair]:
    """Return the pairs of each question and its candidates, with the labels of rows; LLM_Prefer is None where no reply was made.

    Questions whose answers stand in many texts by chance have no pairs.
    """
    right = {key_of(row): bool(row["right"]) for row in rows}
    found = []
    for question in questions:
        if question.is_telling or (question.gold and not question.verbatim):
            for passage in nearest_candidates(pool, question):
                prefers = right.get(Trial(question, (passage,)).key)
                has = question.has_answer(passage)
                found.append(Pair(question.text, passage.text, has, prefers, question.dev, f"{question.dataset} {question.id}"))
    return found
