"""Whether the passages that answer a question are among the first five when its document is a scan.

    pip install -e '.[ocr]'
    python tests/benchmarks/scanned_questions.py text OUT.jsonl [--questions 0:50]
    python tests/benchmarks/scanned_questions.py scan OUT.jsonl [--questions 0:50]
    python tests/benchmarks/scanned_questions.py compare ROWS.jsonl[.gz]

50 questions of ../shared/bench with evidence, drawn by a seed, none of held_out.json: 16 on three meetings of QMSum, 24 on the
document of xquad.en, and 10 of 2WikiMultihopQA, each on its own. `text` draws the default's forward samples for them. `scan`
draws each document as A4 pages at 150 dpi, turned, blurred and noisy (as ocr.py does), and reads that PDF by OCR. Chunks are
ranked by BM25 on the question alone, and by the default's scores with the samples of the text, so that only the scan differs.
Recall is the share of the gold passages that lie wholly inside the first five chunks, as elsewhere; "half" counts those of
which at least half does, since chunks of a scan end elsewhere. In the text of the scan a gold passage is what its words are
aligned with. A row is one question of the text or of the scan; a run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from random import Random
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import mean
from time import gmtime
from typing import Any

import numpy as np
from looking_forward import DRAWN, MODEL, collected, drawn, from_samples
from ocr import LEADING, MARGIN, PAGE, STATES, font, scanned, wrapped
from question_recall import BENCH, interval
from sample_languages import loaded, read

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import evidence_recall
from fbrag_cli.indexing.collect import collect_one
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.methods.fb_rag.fb_rag import score
from fbrag_cli.progress import Listener
from fbrag_cli.query import Collection
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.storage.cache import Cache

HERE = Path(__file__).resolve().parent
SEED = 62
STATE = "150 dpi, blur, noise"
N_READ = 5
DRAWN_OF = {"qmsum": 16, "xquad.en": 24, "2wikimqa": 10}
MEETINGS = (3224, 4746, 6021)  # words of the meetings of QMSum: short ones with six questions each

Key = tuple[str, str]


def questions() -> dict[Key, Example]:
    """The 50 questions, those of one document after each other, the shortest documents first."""
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
def by_ocr(text: str, pages_read: Path) -> tuple[Collection, int, float]:
    """Draw a text as a scan and read it. Return its collection, its number of pages, and the CPU seconds of reading it.

    pages_read: folder of the pages that were read before.
    """
    images = list(pages(text))
    never = gmtime(0)  # else each file differs, and no page of it was read before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scan.pdf"
        about: dict[str, Any] = {"resolution": STATES[STATE][0], "quality": 95, "creationDate": never, "modDate": never}
        images[0].save(path, save_all=True, append_images=images[1:], **about)
        begun = cpu_seconds()
        collection = collect_one(str(path), ReadSettings(ocr="auto"), Cache(pages_read), None, Listener())
    return collection, len(images), cpu_seconds() - begun


def cpu_seconds() -> float:
    """Return the seconds of CPU time of this process and of its children that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


@lru_cache(maxsize=1)
def aligned(text: str, scan: str) -> list[tuple[int, int, int, int]]:
    """Return the words that a text and the text of its scan have in common, in order: start and end in each of them."""
    own, read = ([(each[0].casefold(), *each.span()) for each in re.finditer(r"\w+", of)] for of in (text, scan))
    blocks = SequenceMatcher(None, [word for word, *_ in own], [word for word, *_ in read]).get_matching_blocks()
    return [(*own[i + k][1:], *read[j + k][1:]) for i, j, n in blocks for k in range(n)]


def in_scan(evidence: Sequence[str], text: str, scan: str) -> list[str]:
    """Return the gold passages of a text as the text of its scan has them: from their first word to their last."""
    found = []
    for each in evidence:
        start = text.index(each.strip())
        words = [word[2:] for word in aligned(text, scan) if start <= word[0] and word[1] <= start + len(each.strip())]
        found.append(scan[words[0][0] : words[-1][1]] if words else each)
    return found


def is_half_in(passage: str, spans: Sequence[tuple[int, int]], text: str) -> bool:
    """Return whether at least half of a passage's characters are inside the spans."""
    start = text.find(passage.strip())  # -1 for a passage of which the scan has no word
    end = start + len(passage.strip())
    return start >= 0 and 2 * sum(max(0, min(end, last) - max(start, first)) for first, last in spans) >= end - start


def row_of(example: Example, collection: Collection, samples: list[Any], of: str) -> dict[str, Any]:
    """The row of a question. samples: [seed, why it ended, text] each."""
    retriever, chunks = collection.retriever, collection.corpus.chunks
    backward = retriever.scores(example.question)
    parsed = from_samples(example, [text for *_, text in samples], DRAWN)[0].samples
    forward = [retriever.scores(each.scored_text) for each in parsed]
    combined = score(backward, np.array(forward, np.float32).reshape(-1, len(backward)), DRAWN).combined
    text = collection.corpus.documents[0].text
    evidence = example.evidence if of == "text" else in_scan(example.evidence, example.context(), text)
    row = {"set": example.dataset, "id": example.id, "of": of, "chunks": len(chunks)}
    for name, scores in (("question", backward), ("default", combined)):
        spans = [(chunks[i].start, chunks[i].end) for i in best(scores, N_READ)]
        row[name] = evidence_recall(evidence, spans, text)
        row[f"half {name}"] = mean(is_half_in(each, spans, text) for each in evidence)
    return row


def rows(options: argparse.Namespace) -> None:
    """Write the rows of texts or scans. The pages that were read are kept beside the rows."""
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
                collection, n_pages, seconds = by_ocr(example.context(), options.rows.with_suffix(".pages"))
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
        for by in ("question", "default", "half question", "half default"):
            text, scan = ([each[of][by] for each in some] for of in ("text", "scan"))
            low, high = interval(np.array(scan) - np.array(text))
            figures = f"text {100 * mean(text):5.1f}  scan {100 * mean(scan):5.1f}"
            difference = f"{100 * (mean(scan) - mean(text)):+5.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            print(f"{name:10}{by:15}n {len(some):3}  {figures}  {difference}  all of it: {text.count(1)}, {scan.count(1)}")
    # One reading serves all questions of a document, whose rows have the same figures.
    of_documents = {tuple(each["scan"][name] for name in ("pages", "cpu_seconds", "chunks")) for each in both.values()}
    n_pages, seconds, _ = map(sum, zip(*of_documents, strict=True))
    print(f"{len(of_documents)} documents, {n_pages} pages, {seconds / n_pages:.1f} CPU seconds a page")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for name, run in {"text": rows, "scan": rows, "compare": compare}.items():
        verb = verbs.add_parser(name)
        verb.add_argument("rows", type=Path)
        verb.add_argument("--questions", default="0:50")
        verb.set_defaults(run=run, of=name)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
