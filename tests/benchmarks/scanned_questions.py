"""Whether the passages that answer a question are among the first five when its document is a scan.

    pip install -e '.[ocr]'
    python tests/benchmarks/scanned_questions.py text OUT.jsonl [--questions 0:40]
    python tests/benchmarks/scanned_questions.py scan OUT.jsonl [--questions 0:40]
    python tests/benchmarks/scanned_questions.py compare ROWS.jsonl[.gz]

40 questions of ../shared/bench with evidence, drawn by a seed, none of held_out.json: 16 on three meetings of QMSum, and 24 on
the document of xquad.en. `text` draws the default's forward samples for them. `scan` draws each document as A4 pages at 150
dpi, turned, blurred and noisy (as ocr.py does), and reads that PDF by OCR. Chunks are ranked by BM25 on the question alone, and
by the default's scores with the samples of the text, so that only the scan differs. A gold passage is found if the first five
chunks together have 80% of its terms, with repetitions; `exact`, of texts alone, is evidence recall as elsewhere. A row is one
question of the text or of the scan; a run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import mean
from typing import Any

import numpy as np
from looking_forward import DRAWN, MODEL, collected, drawn, from_samples
from ocr import LEADING, MARGIN, PAGE, STATES, font, scanned, wrapped
from question_recall import BENCH, interval
from sample_languages import loaded, read

from fbrag_cli.documents.load import load
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import evidence_recall
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag.fb_rag import score
from fbrag_cli.query import Collection
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.words import terms

HERE = Path(__file__).resolve().parent
SEED = 62
STATE = "150 dpi, blur, noise"
N_READ, SHARE = 5, 0.8
DRAWN_OF = {"qmsum": 16, "xquad.en": 24}
MEETINGS = (3224, 4746, 6021)  # words of the meetings of QMSum: short ones with six questions each

Key = tuple[str, str]


def questions() -> dict[Key, Example]:
    """The 40 questions, those of one document after each other, the shortest documents first."""
    held = {each for of_list in json.loads((HERE / "held_out.json").read_text("utf-8")).values() for _, each in of_list}
    found = list[Example]()
    for name, n in DRAWN_OF.items():
        examples = [each for each in load_examples([BENCH / f"{name}.jsonl.gz"]) if each.evidence and each.id not in held]
        if name == "qmsum":
            examples = [each for each in examples if len(each.context().split()) in MEETINGS]
        found += Random(f"{SEED} {name}").sample(examples, n)
    found.sort(key=lambda each: (len(each.context()), each.context(), each.id))
    return {(each.dataset, each.id): each for each in found}


def pages(text: str) -> Iterator[Any]:
    """Yield the pages of a text as images of a scanner: A4, 11 points, one column."""
    from PIL import Image, ImageDraw

    lines = list(wrapped(text, "en", PAGE[0] - 2 * MARGIN))
    rows = (PAGE[1] - 2 * MARGIN) // LEADING
    for first in range(0, len(lines), rows):
        image = Image.new("L", PAGE, 255)
        draw = ImageDraw.Draw(image)
        for i, line in enumerate(lines[first : first + rows]):
            draw.text((MARGIN, MARGIN + i * LEADING), line, font=font("en"), fill=0)
        yield scanned(image, STATE)


@lru_cache(maxsize=1)
def by_ocr(text: str) -> tuple[Collection, int, float]:
    """Draw a text as a scan and read it. Return its collection, its number of pages, and the CPU seconds of reading it."""
    images = list(pages(text))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scan.pdf"
        images[0].save(path, save_all=True, append_images=images[1:], resolution=STATES[STATE][0], quality=95)
        begun = cpu_seconds()
        document = load(str(path))
    return collect_text(document), len(images), cpu_seconds() - begun


def cpu_seconds() -> float:
    """Return the seconds of CPU time of this process and of its children that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def shares(example: Example, collection: Collection, scores: Any) -> list[bool]:
    """Whether the first chunks together have the terms of each gold passage."""
    chunks = collection.corpus.chunks
    held = Counter(term for i in best(scores, N_READ) for term in terms(chunks[i].text, ("en",)))
    wanted = [Counter(terms(each, ("en",))) for each in example.evidence]
    return [(each & held).total() >= SHARE * each.total() for each in wanted if each]


def row_of(example: Example, collection: Collection, samples: list[Any], of: str) -> dict[str, Any]:
    """The row of a question. samples: [seed, why it ended, text] each."""
    retriever = collection.retriever
    backward = retriever.scores(example.question)
    parsed = from_samples(example, [text for *_, text in samples], DRAWN)[0].samples
    forward = [retriever.scores(each.scored_text) for each in parsed]
    combined = score(backward, np.array(forward, np.float32).reshape(-1, len(backward)), DRAWN).combined
    row = {"set": example.dataset, "id": example.id, "of": of, "chunks": len(backward)}
    for name, scores in (("question", backward), ("default", combined)):
        row[name] = shares(example, collection, scores)
        if of == "text":
            spans = [(collection.corpus.chunks[i].start, collection.corpus.chunks[i].end) for i in best(scores, N_READ)]
            row[f"exact {name}"] = evidence_recall(example.evidence, spans, collection.corpus.documents[0].text)
    return row


def rows(options: argparse.Namespace) -> None:
    first, last = map(int, options.questions.split(":"))
    done = {(each["set"], each["id"], each["of"]): each for each in read(options.rows)} if options.rows.exists() else {}
    generator = loaded(MODEL, 1) if options.of == "text" else None
    with options.rows.open("a", encoding="utf-8") as out:
        for key, example in [*questions().items()][first:last]:
            if (*key, options.of) in done:
                continue
            if generator:
                samples = drawn(example, "2 chunks", 0, generator)["samples"]
                row = row_of(example, collected(example.context()), samples, "text") | {"samples": samples}
            else:
                collection, n_pages, seconds = by_ocr(example.context())
                row = row_of(example, collection, done[*key, "text"]["samples"], "scan")
                row |= {"state": STATE, "pages": n_pages, "cpu_seconds": round(seconds, 1)}
            print(json.dumps(row, ensure_ascii=False), file=out, flush=True)


def compare(options: argparse.Namespace) -> None:
    by_key: dict[Key, dict[str, Any]] = {}
    for row in read(options.rows):
        by_key.setdefault((row["set"], row["id"]), {})[row["of"]] = row
    both = {key: each for key, each in by_key.items() if len(each) == 2}
    for name in (*DRAWN_OF, "all"):
        some = [each for (of_set, _), each in both.items() if name in (of_set, "all")]
        for by in ("question", "default"):
            text, scan = ([mean(each[of][by]) for each in some] for of in ("text", "scan"))
            exact = [each["text"][f"exact {by}"] for each in some]
            whole = [sum(all(each[of][by]) for each in some) for of in ("text", "scan")]
            low, high = interval(np.array(scan) - np.array(text))
            figures = "  ".join(f"{of} {100 * mean(x):5.1f}" for of, x in (("exact", exact), ("text", text), ("scan", scan)))
            difference = f"{100 * (mean(scan) - mean(text)):+5.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            print(f"{name:10}{by:10}n {len(some):3}  {figures}  {difference}  all found: {whole[0]}, {whole[1]}")
    pages_of = {(each["scan"]["pages"], each["scan"]["cpu_seconds"]) for each in both.values()}
    print(f"{sum(n for n, _ in pages_of)} pages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for name, run in {"text": rows, "scan": rows, "compare": compare}.items():
        verb = verbs.add_parser(name)
        verb.add_argument("rows", type=Path)
        verb.add_argument("--questions", default="0:40")
        verb.set_defaults(run=run, of=name)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
