"""Other ways to look forward, by the same questions: the answer first, the paper's own prompts, and a dense retriever as S.

    python tests/benchmarks/forward_prompts.py draw OUT.jsonl --form "answer first" [--questions 0:120]
    python tests/benchmarks/forward_prompts.py compare SAMPLES.jsonl.gz OTHER.jsonl.gz ... [--answers ROWS.jsonl.gz]
    python tests/benchmarks/forward_prompts.py dense SAMPLES.jsonl.gz --embedder MiniLM.gguf

The questions are those of stage_three.py, which draws the samples of our own prompt. "answer first": the answer, then its
explanation (FB-RAG, Table 8), in as many tokens. "paper": the prompts of Tables 4 to 6 (../shared/bench/paper_prompts.json).
`compare` prints how many samples hold an answer, evidence recall at 5 chunks and how often those hold a gold answer, each with
the paired difference to the first file; with --answers, how well agreement tells right answers of the default from wrong ones.
`dense` does the same for MiniLM as S of equations 4 and 5 (Table 7), for the question alone and with the samples.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from looking_forward import DRAWN, MODEL, Key, collected, from_samples, interval, retrieved
from question_recall import BENCH
from sample_languages import loaded, read
from stage_three import drawn_samples, questions

from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall, main_metric
from fbrag_cli.generation.generator import Generation, Turn
from fbrag_cli.generation.llama.embedding import LlamaEmbedder
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.placement import ON_THE_CPU
from fbrag_cli.methods import fb_rag
from fbrag_cli.methods.confidence import judged
from fbrag_cli.methods.prompts import BETWEEN, Templates
from fbrag_cli.retrieval.dense import Dense
from fbrag_cli.retrieval.ranking import best

_EXPLAINED = re.compile(r"\s*\n+\s*explanation\s*:\s*", re.IGNORECASE)
_PAPER = {"fairytaleqa": "narrativeqa"}  # a set of stories, whose prompts the paper gives for another one


def answer_first(context: Sequence[str], question: str, *_: object) -> tuple[Turn, ...]:
    """Stage II's turns, where the answer comes first."""
    asked = (
        f"Answer the question from the passages below.\n\nPassages:\n{BETWEEN.join(context)}\n\n"
        "Now write on one line that begins with 'Answer:' the answer in as few words as you can. Then, on a new line that "
        "begins with 'Explanation:', write two short sentences that say which facts of the passages lead to it, with the "
        f"names of the people, places and things.\n\nQuestion: {question}"
    )
    return Turn("user", asked), Turn("assistant", "Answer:")


def turned(text: str) -> str:
    """Return a sample of `answer_first` in the order of our own prompt, so that the rest reads it."""
    answer, *explanation = _EXPLAINED.split(text.strip(), maxsplit=1)
    return f"{explanation[0].strip() if explanation else ''}\nAnswer: {answer.strip()}"


def paper_prompts(dataset: str) -> Templates:
    prompts = json.loads((BENCH / "paper_prompts.json").read_text("utf-8"))["prompts"]
    return Templates(forward=prompts[_PAPER.get(dataset, dataset)]["forward"], name="paper")


def draw(out: Path, options: argparse.Namespace) -> None:
    small = loaded(MODEL, options.threads)
    if options.form == "answer first":
        fb_rag.forward_turns = answer_first  # type: ignore[assignment]
    done = {(row["set"], row["id"]) for row in read(out)} if out.exists() else set()
    first, last = map(int, options.questions.split(":"))
    with out.open("a", encoding="utf-8") as rows:
        for key, example in list(questions().items())[first:last]:
            if key in done:
                continue
            method = replace(DRAWN, templates=paper_prompts(example.dataset)) if options.form == "paper" else DRAWN
            trace, _ = retrieved(example, method, small)
            cost = next(stage for stage in trace.stages if stage.name == "forward")
            row = {
                "set": key[0],
                "id": key[1],
                "form": options.form,
                "model": MODEL,
                "settings": DRAWN.described(),
                "samples": [
                    [each.seed, each.finish, turned(each.text) if options.form == "answer first" else each.text]
                    for each in trace.samples
                ],
                "cost": {name: value for name, value in asdict(cost).items() if name not in ("name", "first_token_seconds")},
            }
            print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def found(example: Example, scores: Any) -> tuple[float, float | None]:
    """Evidence recall of the 5 best chunks in percent, and whether they hold a gold answer (100 or 0; None for a summary)."""
    corpus = collected(example.context()).corpus
    chunks = [corpus.chunks[i] for i in best(scores, 5)]
    recall = evidence_recall(example.evidence, [(each.start, each.end) for each in chunks], corpus.documents[0].text) or 0.0
    holds = None if example.dataset == "qmsum" else 100 * answer_in(example, [each.text for each in chunks])
    return 100 * recall, holds


def line(name: str, mine: Mapping[Key, tuple[float, float | None]], base: Mapping[Key, tuple[float, float | None]]) -> str:
    told = f"{name:34} n {len(mine):3}"
    for i, what in enumerate(("evidence at 5", "answer in 5")):
        keys = [key for key in mine if mine[key][i] is not None]
        values, others = (np.array([each[key][i] for key in keys], float) for each in (mine, base))
        told += f"  {what} {values.mean():.1f} {interval(values - others)}"
    return told


def compare(options: argparse.Namespace) -> None:
    asked = questions()
    drawn = [drawn_samples([path]) for path in options.files]
    keys = [key for key in asked if all(key in each for each in drawn)]
    base: dict[Key, tuple[float, float | None]] = {}
    for path, samples in zip(options.files, drawn, strict=True):
        traces = {key: from_samples(asked[key], samples[key], DRAWN)[0] for key in keys}
        results = {key: found(asked[key], traces[key].scores.combined) for key in keys}
        base = base or results
        print(line(path.name, results, base))
        parsed = [fb_rag.parse_sample(0, Generation(text, 0, "stop", 0)) for key in keys for text in samples[key]]
        print(f"    {100 * np.mean([bool(each.answer) for each in parsed]):.1f} % of the samples hold an answer", end="")
        cut = [finish == "length" for row in read(path) if (row["set"], row["id"]) in keys for _, finish, _ in row["samples"]]
        print(f", {100 * np.mean(cut):.1f} % are cut", end="")
        if options.answers:
            agreed = [
                (
                    row["scores"][main_metric(asked[key])] >= 0.5,
                    judged(replace(traces[key], answer=row["answer"]), row["support"]),
                )
                for row in read(options.answers)
                if row["way"] == "default" and (key := (row["set"], row["id"])) in traces and key[0] != "qmsum"
            ]
            right = np.array([each for each, _ in agreed])
            for what in ("agreement", "confidence"):
                values = np.array([getattr(trace, what) or 0 for _, trace in agreed])
                above = values[right][:, None] - values[~right]
                print(f"; AUC of {what} {((above > 0) + 0.5 * (above == 0)).mean():.3f} (n {len(right)})", end="")
        print()


def dense(options: argparse.Namespace) -> None:
    asked, samples = questions(), drawn_samples(options.files)
    embedder = LlamaEmbedder(options.embedder, Loading(placement=ON_THE_CPU, threads=options.threads))
    rows: dict[str, dict[Key, tuple[float, float | None]]] = {}
    for key, texts in samples.items():
        example = asked[key]
        collection = collected(example.context())
        minilm = Dense(embedder, embedder.embed([chunk.text for chunk in collection.corpus.chunks], query=False))
        said = [f"{each.rationale} {each.answer}" for each in map(_parsed, texts)]
        for name, retriever in (("BM25", collection.retriever), ("MiniLM", minilm)):
            alone = retriever.scores(example.question)
            forward = np.stack([retriever.scores(text) for text in said]).max(axis=0)
            rows.setdefault(f"{name}, question alone", {})[key] = found(example, alone)
            rows.setdefault(f"{name}, with samples", {})[key] = found(example, 0.5 * alone + 0.5 * forward)
            rows.setdefault(f"{name}, samples alone", {})[key] = found(example, forward)
    for name, results in rows.items():
        print(line(name, results, rows["BM25, with samples"]))


def _parsed(text: str) -> Any:
    return fb_rag.parse_sample(0, Generation(text, 0, "stop", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["draw", "compare", "dense"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--form", choices=["answer first", "paper"], default="answer first")
    parser.add_argument("--questions", default="0:120", metavar="FROM:TO")
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--embedder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do == "draw":
        draw(options.files[0], options)
    else:
        {"compare": compare, "dense": dense}[options.do](options)


if __name__ == "__main__":
    main()
