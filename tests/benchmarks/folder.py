"""How long a large folder takes, cold and warm: to the ranked chunks; its memory and its cache.

python tests/benchmarks/folder.py --files 10000 --words 10000 --folder DIR

makes a folder of so many files from the paragraphs of ../shared/bench, unless DIR is there already, and prints a line
a run. A run is a process of its own: memory is its peak, that of a reading child apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared"
QUESTION = "Who was the first governor of the province where the river rises?"
SAID = "The river rises in the northern mountains, whose province was first governed by a general of the royal army. A general."

RUN = """
import json, os, resource, sys, time
started = time.perf_counter()
from fbrag_cli.storage.cache import Cache
from fbrag_cli.indexing.collect import collect
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.files import find_files
from pathlib import Path
imported = time.perf_counter()
collection = collect(find_files([sys.argv[1]]).files, ReadSettings(), Cache(Path(sys.argv[2])))
collected = time.perf_counter()
question, *said = json.loads(sys.argv[3])
backward = collection.retriever.scores(question)
best = backward.argsort()[::-1][:8]
texts = [collection.corpus.chunks[int(i)].text for i in best]
recalled = time.perf_counter()
forward = [collection.retriever.scores(each) for each in said]
scored = time.perf_counter()
peak = lambda who: round(resource.getrusage(who).ru_maxrss / 1e3)
print(json.dumps({
    "import_s": imported - started, "collect_s": collected - imported, "recall_s": recalled - collected,
    "forward_s": scored - recalled, "all_s": scored - started, "chunks": len(collection.corpus.chunks),
    "words": collection.corpus.n_words, "peak_mb": peak(resource.RUSAGE_SELF), "child_mb": peak(resource.RUSAGE_CHILDREN),
    "terms": len(collection.retriever._counts.vocabulary), "postings": len(collection.retriever._counts.chunks),
    "cached": collection.cached, "warnings": len(collection.warnings), "best": [int(i) for i in best[:3]],
}))
"""


def paragraphs() -> list[str]:
    found: dict[str, None] = {}
    for name in ("musique", "hotpotqa", "2wikimqa", "qmsum"):
        with gzip.open(SHARED / "bench" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as rows:
            for row in rows:
                found.update(dict.fromkeys(part for part in json.loads(row)["context"].split("\n") if part.strip()))
    for name in ("musique150k", "japanese-fairybook", "native-american-fairybook", "xquad.en"):
        with gzip.open(SHARED / "bench" / f"{name}.txt.gz", "rt", encoding="utf-8") as text:
            found.update(dict.fromkeys(part for part in text.read().split("\n") if part.strip()))
    return list(found)


def make_folder(folder: Path, n_files: int, n_words: int) -> None:
    """Files of `n_words` words, of paragraphs drawn at random; every twentieth paragraph gets a word that no other has."""
    draw = random.Random(0)
    pool = [(part, len(part.split())) for part in paragraphs()]
    for number in range(n_files):
        parts, size = [], 0
        while size < n_words:
            part, words = draw.choice(pool)
            if draw.random() < 0.05:
                part += f" Entry {number:x}q{draw.randrange(1 << 24):x}."
            parts.append(part)
            size += words
        place = folder / f"{number // 100:03}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:05}.txt").write_text("\n\n".join(parts) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--warm", type=int, default=3, help="runs after the cold one")
    options = parser.parse_args()
    if not options.folder.exists():
        make_folder(options.folder, options.files, options.words)
        print(f"made {options.files} files of {options.words} words in {options.folder}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        cache = options.cache or Path(temporary) / "cache"
        for run in range(1 + options.warm):
            asked = json.dumps([QUESTION, *[SAID] * 5])
            done = subprocess.run(
                [sys.executable, "-c", RUN, str(options.folder), str(cache), asked], check=True, capture_output=True, text=True
            )
            print("warm" if run else "cold", done.stdout.strip(), flush=True)
        size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        print(f"cache: {size / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
