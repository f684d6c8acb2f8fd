"""What twelve questions print, in eight outputs each: kept before the code is rebuilt, and compared whole afterwards.

    python tests/benchmarks/outputs.py run OUT.jsonl
    python tests/benchmarks/outputs.py compare BEFORE.jsonl[.gz] AFTER.jsonl[.gz]

Each output is one command as a user types it (exit code, stdout, stderr, the file it wrote), by the default model on one thread.
The first one of a question draws its samples; the others take them from the cache. Seconds, speeds and the folder of the run are
replaced by a letter. `compare` prints each difference as a diff and ends in 1 if there is one. Both runs are made on one machine,
as another processor may answer in other words, and in checkouts of one name: with two documents it is in the prompt.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sample_languages import read

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
INQUIRY = HERE.parent / "documents" / "inquiry.txt"
NOVEL = SHARED / "books" / "pride-and-prejudice"
CASES = SHARED / "cases"
QUESTIONS: dict[str, tuple[list[Path], str, list[str]]] = {
    "inquiry": ([INQUIRY], "Where was the Garefowl built?", []),
    "fast": ([INQUIRY], "Who sealed the chronometer box?", ["--fast"]),
    "thorough": ([INQUIRY], "What did the court find about the chronometer?", ["--thorough"]),
    "novel": ([NOVEL.with_suffix(".txt")], "Where does Mr. Bingley come from?", []),
    "pages": ([NOVEL.with_suffix(".pdf")], "What is the name of Mr. Bennet's estate?", ["--pages", "1-40"]),
    "folder": ([CASES / "c06-statements"], "What is the total of the statement of March?", []),
    "table": ([CASES / "c05-orders.csv"], "Which order is the largest?", []),
    "markdown": ([CASES / "c39-projects.md"], "What does the dam in Elsfield cost?", []),
    "two documents": ([INQUIRY, CASES / "c36-rules.txt"], "Who may leave early?", []),
    "no such thing": ([INQUIRY], "Who won the football world cup in 1974?", []),
    "vanilla": ([INQUIRY], "Who was the master of the Garefowl?", ["--method", "vanilla"]),
    "fit-rag": ([INQUIRY], "When did the Garefowl sail?", ["--method", "fit-rag"]),
}
OUTPUTS: dict[str, list[str]] = {
    "text": ["ask"],
    "json": ["ask", "--json"],
    "markdown": ["ask", "-f", "md"],
    "colors": ["ask", "-v", "--color", "always", "--sources", "all", "-C", "1"],
    "page": ["ask", "-q", "--html", "{file}"],
    "explain": ["explain"],
    "explained": ["explain", "--json"],
    "batch": ["batch", "-o", "{file}.csv"],
}
TIMES = (
    (r'("(?:[a-z_]*seconds|tokens_per_second|loaded|created)": ?)[\d.e-]+', r"\1T"),
    (r"\b\d+(?:\.\d+)? ?(?:s|ms|min|tokens/s|tok/s|t/s)\b", "T"),
    (r"\b\d+ min T\b", "T"),
    (r"\b[\d.]+ seconds\b", "T seconds"),
    (r'<td>[\d.]+</td>(<td class="bar"><svg[^>]*><rect width=)"[\d.]+%"', r"<td>T</td>\1T"),  # of the page
    (r",\d+\.\d{1,3},$", ",T,"),  # of batch
)


def plain(text: str, folder: str) -> str:
    text = text.replace(folder, "FOLDER").replace(str(SHARED), "SHARED").replace(str(HERE.parent), "TESTS")
    return timeless(text)


def timeless(text: str) -> str:
    for pattern, instead in TIMES:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def output(folder: str, question: str, name: str) -> dict[str, object]:
    documents, words, options = QUESTIONS[question]
    file = Path(folder, f"{question}-{name}".replace(" ", "-"))
    command = [part.format(file=file) for part in OUTPUTS[name]]
    asked = [*map(str, documents), "-Q", "-"] if command[0] == "batch" else [*map(str, documents), words]
    environment = {**os.environ, "FBRAG_CACHE_DIR": folder, "FBRAG_CONFIG": "none", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "fbrag_cli", *command, "-t", "1", "--gpu", "off", "--offline", *options, *asked],
        capture_output=True,
        text=True,
        env=environment,
        input=words + "\n" if command[0] == "batch" else None,
    )
    written = "".join(path.read_text("utf-8") for path in (file, Path(f"{file}.csv")) if path.exists())
    found = {"stdout": done.stdout, "stderr": done.stderr, "file": written}
    return {"question": question, "output": name, "rc": done.returncode} | {
        key: plain(text, folder) for key, text in found.items()
    }


def run(options: argparse.Namespace) -> None:
    with options.out.open("w", encoding="utf-8") as rows, tempfile.TemporaryDirectory() as folder:
        for question in QUESTIONS:
            for name in OUTPUTS:
                rows.write(json.dumps(output(folder, question, name), ensure_ascii=False) + "\n")
                rows.flush()


def compare(options: argparse.Namespace) -> None:
    before, after = ({(row["question"], row["output"]): row for row in read(path)} for path in (options.before, options.after))
    differ, keys = 0, dict.fromkeys([*before, *after])
    for key in keys:
        was, now = before.get(key, {}), after.get(key, {})
        lines = [
            [
                f"{part}: {line}"
                for part in ("rc", "stdout", "stderr", "file")
                for line in timeless(str(row.get(part))).splitlines()
            ]
            for row in (was, now)
        ]
        if found := list(difflib.unified_diff(*lines, "before", "after", lineterm="", n=0)):
            differ += 1
            print("=====", *key, *found, sep="\n")
    print(f"{differ} of {len(keys)} outputs differ")
    sys.exit(differ > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("run")
    verb.add_argument("out", type=Path)
    verb.set_defaults(run=run)
    verb = verbs.add_parser("compare")
    verb.add_argument("before", type=Path)
    verb.add_argument("after", type=Path)
    verb.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
