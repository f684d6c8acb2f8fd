"""Evidence recall of the question alone: what the words of BM25 are worth, by language.

    python tests/benchmarks/question_recall.py [--against OLD_WORDS.py] [--sets xquad.en xquad.zh ...] [--questions 100]

The sets are the team's (../shared/bench) and, as notices.ru and so on, those of notices.json beside this file: short invented
notices in other scripts, where a chunk is a notice. OLD_WORDS.py is another version of words.py, as
`git show REVISION:fbrag_cli/words.py` gives it, for a paired comparison. Evidence recall at k: the share of a question's gold
passages that lie wholly inside its k best chunks.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rank_bm25 import BM25Okapi

from fbrag_cli.text import words
from fbrag_cli.text.languages import detect

BENCH = Path(__file__).parents[3] / "shared" / "bench"
NOTICES = Path(__file__).with_name("notices.json")
AT = (1, 5, 10)
SETS = ["musique", "hotpotqa", "2wikimqa", "qmsum", "xquad.en", "xquad.zh"]

Terms = Callable[[str], list[str]]


def questions(name: str, n: int) -> Iterator[dict[str, Any]]:
    """Rows with `input`, `context`, `evidence` and `chunk_words`, 0 where a chunk is a paragraph."""
    if name.startswith("notices."):
        notices = json.loads(NOTICES.read_text(encoding="utf-8"))[name.removeprefix("notices.")]
        context = "\n\n".join(notices["notices"])
        for question, number in notices["questions"][:n]:
            yield {"input": question, "context": context, "evidence": [notices["notices"][number]], "chunk_words": 0}
        return
    with gzip.open(BENCH / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line, _ in zip(lines, range(n), strict=False):
            row = json.loads(line)
            if not row.get("context"):
                row["context"] = shared_context(row["context_file"])
            yield row | {"chunk_words": 300}


@lru_cache(maxsize=1)
def shared_context(name: str) -> str:
    with gzip.open(BENCH / name, "rt", encoding="utf-8") as file:
        return file.read()


@lru_cache(maxsize=1)
def index(terms: Terms, cut: Callable[[str, int], Any], context: str, chunk_words: int) -> tuple[Any, BM25Okapi]:
    chunks = cut(context, chunk_words) if chunk_words else [(*found.span(), 0) for found in re.finditer(".+", context)]
    return chunks, BM25Okapi([terms(context[start:end]) for start, end, _ in chunks])


def recalls(row: dict[str, Any], terms: Terms, cut: Callable[[str, int], Any]) -> list[float]:
    context = row["context"]
    chunks, bm25 = index(terms, cut, context, row["chunk_words"])
    ranked = np.argsort(-bm25.get_scores(terms(row["input"])), kind="stable")
    gold = []
    for evidence in row["evidence"]:
        at = context.index(evidence)
        gold.append({i for i, (start, end, _) in enumerate(chunks) if start < at + len(evidence) and end > at})
    return [float(np.mean([overlapped <= set(ranked[:k].tolist()) for overlapped in gold])) for k in AT]


def plain_cut(text: str, n_words: int) -> list[tuple[int, int, int]]:
    spans = [found.span() for found in re.finditer(r"\S+", text)]
    return [(part[0][0], part[-1][1], len(part)) for i in range(0, len(spans), n_words) if (part := spans[i : i + n_words])]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("old_words", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def interval(differences: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the mean."""
    drawn = np.random.default_rng(seed).choice(differences, (10_000, len(differences))).mean(axis=1)
    return float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, metavar="OLD_WORDS.py")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--questions", type=int, default=100)
    options = parser.parse_args()
    sets = options.sets or SETS + [f"notices.{language}" for language in json.loads(NOTICES.read_text(encoding="utf-8"))]
    old = load(options.against) if options.against else None

    print(
        f"{'':12}{'language':>9}{'chunks':>7}{'n':>5}" + "".join(f"{f'@{k}':>8}" for k in AT) + "   old, difference at 5 and 10"
    )
    for name in sets:
        rows = list(questions(name, options.questions))
        language = detect(rows[0]["context"])

        def terms(text: str, language: str = language) -> list[str]:
            return words.terms(text, (language,))

        found = np.array([recalls(row, terms, words.cut) for row in rows])
        n_chunks = np.mean([len(index(terms, words.cut, row["context"], row["chunk_words"])[0]) for row in rows[:5]])
        line = f"{name:12}{language:>9}{n_chunks:7.0f}{len(rows):5}" + "".join(f"{at:8.3f}" for at in found.mean(axis=0))
        if old:
            before = np.array([recalls(row, old.terms, getattr(old, "cut", plain_cut)) for row in rows])
            line += "   " + " ".join(f"{at:.3f}" for at in before.mean(axis=0))
            for k in (1, 2):
                difference = found[:, k] - before[:, k]
                low, high = interval(difference)
                line += f"  {difference.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        print(line, flush=True)


if __name__ == "__main__":
    main()
