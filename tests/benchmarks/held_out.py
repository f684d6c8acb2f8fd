"""Draw the questions that choose nothing: held_out.json, three lists of questions of ../shared/bench without a kept row.

    git checkout COMMIT results; python held_out.py    # COMMIT added this file; writes held_out.json again, byte for byte

evidence: 240 questions, on which the default is reported once and nothing is chosen. dial, stage_two: 60 questions each, apart
from them, on which what Stage III and Stage II read is compared. The sets of a list take turns, so that a list cut short stays
balanced. A question counts as kept if a row of results/ or of ../shared/prototypes has its id or its words, in whichever set.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
SEED = 59
N_EVIDENCE = {"musique": 60, "hotpotqa": 60, "2wikimqa": 40, "fairytaleqa": 40, "xquad.en": 40}
MULTI_HOP = ("musique", "hotpotqa", "2wikimqa")  # whose questions that are left are shared by the two other lists
N_OTHERS = {"fairytaleqa": 16, "xquad.en": 14, "qmsum": 14}  # of each of these two lists


def rows_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def kept() -> set[str]:
    """Return the ids and the words of the questions that have a row."""
    paths = sorted([*(HERE / "results").glob("*.gz"), *(SHARED / "prototypes").glob("*.jsonl*")])
    rows = [row for path in paths for row in rows_of(path)]
    return {str(row[key]) for row in rows for key in ("id", "question") if row.get(key)}


def by_turns(lists: dict[str, list[str]]) -> list[list[str]]:
    """Return [set, id] of all questions, so that each part of the list has each set in its share."""
    places = [((i + 0.5) / len(ids), name, id_) for name, ids in lists.items() for i, id_ in enumerate(ids)]
    return [[name, id_] for _, name, id_ in sorted(places)]


def draw() -> dict[str, list[list[str]]]:
    seen, rng = kept(), random.Random(SEED)
    free = {}
    for name in (*N_EVIDENCE, "qmsum"):
        rows = rows_of(SHARED / "bench" / f"{name}.jsonl.gz")
        free[name] = [row["_id"] for row in rows if row["_id"] not in seen and row["input"] not in seen]
        rng.shuffle(free[name])
    drawn = {"evidence": by_turns({name: free[name][:n] for name, n in N_EVIDENCE.items()})}
    left = {name: ids[N_EVIDENCE.get(name, 0) :] for name, ids in free.items()}
    n = {name: len(left[name]) // 2 for name in MULTI_HOP} | N_OTHERS
    drawn["dial"] = by_turns({name: left[name][: n[name]] for name in n})
    drawn["stage_two"] = by_turns({name: left[name][n[name] : 2 * n[name]] for name in n})
    return drawn


if __name__ == "__main__":
    lists = draw()
    written = {name: ",\n".join(map(json.dumps, rows)) for name, rows in lists.items()}
    text = ",\n".join(f"{json.dumps(name)}: [\n{rows}\n]" for name, rows in written.items())
    (HERE / "held_out.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    print({name: len(rows) for name, rows in lists.items()})
