"""FIT-RAG and its baselines on Natural Questions: what they find, answer, read and cost.

    python tests/benchmarks/fit_rag.py answer OUT.jsonl [--fit-rag FOLDER] [--embedder FILE.gguf] [--systems NAME ...]
        [--set longtail] [--questions 0:320] [--model NAME] [--together]
    python tests/benchmarks/fit_rag.py compare ROWS.jsonl.gz ... [--from "vanilla, 10"]
    python tests/benchmarks/fit_rag.py recall ROWS.jsonl.gz ...
    python tests/benchmarks/fit_rag.py recognizer ROWS.jsonl.gz ...

The questions are the last 320 of ../shared/train/nq.jsonl.gz, which train nothing; the document is all of its 1,600 passages, a
chunk each. --set longtail: the last questions of each set of LongTailQA, of which these passages know nothing.
`answer` writes a row for each question and system, seconds included. Right: a gold answer stands in the reply as whole words
(`contains`).
--together asks each question by all systems before the next: what prompts or scores have in common is read once, so that it takes
less time, and the seconds of a row mean nothing. --embedder: for the systems that begin with "MiniLM".
`compare` prints the share that is right, the paired difference to --from with its 95 % bootstrap interval, tokens and seconds.
Rows of the trained systems have the ranks of the passages that hold an answer among the 100 that BM25 finds, by each score;
`recall` prints the share of questions with such a passage among the best k (R@k). `recognizer` prints, for thresholds of both of
its shares, how many questions are answered without a document, and what that costs. A run that is started again goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from looking_forward import MODEL
from question_recall import BENCH, interval
from sample_languages import by_system, dense, embedder, loaded, read

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.generator import Generator, Scorer
from fbrag_cli.generation.llama.encoder import LlamaScorer
from fbrag_cli.generation.placement import ON_THE_CPU
from fbrag_cli.methods.alone import ClosedBook, GenRead, Refeed
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.fit_rag.parts import FitRagParts, load
from fbrag_cli.methods.fit_rag.windows import Reduction
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.methods.relevance.former import SHIPPED
from fbrag_cli.progress import silent
from fbrag_cli.retrieval import Retriever
from fbrag_cli.text.words import word_spans
from fbrag_cli.trace import Trace
from fbrag_cli.training.rows import GoldQuestion, Pool, read_material
from tests.methods.scripted import retrieved

NQ, LONG_TAIL = (BENCH.parent / "train" / f"{name}.jsonl.gz" for name in ("nq", "longtail"))
LAST = 60  # questions of each set of LongTailQA, which train nothing
AT, BLOCK = (1, 3, 5, 10, 20), 20
DENSE = "MiniLM"
#: Controls that have as many words of a question as "fit-rag" took.
AT_EQUAL_WORDS = ("control: first passages", "control: BM25's windows")
_SHORT: dict[str, Any] = {"max_tokens": 32, "allow_unsupported": True}


def systems(folder: str | None, embedder: Path | None) -> dict[str, Method]:
    """The methods by their names in tables. folder: of the trained parts. Those that need what is None are missing."""
    fit = partial(FitRag, fit_rag=folder, **_SHORT)
    bm25 = partial(FitRag, **_SHORT)
    untrained: dict[str, Method] = {
        "model alone": ClosedBook(**_SHORT),
        "genread": GenRead(**_SHORT),
        "refeed, 10": Refeed(select=10, **_SHORT),
        "vanilla, 10": Vanilla(select=10, **_SHORT),
        "vanilla, 5": Vanilla(select=5, **_SHORT),
        "vanilla, 3": Vanilla(select=3, **_SHORT),
        "vanilla, 1": Vanilla(select=1, **_SHORT),
        "fb-rag, 10": FBRag(recall=8, samples=3, forward_tokens=48, select=10, **_SHORT),
        "BM25, a window of each": bm25(reduce="windows"),
        "BM25, enough by relevance": bm25(reduce="enough"),
        "BM25, the paper's prompt": bm25(reduce="windows", prompt_style="paper", max_tokens=96),
    }
    if embedder:
        untrained |= {f"{DENSE}, {n}": Vanilla(select=n, **_SHORT) for n in (10, 5, 3, 1)}
    if folder is None:
        return untrained
    return untrained | {  # in an order in which prompts begin as the one before
        "fit-rag": fit(),
        "fit-rag, recognizer": fit(self_knowledge=True),
        "fit-rag, a window of each": fit(reduce="windows"),
        "control: 5 windows": fit(reduce="windows", select=5),
        "fit-rag, 5 passages": fit(select=5),
        "fit-rag, 20 passages": fit(select=20),
        "fit-rag, 15 passages": fit(select=15),
        "fit-rag, no reducer": fit(reduce="off"),
        "control: first passages": fit(reduce="off"),
        "has-answer alone": fit(reduce="off", rank_by="has-answer"),
        "llm-prefer alone": fit(reduce="off", rank_by="llm-prefer"),
        "control: BM25's windows": bm25(reduce="windows"),
    }


class Passages:
    """The questions that train nothing, and the passages of Natural Questions, a chunk each."""

    def __init__(self, asked: str = "nq") -> None:
        material = read_material([NQ])
        self.questions = [each for each in material.questions if each.dev] if asked == "nq" else long_tail()
        (self._group,) = material.passages
        self.passages = material.passages[self._group]
        collection = Pool(material).of(self._group)
        self.corpus, self.retriever = collection.corpus, collection.retriever

    def tools(self, large: Generator, parts: FitRagParts | None, retriever: Retriever | None = None) -> Tools:
        return Tools(
            corpus=self.corpus,
            retriever=retriever or self.retriever,
            progress=silent,
            cancellation=Cancellation(),
            model=lambda role: large,
            part=lambda folder, load: cast("Any", load(SHIPPED, LlamaScorer) if folder == str(SHIPPED) else parts),
        )


def long_tail() -> list[GoldQuestion]:
    """Return the last questions of each set, the sets in turn."""
    by_set: dict[str, list[GoldQuestion]] = {}
    for question in read_material([LONG_TAIL]).questions:
        by_set.setdefault(question.dataset, []).append(question)
    return [each for turn in zip(*(found[-LAST:] for found in by_set.values()), strict=True) for each in turn]


def _reduction(trace: Trace) -> Reduction | None:
    return trace.method_state if isinstance(trace.method_state, Reduction) else None


def opened(folder: str | None, threads: int) -> FitRagParts | None:
    return load(Path(folder), partial(LlamaScorer, placement=ON_THE_CPU, threads=threads)) if folder else None


def chosen(asked: Passages, options: argparse.Namespace) -> list[GoldQuestion]:
    first, last = map(int, options.questions.split(":"))
    return asked.questions[first:last]


# -- answer ------------------------------------------------------------------------------------------------------------------


def answer(out: Path, options: argparse.Namespace) -> None:
    asked, parts = Passages(options.set), opened(options.fit_rag, options.threads)
    if parts and options.together:
        parts = replace(parts, scorer=ScoredOnce(parts.scorer))
    large = loaded(options.model, options.threads)
    by = embedder(options.embedder, options.threads) if options.embedder else None
    by_vectors = dense(by, (each.text for each in asked.passages)) if by else None
    kept = {(row["id"], row["system"]): row for row in (read(out) if out.exists() else [])}
    with out.open("a", encoding="utf-8") as rows:
        for question, name, method in work(chosen(asked, options), options):
            if (question.id, name) in kept:
                continue
            if name in AT_EQUAL_WORDS:
                method = replace(cast("FitRag", method), max_words=kept[question.id, "fit-rag"]["words"])
            retriever = by_vectors if name.startswith(DENSE) else None
            row = answered(question, name, method, asked, asked.tools(large, parts, retriever))
            kept[question.id, name] = row
            print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def work(questions: Sequence[GoldQuestion], options: argparse.Namespace) -> Iterator[tuple[GoldQuestion, str, Method]]:
    """Yield a block of questions by each system, then the next block: a prompt and the one before share no passages.

    --together: blocks of one question.
    """
    size = 1 if options.together else BLOCK
    for start in range(0, len(questions), size):
        for name, method in systems(options.fit_rag, options.embedder).items():
            if options.systems is None or name in options.systems:
                yield from ((question, name, method) for question in questions[start : start + size])


class ScoredOnce:
    """A scorer that keeps the scores of the last question."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self.name, self.key, self.embed = scorer, scorer.name, scorer.key, scorer.embed
        self._question, self._kept = "", dict[str, Any]()

    def scores(self, question: str, texts: Sequence[str]) -> Any:
        if question != self._question:
            self._question, self._kept = question, {}
        new = [each for each in dict.fromkeys(texts) if each not in self._kept]
        self._kept |= dict(zip(new, self._scorer.scores(question, new), strict=True))
        return np.stack([self._kept[each] for each in texts])


def answered(question: GoldQuestion, name: str, method: Method, asked: Passages, tools: Tools) -> dict[str, Any]:
    started = perf_counter()
    trace = method.answer(retrieved(method, question.text, tools), tools)
    seconds, reduction = perf_counter() - started, _reduction(trace)
    return {
        "id": question.id,
        "system": name,
        "answer": trace.answer,
        "right": question.answered_in(trace.answer or ""),
        "holds": any(question.answered_in(each.text) for each in trace.context),
        "read": len(trace.context),
        "words": words_of(trace),
        "tokens": sum(each.prompt_tokens for each in trace.stages),
        "written": sum(each.generated_tokens for each in trace.stages),
        "seconds": round(seconds, 2),
        **({} if reduction is None else {"told": reduction.told, "known": reduction.known, "eligible": reduction.eligible}),
        **({} if reduction is None or reduction.labels is None else ranked(question, asked, trace)),
    }


def words_of(trace: Trace) -> int:
    return sum(sum(1 for _ in word_spans(each.text)) for each in trace.context)


def compare(rows: Sequence[dict[str, Any]], base: str) -> None:
    kept = by_system(rows)
    for name, found in kept.items():
        ids = [each for each in kept[base] if each in found]
        if not ids:
            continue
        after, before = ([rows_of[each] for each in ids] for rows_of in (found, kept[base]))
        right, other = (np.array([100.0 * row["right"] for row in each]) for each in (after, before))
        low, high = interval(right - other)
        means = {key: float(np.mean([row[key] for row in after])) for key in ("holds", "read", "tokens", "seconds")}
        seconds = np.median([row["seconds"] for row in after])
        shorter = 1 - means["tokens"] / float(np.mean([row["tokens"] for row in before]))
        print(
            f"{name:26} n {len(ids):3}  right {right.mean():5.1f} %  {(right - other).mean():+5.1f} ({low:+.1f} to {high:+.1f})"
            f"  | {100 * means['holds']:.1f} % read the answer, {means['read']:.1f} pieces, {means['tokens']:.0f} tokens"
            f" ({-100 * shorter:+.0f} %), median {seconds:.1f} s"
        )


# -- ranks -------------------------------------------------------------------------------------------------------------------


def ranked(question: GoldQuestion, asked: Passages, trace: Trace) -> dict[str, Any]:
    """Return, for each score, the ranks (from 0) of the candidates that hold an answer."""
    reduction = _reduction(trace)
    assert reduction
    assert reduction.labels is not None
    candidates, labels = [chunk.position for chunk in reduction.candidates], reduction.labels
    holds = [question.has_answer(asked.passages[each]) for each in candidates]
    scores: dict[str, Any] = {
        "BM25": trace.scores.backward[candidates],
        "Has_Answer": labels[:, 0],
        "LLM_Prefer": labels[:, 1],
        "sum": labels.sum(axis=1),
    }
    orders = {name: np.argsort(-values, kind="stable") for name, values in scores.items()}
    return {
        "ranks": {name: [rank for rank, i in enumerate(order) if holds[i]] for name, order in orders.items()},
        "like_bm25": {name: round(correlation(order, orders["BM25"]), 4) for name, order in orders.items()},
    }


def correlation(one: Any, other: Any) -> float:
    """Spearman's rank correlation of two orders."""
    return float(np.corrcoef(np.argsort(one), np.argsort(other))[0, 1])


def recall(rows: Sequence[dict[str, Any]]) -> None:
    rows = list({row["id"]: row for row in rows if "ranks" in row}.values())
    for name in rows[0]["ranks"]:
        hits = {k: np.array([100.0 * any(r < k for r in row["ranks"][name]) for row in rows]) for k in AT}
        base = {k: np.array([100.0 * any(r < k for r in row["ranks"]["BM25"]) for row in rows]) for k in AT}
        told = ", ".join(f"@{k} {hits[k].mean():.1f}{_difference(hits[k] - base[k], name)}" for k in AT)
        like = np.mean([row["like_bm25"][name] for row in rows])
        print(f"{name:10} n {len(rows)}  {told} | rank correlation with BM25 {like:.2f}")


# -- the recognizer ----------------------------------------------------------------------------------------------------------


def recognizer(rows: Sequence[dict[str, Any]]) -> None:
    """Print what thresholds of S_ltod and S_nn do (-1: any share is above it)."""
    kept = by_system(rows)
    seen = [(key, row) for key, row in kept["fit-rag, recognizer"].items() if row["told"] is not None]
    natural = [(key, row) for key, row in seen if key.startswith("nq")]
    others = [row for key, row in seen if not key.startswith("nq")]
    retrieved = np.array([kept["fit-rag"][key]["right"] for key, _ in natural])
    alone = np.array([kept["model alone"][key]["right"] for key, _ in natural])
    print(f"{len(natural)} questions of NQ: {100 * retrieved.mean():.1f} % right from windows, {100 * alone.mean():.1f} alone")
    for told, known in product((-1, 0, 0.04, 0.1), (-1, 0, 0.1, 0.2, 0.3)):
        skipped = np.array([knows(row, told, known) for _, row in natural])
        differences = 100.0 * np.where(skipped, alone.astype(float) - retrieved, 0)
        low, high = interval(differences)
        line = f"s_l {told:5} s_n {known:4}: {100 * skipped.mean():5.1f} % skip"
        line += f", {differences.mean():+.1f} ({low:+.1f} to {high:+.1f})"
        if skipped.any():
            line += (
                f", of these {100 * alone[skipped].mean():.1f} right alone, {100 * retrieved[skipped].mean():.1f} from windows"
            )
        if others:
            line += f" | LongTailQA, n {len(others)}: {100 * np.mean([knows(row, told, known) for row in others]):.1f} % skip"
        print(line)


def knows(row: dict[str, Any], told: float, known: float) -> bool:
    return bool(row["told"] > told and row["known"] > known)


def _difference(differences: Any, name: str) -> str:
    low, high = interval(differences)
    return "" if name == "BM25" else f" ({differences.mean():+.1f}, {low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["answer", "compare", "recall", "recognizer"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--fit-rag", metavar="FOLDER")
    parser.add_argument("--embedder", type=Path, metavar="FILE.gguf")
    parser.add_argument("--systems", nargs="+")
    parser.add_argument("--set", default="nq", choices=["nq", "longtail"])
    parser.add_argument("--questions", default="0:320", metavar="FROM:TO")
    parser.add_argument("--from", dest="base", default="vanilla, 10")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default=MODEL)
    options = parser.parse_args()
    if options.do == "answer":
        answer(options.files[0], options)
        return
    rows = [row for path in options.files for row in read(path)]
    if options.do == "compare":
        compare(rows, options.base)
    else:
        {"recall": recall, "recognizer": recognizer}[options.do](rows)


if __name__ == "__main__":
    main()
