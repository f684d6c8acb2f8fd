"""Evidence recall with forward samples in documents of other languages, for one version of fbrag.

    python tests/benchmarks/sample_languages.py draw OUT.jsonl --sets xquad.zh notices.ru [--questions 20] [--model NAME]
    python tests/benchmarks/sample_languages.py rescore ROWS.jsonl.gz OUT.jsonl
    python tests/benchmarks/sample_languages.py compare BEFORE.jsonl.gz AFTER.jsonl.gz

`draw` asks the small model, and writes a row a question: its samples, and the recall at 1, 3, 5 and 10 chunks by the question
alone and with the samples ("fb"). `rescore` takes the samples of other rows: another version's scoring of them. `compare`
prints means and paired differences with 95 % bootstrap intervals. To measure another version, run the script with PYTHONPATH set
to its tree. The sets are those of question_recall.py; a notice is a chunk.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from question_recall import interval, questions

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.metrics import evidence_recall
from fbrag_cli.generation.generator import Generation, Generations, Generator, ModelInfo
from fbrag_cli.generation.llama.encoder import LlamaEmbedder
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.placement import ON_THE_CPU
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Tools
from fbrag_cli.progress import silent
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.dense import Dense
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.languages import detect
from tests.methods.scripted import retrieved

AT = (1, 3, 5, 10)


class Kept:
    """A `Generator` whose reply to the next call is that of a row."""

    info = ModelInfo("kept", None, "0/0", None)
    choice_probabilities = None
    samples: tuple[Generation, ...] = ()

    def generate(self, *_: object) -> Generations:
        return Generations(self.samples, 0, 0, 0.0, 0.0)

    def render_prompt(self, *_: object) -> str:
        return ""

    def count_tokens(self, text: str, *_: object) -> int:
        return len(text)


def loaded(name: str, threads: int) -> Generator:
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.models.catalog import load_catalog
    from fbrag_cli.models.store import resolve
    from fbrag_cli.storage.paths import models_dir

    path = resolve(name, models_dir(), load_catalog()).path
    return LlamaGenerator(path, Loading(name=name, threads=threads, placement=ON_THE_CPU))


def by_system(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return rows by their system and by the id of their question."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["system"], {})[row["id"]] = row
    return found


def by_way(rows: Iterable[dict[str, Any]]) -> dict[str, dict[tuple[str, str], dict[str, Any]]]:
    """Return rows by their way to answer, and by the set and the id of their question."""
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["way"], {})[row["set"], row["id"]] = row
    return found


def embedder(path: Path, threads: int) -> LlamaEmbedder:
    return LlamaEmbedder(path, Loading(placement=ON_THE_CPU, threads=threads))


def dense(by: LlamaEmbedder, texts: Iterable[str]) -> Dense:
    """Return what ranks texts by an embedding model."""
    return Dense(by, by.embed(list(texts), query=False))


@lru_cache(maxsize=1)
def indexed(text: str, chunk_words: int) -> tuple[Corpus, BM25]:
    document = Document.of("d", "d", Extracted(Content(text), "text/plain"), language=detect(text))
    if chunk_words:
        corpus = build_corpus([document], chunk_words)
    else:
        spans = [(0, *found.span(), 0) for found in re.finditer(".+", text)]
        corpus = Corpus((document,), np.array(spans, np.int32), 0, "")
    return corpus, BM25.of(corpus)


def measured(name: str, row: dict[str, Any], method: FBRag, small: Generator, chunk_words: int) -> dict[str, Any]:
    """Return a question's row. chunk_words: 0 where a chunk is a paragraph."""
    corpus, bm25 = indexed(row["context"], chunk_words)
    trace = retrieved(
        method,
        row["input"],
        Tools(
            corpus=corpus,
            retriever=bm25,
            progress=silent,
            cancellation=Cancellation(),
            model=lambda role: small,
        ),
    )

    def recalls(scores: Any) -> list[float | None]:
        spans = [[(corpus.chunks[i].start, corpus.chunks[i].end) for i in best(scores, k)] for k in AT]
        return [evidence_recall(row["evidence"], each, row["context"]) for each in spans]

    return {
        "set": name,
        "question": row["input"],
        "language": corpus.documents[0].language,
        "model": small.info.name,
        "chunk_words": chunk_words,
        "chunks": len(corpus.chunks),
        "recall": method.recall,
        "at": AT,
        "question_alone": recalls(trace.scores.backward),
        "fb": recalls(trace.scores.combined),
        "samples": [[sample.seed, sample.finish, sample.text] for sample in trace.samples],
        "sample_languages": [detect(sample.scored_text) for sample in trace.samples],
    }


def asked(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows of `draw`."""
    small = loaded(options.model, options.threads)
    method = FBRag(recall=options.recall, samples=options.samples, forward_tokens=options.forward_tokens)
    for name in options.sets:
        for row in questions(name, options.questions):
            yield measured(name, row, method, small, row["chunk_words"])


def rescored(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows again, their samples scored by this version."""
    small = Kept()
    for kept in rows:
        row = next(each for each in questions(kept["set"], 1000) if each["input"] == kept["question"])
        small.info = ModelInfo(kept["model"], None, "0/0", None)
        small.samples = tuple(Generation(text, 0, finish, seed) for seed, finish, text in kept["samples"])
        yield measured(kept["set"], row, FBRag(recall=kept["recall"]), small, kept["chunk_words"])


def read(path: Path) -> list[dict[str, Any]]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> None:
    """Print a line a set and number of chunks. Questions that one of the two does not have are left out."""
    later = {(row["set"], row["question"]): row for row in after}
    pairs = [(row, later[row["set"], row["question"]]) for row in before if (row["set"], row["question"]) in later]
    for name in dict.fromkeys(row["set"] for row, _ in pairs):
        own = [pair for pair in pairs if pair[0]["set"] == name]
        languages = [sorted({each for row in rows for each in row["sample_languages"]}) for rows in zip(*own, strict=True)]
        kinds = [
            [sum(row["sample_languages"].count(each) for row in rows) for each in found]
            for rows, found in zip(zip(*own, strict=True), languages, strict=True)
        ]
        samples = "; ".join(
            ", ".join(f"{n} {each or 'unclear'}" for each, n in zip(found, counts, strict=True))
            for found, counts in zip(languages, kinds, strict=True)
        )
        print(f"{name}: {len(own)} questions, {own[0][0]['chunks']} chunks; samples before and after: {samples}")
        for i, k in enumerate(AT):
            alone, old, new = (
                np.array([pair[side][kind][i] for pair in own]) for side, kind in ((0, "question_alone"), (0, "fb"), (1, "fb"))
            )
            low, high = interval(new - old)
            print(
                f"  @{k:<3} question alone {alone.mean():.3f}  before {old.mean():.3f}  after {new.mean():.3f}  "
                f"difference {(new - old).mean():+.3f} ({low:+.3f} to {high:+.3f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw")
    draw.add_argument("out", type=Path)
    draw.add_argument("--sets", nargs="+", required=True)
    draw.add_argument("--questions", type=int, default=20)
    draw.add_argument("--model", default="qwen2.5-coder-1.5b")
    draw.add_argument("--threads", type=int, default=1)
    draw.add_argument("--recall", type=int, default=3)
    draw.add_argument("--samples", type=int, default=3)
    draw.add_argument("--forward-tokens", type=int, default=64)
    rescore = commands.add_parser("rescore")
    rescore.add_argument("rows", type=Path)
    rescore.add_argument("out", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        compare(read(options.before), read(options.after))
        return
    rows = asked(options) if options.command == "draw" else rescored(read(options.rows))
    with options.out.open("w", encoding="utf-8") as out:
        for row in rows:  # written as they come
            print(json.dumps(row, ensure_ascii=False), file=out, flush=True)


if __name__ == "__main__":
    main()
