"""Follow-up questions of a conversation: what is found by them as they are typed, made whole, and as they were asked alone.

    python tests/benchmarks/followups.py draw OUT.jsonl [--method order-preserving] [--part report] [--threads 1]
    python tests/benchmarks/followups.py table ROWS.jsonl.gz ...

`followups.jsonl.gz` holds 60 pairs of questions on one document of the benchmark, and 20 controls that stand alone, by hand.
`first` and its gold `first_answer` come before `follow_up`, which names nothing that they name; `original` is the same question
alone. Rows 1 to 30 (of the controls 1 to 10) are for building, the others for reporting. Where the gold answer to `first` is half
of the original question, `evidence_last` holds what is left to find.

`draw` writes a row for each pair: what was understood, and for each way to ask the evidence recall and whether the answer
stands in the 5 chunks that are selected. "with candidates" reads the chunks that show the first answer too, which
order-preserving does not. No question is answered. `table` prints means and paired differences to the original in percent, with
95 % bootstrap intervals. A run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from looking_forward import collected
from question_recall import BENCH

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall
from fbrag_cli.evaluation.statistics import bootstrap, interval
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.fb_rag.order_preserving import OrderPreserving
from fbrag_cli.session.conversation import Conversation
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import NOWHERE
from fbrag_cli.trace import Trace

METHODS = {"order-preserving": OrderPreserving(select=5), "fb-rag": FBRag(select=5)}
METRICS = ("evidence_recall", "answer_in_context")
BUILT = {"f": 30, "c": 10}  # of the pairs and of the controls, those for building
PARTS = ("build", "report", "all")

Row = dict[str, Any]


def pairs(part: str) -> list[Row]:
    """Return the pairs and controls of a part."""
    with gzip.open(Path(__file__).with_name("followups.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if part == "all" or (int(row["id"][1:]) <= BUILT[row["id"][0]]) == (part == "build")]


def example_of(pair: Row, examples: dict[str, Example]) -> Example:
    evidence = pair.get("evidence_last") or pair["evidence"]
    return replace(examples[pair["row"]], answers=tuple(pair["answers"]), evidence=tuple(evidence))


def scored(example: Example, trace: Trace) -> dict[str, float | None]:
    chunks = [trace.corpus.chunks[position] for position in trace.ranked]
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    recall = evidence_recall(example.evidence, spans, trace.corpus.documents[0].text)
    return dict(zip(METRICS, (recall, answer_in(example, [chunk.text for chunk in chunks])), strict=True))


def drawn(pair: Row, example: Example, session: Session, method: str) -> Row:
    conversation = Conversation(session=session, collection=collected(example.context()), method=METHODS[method])
    first = conversation.ask(pair["first"], answering=False).retrieve()
    conversation.add(pair["first"], replace(first, answer=pair["first_answer"], status="answered"))
    asked = conversation.ask(pair["follow_up"], answering=False)
    row = {"id": pair["id"], "method": method, "understood": asked.question, "candidates": [*asked.candidates]}
    if pair["id"].startswith("c"):
        return {**row, "changed": asked.question != pair["follow_up"]}
    ways = {"typed": pair["follow_up"], "whole": asked.question, "original": pair["original"]}
    found = {way: replace(asked, question=question, candidates=()).retrieve() for way, question in ways.items()}
    if method == "fb-rag":
        found["with candidates"] = asked.retrieve()
    return {**row, "found": {way: scored(example, trace) for way, trace in found.items()}}


def draw(out: Path, method: str, part: str, threads: int) -> None:
    done = {row["id"] for row in read([out])} if out.exists() else set()
    todo = [pair for pair in pairs(part) if pair["id"] not in done]
    files = sorted({BENCH / f"{pair['dataset']}.jsonl.gz" for pair in todo})
    examples = {example.id: example for example in load_examples(files)}
    with Session.open(ModelSettings(threads=threads), NOWHERE) as session, out.open("a", encoding="utf-8") as rows:
        for pair in todo:
            rows.write(json.dumps(drawn(pair, example_of(pair, examples), session, method), ensure_ascii=False) + "\n")
            rows.flush()


def read(paths: Sequence[Path]) -> Iterator[Row]:
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def told(values: Sequence[float]) -> str:
    sampled = bootstrap(values)
    low, high = interval(sampled) or (float("nan"), float("nan"))
    return f"{100 * sampled.mean:+6.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def table(paths: Sequence[Path]) -> None:
    rows = list(read(paths))
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        controls = [row for row in own if "changed" in row]
        print(f"{method}: {sum(row['changed'] for row in controls)} of {len(controls)} controls changed")
        for part in PARTS[:2]:
            asked = [row["found"] for row in own if "found" in row and (int(row["id"][1:]) <= BUILT["f"]) == (part == "build")]
            for metric in METRICS if asked else ():
                for way in asked[0]:
                    values = [each[way][metric] for each in asked]
                    differences = [each[way][metric] - each["original"][metric] for each in asked]
                    print(f"{part:6} {metric:17} {way:15} n {len(asked)}  {100 * np.mean(values):5.1f}  {told(differences)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("out", type=Path)
    drawing.add_argument("--method", choices=METHODS, default="order-preserving")
    drawing.add_argument("--part", choices=PARTS, default="report")
    drawing.add_argument("--threads", type=int, default=1)
    commands.add_parser("table").add_argument("rows", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "draw":
        draw(given.out, given.method, given.part, given.threads)
    else:
        table(given.rows)
