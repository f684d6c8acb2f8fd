"""Rows as a sheet: CSV for people, and beside it a file that says once what all rows share.

The file beside answers.csv is answers.settings.jsonl: a line with the settings, the models and the versions, and a line for each
document with the SHA-256 of its files. It is written before the rows that it is about, so that a run that was killed goes on.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fbrag_cli.batch.jobs import cell
from fbrag_cli.errors import FbragError
from fbrag_cli.render.matrix import MARK, Cell, Matrix
from fbrag_cli.storage.files import open_regular
from fbrag_cli.storage.rows import Csv, JsonLines, Row, RowFile, open_rows
from fbrag_cli.text.printable import dumps

SCHEMA = "fbrag.sheet/1"
COLUMNS = tuple(
    "id document question status answer place quote proposed confidence unsure absent sources answers support agreement seconds "
    "error".split()
)


class Columns(Csv):
    """Rows in columns: places as "report.pdf p. 12" and "book.txt:3-9", parted by "; ", gold answers as JSON."""

    def __init__(self, *, marked: bool = False) -> None:
        super().__init__(COLUMNS, marked=marked)

    def encode(self, row: Mapping[str, Any]) -> bytes:
        flat = {
            **row,
            "proposed": row["unsupported_answer"],
            "absent": " ".join(row["absent"]),
            "sources": "; ".join(map(_place, row["sources"])),
            "answers": dumps(row["answers"]) if "answers" in row else None,
            "error": row["error"] and row["error"]["message"],
        }
        return super().encode({name: cell(value) if isinstance(value, str) else value for name, value in flat.items()})


def beside(path: Path) -> Path:
    """Return the file of settings of a sheet."""
    return path.with_suffix(".settings.jsonl")


class Sheet:
    """An open sheet. rows: those that it held when it was opened, with `settings` (JSON) and `sha256` as JSON lines have them."""

    def __init__(self, table: RowFile, about: RowFile) -> None:
        self._table, self._about = table, about
        self._settings = next((row for row in about.rows if "document" not in row), None)
        self._sha256 = {row.get("document"): row.get("sha256") for row in about.rows if "document" in row}

    @property
    def rows(self) -> list[dict[str, Any]]:
        shared = self._settings or {}
        settings = json.dumps({**shared.get("settings", {}), "versions": shared.get("versions")})
        return [
            {**row, "settings": settings, "sha256": None if row["status"] == "error" else self._sha256.get(row["document"])}
            for row in self._table.rows
        ]

    def write(self, row: Row) -> None:
        """Append a row, whole or not at all, and before it what is new about its settings and document. Raises as `RowFile`."""
        self._table.begin_anew()  # old rows never stand beside new settings
        document = cell(row["document"])
        if self._settings is None:
            self._settings = {"schema": SCHEMA, "settings": row["settings"], "versions": row["versions"]}
            self._about.write(self._settings)
        if row["sha256"] and self._sha256.get(document) != row["sha256"]:
            self._sha256[document] = row["sha256"]
            self._about.write({"schema": SCHEMA, "document": document, "sha256": row["sha256"]})
            self._about.flush()
        self._table.write(row)

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Drop the rows that are not wanted. Raises as `RowFile`."""
        self._table.keep(wanted)


@contextmanager
def open_sheet(path: Path, *, restart: bool = False) -> Iterator[Sheet]:
    """Open a sheet, and the file beside it. Raises FbragError as `open_rows`, and `usage` where the file beside it is missing, or
    is that of another sheet; both files then stay as they are.
    """
    about = beside(path)
    with (
        open_rows(path, Columns(marked=True), restart=restart) as table,
        open_rows(about, JsonLines(SCHEMA, dumps), restart=restart or not table.rows) as file,
    ):
        if table.rows and not file.rows:
            raise _lacking(f"{path} has rows, and {about}, which says how they were made, is missing or empty", about)
        if table.rows and not _is_whole(file.rows):
            raise _lacking(f"{about} is not that of {path}: it lacks a part", about)
        sheet = Sheet(table, file)
        for row in sheet.rows:
            if row["status"] != "error" and not row["sha256"]:
                raise _lacking(f"{about} is not that of {path}: it lacks {row['document']}", about)
        yield sheet


def _is_whole(about: Sequence[Row]) -> bool:
    """Return whether rows of a file of settings are a line with settings, and lines of documents."""
    settings, documents = ([row for row in about if ("document" in row) == each] for each in (False, True))
    named = all(isinstance(row["document"], str) for row in documents)
    return named and bool(settings) and all(isinstance(row.get("settings"), dict) for row in settings)


# -- views -------------------------------------------------------------------------------------------------------------------

_CORNER = "document \\ question"  # the first cell of a wide table, by which it is known again


def shown(row: Row) -> Cell:
    """Return what views show of a row, whether it is of JSON lines or of CSV."""
    texts = {name: cell(value) if isinstance(value := row.get(name), str) else "" for name in _SHOWN}
    error, proposed = row.get("error"), row.get("unsupported_answer") or row.get("proposed")
    error = error.get("message") if isinstance(error, dict) else error
    return Cell(
        **texts,
        proposed=cell(proposed) if isinstance(proposed, str) else "",
        error=cell(error) if isinstance(error, str) else "",
        unsure=row.get("unsure") in (True, "True", "TRUE"),
    )


_SHOWN = ("document", "question", "status", "answer", "place", "quote")


def wide(matrix: Matrix) -> bytes:
    """Return a table as CSV with a mark: a row for each document, a column for each question, the answers in between."""
    form = Csv((_CORNER, *matrix.questions), marked=True)
    rows = ({_CORNER: document} | dict(matrix.answers(document)) for document in matrix.documents)
    return form.head + b"".join(map(form.encode, rows))


def is_own(path: Path) -> bool:
    """Return whether a file is a page or a wide table of an earlier run."""
    try:
        with open_regular(path) as file:
            begins = file.read(400)
    except OSError:
        return False
    return begins.removeprefix(BOM_UTF8).startswith(_CORNER.encode()) or MARK.encode() in begins


def _lacking(what: str, about: Path) -> FbragError:
    return FbragError("usage", what, f"put {about} back, choose another -o FILE, or add --restart")


def _place(source: Mapping[str, Any]) -> str:
    if source["page"] is None:
        return f"{source['document']}:{source['start_line']}-{source['end_line']}"
    pages = source["page"], source["last_page"]
    return f"{source['document']} p. {pages[0]}" + (f"-{pages[1]}" if pages[1] != pages[0] else "")
