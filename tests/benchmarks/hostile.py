"""What the readers make of random hostile files: small valid ones of each format, mutated, the same in every run.

python tests/benchmarks/hostile.py [FOLDER...] [-n 100] [--seed 57]   # some 4 minutes of processor for 100 files a format

The valid files are those of tests/hostile.py and the five smallest of each format in FOLDER. A mutation flips, cuts, doubles or
overwrites bytes, or splices in another format; of a package it mutates a part, and packs it again. Each file is read in a child
process with 2 GB of memory and 60 s of wall time, as `fbrag text` reads it (`documents.load`). The table has, by format, how many
files were read, refused with an error of a document, ended in another way (printed below it), or took too long; seconds of
processor; and the largest memory of a child.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from fbrag_cli.documents.formats import FORMATS, KNOWN_SUFFIXES, PDF, reader_of
from fbrag_cli.documents.load import load
from fbrag_cli.errors import FbragError
from fbrag_cli.text.languages import detect
from tests.hostile import REAL

SECONDS, BYTES = 60, 2_000_000_000
SMALLEST = 5  # files of each format in a folder
LARGEST = 200_000  # bytes of a file to mutate
NUMBERS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"-1 R", b"<<[[", b"99999999999", b"</", b"<!--", b"{\\rtf")
CODES = {"doc_unreadable", "doc_empty", "unsupported_format", "pdf_encrypted", "pdf_bad_password", "pdf_no_text"}


def valid(folders: list[Path]) -> dict[str, list[bytes]]:
    """Return files to mutate, by suffix."""
    found = defaultdict(list, {suffix: [data] for suffix, data in REAL.items()})
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix.lower() in KNOWN_SUFFIXES]
    taken: dict[str, int] = defaultdict(int)
    for path in sorted(paths, key=lambda path: (path.stat().st_size, path.name)):
        suffix = path.suffix.lower()
        if taken[suffix] < SMALLEST and 100 < path.stat().st_size < LARGEST:
            taken[suffix] += 1
            found[suffix].append(path.read_bytes())
    return found


def mutant(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    if data[:2] == b"PK" and dice.random() < 0.7:
        return repacked(data, others, dice)
    changed = bytearray(data)
    for number in range(dice.choice((1, 3, 30))):
        at = dice.randrange(len(changed) or 1)
        match dice.randrange(5 if number else 6):
            case 0:
                changed[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                changed[at : at + dice.randrange(60)] = b""
            case 2:
                changed[at:at] = changed[at : at + dice.randrange(200)] * dice.choice((1, 30, 3000))
            case 3:
                changed[at : at + 4] = dice.choice(NUMBERS)
            case 4:
                other = dice.choice(others)
                changed[at:at] = other[: dice.randrange(len(other))]
            case 5:
                changed = changed[: max(at, 1)]
        changed = changed[: 4 * LARGEST]
    return bytes(changed or b"x")


def repacked(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    """Return a package of which one part is a mutant, is full of open elements, or is not there."""
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as copy:
            names = package.namelist()
            chosen = dice.choice([name for name in names if name.endswith((".xml", ".xhtml", ".rels", ".opf"))] or names)
            for name in names:
                part = package.read(name)
                if name == chosen:
                    match dice.randrange(6):
                        case 0:
                            continue
                        case 1:
                            part = part.replace(b"><", b">" + b"<x>" * 3000 + b"<", 1)
                        case _:
                            part = mutant(b" " + part, others, dice)[1:]
                copy.writestr(name, part, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError):
        return data[: len(data) // 2]
    return made.getvalue()


def read_in_child(path: Path) -> dict[str, Any]:
    """Return the outcome of reading a file, seconds of processor, and MB at most."""
    source, sink = os.pipe()
    began = time.monotonic()
    if (child := os.fork()) == 0:
        os.close(source)
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            load(str(path))
            told = ("read", "")
        except FbragError as error:
            told = ("refused" if error.code in CODES else "other", f"{error.code}: {error.message}")
        except BaseException as error:
            told = ("other", repr(error))
        with os.fdopen(sink, "wb") as file:
            file.write(json.dumps(told).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        data = file.read()
    _, status, used = os.wait4(child, 0)
    late = time.monotonic() - began > SECONDS - 1
    outcome, message = json.loads(data) if data else ("too long" if late else "other", f"status {status}")
    return {
        "outcome": outcome,
        "message": message,
        "seconds": used.ru_utime + used.ru_stime,
        "mb": used.ru_maxrss // 1000,  # kB on Linux
    }


def rows(folders: list[Path], n: int, seed: int) -> Iterator[dict[str, Any]]:
    files = valid(folders)
    others = [data for each in files.values() for data in each]
    for format_ in FORMATS:
        if format_ is not PDF:
            reader_of(format_)  # imported here, and not in each child
    detect("Languages are told apart by their words.")
    with tempfile.TemporaryDirectory() as scratch:
        for suffix, honest in sorted(files.items()):
            dice = random.Random(f"{seed}{suffix}")
            for number in range(n):
                path = Path(scratch, f"{number}{suffix}")
                path.write_bytes(mutant(dice.choice(honest), others, dice))
                yield {"format": suffix, "number": number, **read_in_child(path)}
                path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("-n", type=int, default=100, help="files a format")
    parser.add_argument("--seed", type=int, default=57)
    asked = parser.parse_args()
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    print("| format | files | read | refused | other | too long | processor s | peak MB |\n" + "|---" * 8 + "|")
    for row in rows(asked.folders, asked.n, asked.seed):
        groups[row["format"]].append(row)
        if len(each := groups[row["format"]]) == asked.n:
            counts = [sum(row["outcome"] == name for row in each) for name in ("read", "refused", "other", "too long")]
            seconds, memory = sum(row["seconds"] for row in each), max(row["mb"] for row in each)
            numbers = [len(each), *counts, f"{seconds:.1f}", memory]
            print(f"| {row['format']} | {' | '.join(map(str, numbers))} |", flush=True)
    for row in (row for each in groups.values() for row in each if row["outcome"] in ("other", "too long")):
        print(f"{row['number']}{row['format']}: {row['outcome']}: {row['message'][:300]}")


if __name__ == "__main__":
    main()
