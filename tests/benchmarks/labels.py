"""Headings and labels of lists: which of those that pandoc finds in a document our readers give, by format.

A heading is found if a section has its words as its title; its level counts as well. A label ("b)", "iv.") is right if our line
of its item begins with its number: pandoc does not know the numbers above it, as in "2.1.b".

python tests/benchmarks/labels.py FOLDER...        # the table
python tests/benchmarks/labels.py FOLDER... -v     # and what is lacking
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from documents import files, read_in_child

FORMATS = ("docx", "odt", "rtf", "epub", "html", "htm")
WORD = re.compile(r"\w+")
FEWEST, FIRST = 2, 6  # words of an item by which its line is found
SECONDS = 60
ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"))
ROMAN += ((5, "v"), (4, "iv"), (1, "i"))


def roman(number: int) -> str:
    return next((letters + roman(number - value) for value, letters in ROMAN if number >= value), "")


def label_of(number: int, style: str) -> str:
    """Return a number as a list of pandoc shows it, in small letters and without what is around it."""
    if style.endswith("Alpha"):
        return chr(ord("a") + (number - 1) % 26) * (1 + (number - 1) // 26)
    return roman(number) if style.endswith("Roman") else str(number)


def text_of(inlines: Any) -> str:
    """Return the text of pandoc's inlines, without notes."""
    if isinstance(inlines, list):
        return "".join(map(text_of, inlines))
    if not isinstance(inlines, dict) or inlines.get("t") in ("Note", "Image", "RawInline"):
        return ""
    if inlines["t"] in ("Space", "SoftBreak", "LineBreak"):
        return " "
    content = inlines.get("c", "")
    return content if inlines["t"] == "Str" else text_of(content)


def marks(blocks: Any) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield ("heading", level, words) and ("label", number, first words) of pandoc's blocks."""
    if isinstance(blocks, dict):
        kind, content = blocks.get("t"), blocks.get("c")
        if kind == "Header" and (words := words_of(text_of(content[2]))):
            yield "heading", str(content[0]), words
        if kind == "OrderedList":
            start, style, _ = content[0]
            for number, item in enumerate(content[1], start):
                first = words_of(text_of(item[0]["c"])) if item and item[0]["t"] in ("Para", "Plain") else ()
                if len(first) >= FEWEST:
                    yield "label", label_of(number, style["t"]), first[:FIRST]
        blocks = content
    if isinstance(blocks, list):
        for each in blocks:
            yield from marks(each)


def words_of(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower()))


def reference(path: Path, format_: str) -> list[tuple[str, str, tuple[str, ...]]]:
    command = ["pandoc", "-f", "html" if format_ == "htm" else format_, "-t", "json", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=True, stdin=subprocess.DEVNULL)
        return [*marks(json.loads(done.stdout)["blocks"])]
    except (subprocess.SubprocessError, ValueError, RecursionError):
        return []


def judged(path: Path, format_: str) -> Iterator[tuple[str, bool, tuple[str, str, tuple[str, ...]]]]:
    """Yield ("heading", "level" or "label", whether ours is right, the mark)."""
    expected = reference(path, format_)
    row = read_in_child(path) if expected else {"code": "none"}
    if row["code"]:
        return
    sections = defaultdict[tuple[str, ...], list[str]](list)
    for title, level in row["sections"]:
        # A heading of ours has its label; pandoc's has not.
        words = words_of(title)
        for at in range(min(7, len(words))):
            sections[words[at:]].append(str(level))
    lines = [words_of(line) for line in row["text"].splitlines()]
    places = defaultdict[tuple[str, ...], list[str]](list)  # by the first words of an item: the words before it
    for words in lines:
        for at in range(min(8, len(words))):
            for n in range(FEWEST, FIRST + 1):
                places[words[at : at + n]].append(words[at - 1] if at else "")
    for mark in expected:
        kind, number, words = mark
        found = sections if kind == "heading" else places
        if kind == "heading":
            yield "heading", words in found, mark
            if words in found:
                yield "level", number in found[words], mark
        elif words in found:  # whether its words are read at all is for documents.py
            yield "label", number in found[words], mark


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-v", dest="verbose", action="store_true")
    asked = parser.parse_args()
    counts, n_files = defaultdict[str, Counter[tuple[str, bool]]](Counter), Counter[str]()
    for path in files(asked.folders):
        format_ = path.suffix.lower().removeprefix(".")
        results = [*judged(path, format_)] if format_ in FORMATS else []
        n_files[format_] += bool(results)
        for kind, right, mark in results:
            counts[format_][kind, right] += 1
            if asked.verbose and not right:
                print(f"{path}: {kind} {mark[1]} {' '.join(mark[2])}")
    print("| format | files | headings found | of these, with their level | labels right |")
    print("|---|---|---|---|---|")
    for format_, found in sorted(counts.items()):
        shares = []
        for kind in ("heading", "level", "label"):
            n = found[kind, True] + found[kind, False]
            shares.append(f"{found[kind, True] / max(1, n):.3f} of {n}")
        print(f"| {format_} | {n_files[format_]} | {' | '.join(shares)} |")
