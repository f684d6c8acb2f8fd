"""Right cells of tables in PDFs: the share of the cells of known tables that are read in their row and in their column.

The files are the tables of ICDAR 2013's competition, 67 PDFs of the European Union and of the United States with 156 tables, as
tabulapdf/tabula-java has them at 2cdf3b4fd3f7e921dca8cc6814cdd9316be40f0f below src/test/resources/technology/tabula, and those
in pdf_tables.json, whose rows were written by hand.

python tests/benchmarks/pdf_tables.py icdar2013-dataset [-o rows.jsonl]   # a minute of processor
python tests/benchmarks/pdf_tables.py --compare before.jsonl after.jsonl

A row of a table counts with the line of the text that has most of its cells: at the same number of tabs from its begin, with the
same letters. Cells that span rows or columns do not count, nor do rows with a single cell.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from lxml import etree

from fbrag_cli.documents.load import load

ROOT = Path(__file__).resolve().parents[2]
Row = dict[int, str]  # text of each cell that is not empty, by column


def plain(text: str) -> str:
    return "".join(text.split())


def rows_of_icdar(path: Path) -> Iterator[Row]:
    for table in etree.parse(path).iter("table"):
        rows: dict[tuple[str, int], Row] = defaultdict(dict)
        for region in table.iter("region"):
            first_row, first_column = int(region.get("row-increment") or 0), int(region.get("col-increment") or 0)
            for cell in region.iter("cell"):
                row, column = int(cell.get("start-row")), int(cell.get("start-col"))
                spans = int(cell.get("end-row") or row) > row or int(cell.get("end-col") or column) > column
                if not spans and (text := plain(cell.findtext("content") or "")):
                    rows[region.get("page"), first_row + row][first_column + column] = text
        yield from (row for row in rows.values() if len(row) > 1)


def known(folder: Path) -> Iterator[tuple[Path, list[Row]]]:
    for path in sorted(folder.rglob("*-str.xml")):
        if (pdf := path.with_name(path.name.replace("-str.xml", ".pdf"))).exists():
            yield pdf, list(rows_of_icdar(path))
    for name, rows in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items():
        if (ROOT / name).exists():
            yield ROOT / name, [{at: plain(cell) for at, cell in enumerate(row) if cell} for row in rows]


def right_cells(rows: Sequence[Row], text: str) -> int:
    lines = [[plain(cell) for cell in line.split("\t")] for line in text.split("\n") if line.strip()]
    return sum(max(sum(row.get(at) == cell for at, cell in enumerate(line)) for line in lines) for row in rows)


def compare(paths: Sequence[Path]) -> None:
    before, after = ({row["file"]: row for row in map(json.loads, path.open(encoding="utf-8"))} for path in paths)
    for name in sorted(before.keys() & after.keys(), key=lambda name: after[name]["right"] - before[name]["right"]):
        if before[name]["right"] != after[name]["right"]:
            print(f"{name:40} {before[name]['right']:5} {after[name]['right']:5} of {after[name]['cells']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    options = parser.parse_args()
    if options.compare:
        compare(options.compare)
        return
    found = []
    for path, rows in known(options.folder or Path()):
        text = load(str(path)).text
        found.append({"file": path.name, "right": right_cells(rows, text), "cells": sum(map(len, rows))})
        print(f"{found[-1]['file']:40} {found[-1]['right']:5} of {found[-1]['cells']}", flush=True)
    right, cells = (sum(row[key] for row in found) for key in ("right", "cells"))
    shares = sum(row["right"] / row["cells"] for row in found if row["cells"]) / len(found)
    print(f"{len(found)} files: {right} of {cells} cells ({100 * right / cells:.1f}%), mean of the files {100 * shares:.1f}%")
    if options.output:
        options.output.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")


if __name__ == "__main__":
    main()
