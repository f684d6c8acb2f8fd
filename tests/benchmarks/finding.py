"""What is found whose words do not meet the question's, and what the rules for it cost on the sets.

    python tests/benchmarks/finding.py cases             # 50 questions of finding_cases.py: found among the best five
    python tests/benchmarks/finding.py sets [-o FILE]    # evidence recall in percent at 3, 5, 10 on the eight sets
    python tests/benchmarks/finding.py forms             # the table "Folders of forms" of README.md
    python tests/benchmarks/finding.py speed             # seconds of CPU time to index and to score, bytes of the index

`cases`: a question is found if the prompt of the five best passages holds the words that answer it; a question counts in the half
that chose the rules or in the one that was kept for the end. `sets`: all questions with evidence by the question alone, and the
270 of looking_forward.py with its first three kept samples. -o: also writes the recall of each question, a row each, so that
two versions can be compared. To compare two versions in time, run both in turn.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from looking_forward import DRAWN, RESULTS, collected, from_samples, questions, recalls, samples_by_name
from question_recall import BENCH
from sample_languages import read

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import load_examples
from fbrag_cli.indexing.collect import collect, collect_one
from fbrag_cli.indexing.entry import IndexedFile, ReadSettings, parts_of
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.method import Tools
from fbrag_cli.progress import Listener, silent
from fbrag_cli.query import Collection, Query
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.retrieval.term_counts import count_terms
from fbrag_cli.storage.cache import NOWHERE
from fbrag_cli.trace import Trace
from tests.retrieval.finding_cases import write

ALL = ["musique", "hotpotqa", "2wikimqa", "qmsum", "fairytaleqa", "musique150k", "xquad.en", "xquad.zh"]


def opened(path: Path) -> Collection:
    """The collection of a folder, or of a file alone if the folder has one."""
    files = find_files([str(path)]).files
    if len(files) == 1:
        return collect_one(files[0].path, ReadSettings(), NOWHERE, None, Listener())
    return collect(files, ReadSettings(), NOWHERE)


def selected(collection: Collection, question: str, n: int = 5) -> Trace:
    method = OrderPreserving(select=n)
    tools = Tools(
        corpus=collection.corpus,
        retriever=collection.retriever,
        progress=silent,
        cancellation=Cancellation(),
        model=None,  # type: ignore[arg-type]
    )
    return method.retrieve(Query(question, collection, method), tools)


def cases() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = write(Path(folder))
        collections = {name: opened(Path(folder) / name) for name in dict.fromkeys(each.files for each in asked)}
        found: dict[bool, list[bool]] = {False: [], True: []}
        missed = []
        for each in asked:
            trace = selected(collections[each.files], each.text)
            found[each.kept].append(each.evidence in "\n".join(trace.method.passages(trace)))
            missed += [] if found[each.kept][-1] else [f"  {each.files}{', kept' if each.kept else ''}: {each.text}"]
    for kept, name in ((False, "chose the rules"), (True, "kept for the end")):
        print(f"{name:16}  found at 5: {sum(found[kept])} of {len(found[kept])}, {100 * np.mean(found[kept]):.0f} %")
    print("not found:", *missed, sep="\n")


def sets(out: Path | None) -> None:
    rows: list[dict[str, Any]] = []
    for name in ALL:
        examples = [each for each in load_examples([BENCH / f"{name}.jsonl.gz"]) if each.evidence]
        rows += [
            {
                "set": name,
                "id": each.id,
                "by": "question",
                "recall": recalls(each, collected(each.context()).retriever.scores(each.question)),
            }
            for each in examples
        ]
    samples = samples_by_name(read(RESULTS / "looking-forward.jsonl.gz"))["2 chunks"]
    for key, example in questions().items():
        if key in samples:
            trace, _ = from_samples(example, samples[key][: DRAWN.samples], DRAWN)
            rows.append({"set": key[0], "id": key[1], "by": "samples", "recall": recalls(example, trace.scores.combined)})
    for by in ("question", "samples"):
        for name in (*ALL, "all"):
            of_set = [row["recall"] for row in rows if row["by"] == by and name in (row["set"], "all")]
            if of_set:
                told = "".join(f"{100 * mean:8.2f}" for mean in np.mean(of_set, axis=0))
                print(f"{by:10}{name:14}{len(of_set):6}{told}")
    if out:
        out.write_text("".join(json.dumps(row) + "\n" for row in rows))


FORM = (
    "LEASE. This lease is made between the harbour board and {name} Ltd, the tenant, who rents a shed on the {quay} quay. The "
    "rent is {rent} euros a month. Either party may end the lease with 30 days of notice. The tenant repairs the shed and "
    "insures the goods in the shed against fire and water. He may put a sign at the door of the shed. {clause}The law applies."
)
CLAUSES = {
    "Fuel may be stored in the shed, up to 60 litres, in closed cans. ": "How much fuel may be stored in a shed?|Is fuel allowed "
    "in the shed?|fuel|the limit for fuel|May the tenant keep fuel, and how many litres?",
    "Boats may lie at the door for 3 nights, if they are tied up well. ": "How many nights may boats lie at the door?|Are boats "
    "allowed at the shed?|boats|nights for boats|May the tenant tie up boats, and for how many nights?",
    "Music is allowed in the evening until 9 if the neighbours agree. ": "Until when is music allowed?|May the tenant play "
    "music?|music|music in the evening|Do the neighbours have to agree to music in the shed?",
}


def forms() -> None:
    """Leases of one form; a clause in a share of them: the share of the best five, or of as many as hold it, that holds it."""
    of_one = [(5, 1), (5, 3), (20, 2), (20, 10), (20, 12), (20, 16), *((200, n) for n in (2, 20, 100, 120, 160))]
    for n_files, n_held, each in [*((*shape, 1) for shape in of_one), (18, 9, 20), (18, 11, 20)]:
        shares = []
        for clause, asked in CLAUSES.items():
            for draw in range(3):
                chance = Random(f"{n_files} {n_held} {draw}")
                held = [i < n_held for i in range(n_files)]
                chance.shuffle(held)
                documents = []
                for i, has in enumerate(held):
                    made = [FORM.format(name=f"Tenant{i}x{k}", quay=chance.choice(["east", "west"]),
                            rent=chance.choice([400, 500, 600]), clause=clause if has else "") for k in range(each)]  # fmt: skip
                    documents.append(Document.of(f"{i}", f"{i}", Extracted(Content("\n\n".join(made)), "text/plain")))
                bm25 = BM25.of(build_corpus(documents, 10_000))
                n = min(5, n_held)
                shares += [np.mean([held[i] for i in best(bm25.scores(question), n)]) for question in asked.split("|")]
        of = ", of 20 leases each" if each > 1 else ""
        print(f"{n_files:4} files, {n_held:3} with the clause{of:22} {100 * np.mean(shares):6.1f}  (n = {len(shares)})")


def speed() -> None:
    """The novel-like text is the longest of the sets; the folder is 200 parts of it."""
    text = next(iter(load_examples([BENCH / "musique150k.jsonl.gz"]))).context()
    example = [each.question for each in load_examples([BENCH / "musique150k.jsonl.gz"])]
    size = len(text) // 200
    for name, parts in (("novel", [text]), ("folder of 200", [text[i * size : (i + 1) * size] for i in range(200)])):
        documents = [Document.of(f"{i}", f"{i}", Extracted(Content(part), "text/plain")) for i, part in enumerate(parts)]
        started = time.process_time()
        corpus = build_corpus(documents)
        counts = count_terms(corpus)
        indexed = time.process_time() - started
        bm25 = BM25(counts)
        for question in example:
            bm25.scores(question)
        started = time.process_time()
        fresh = BM25(counts)
        made = time.process_time() - started
        started = time.process_time()
        for question in example * 3:
            fresh.scores(question)
        scored = time.process_time() - started
        _, held = parts_of(IndexedFile(documents[0], corpus.spans[:, 1:], counts))
        size_of_index = sum(array.nbytes for key, array in held.items() if key not in ("text", "spans"))
        each = 1000 * scored / len(example) / 3
        print(f"{name:14} index {indexed:.3f} s, idf {1000 * made:.1f} ms, {each:.3f} ms a question, {size_of_index:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["cases", "sets", "forms", "speed"])
    parser.add_argument("-o", type=Path, dest="out")
    options = parser.parse_args()
    if options.do == "sets":
        sets(options.out)
    else:
        {"cases": cases, "forms": forms, "speed": speed}[options.do]()


if __name__ == "__main__":
    main()
