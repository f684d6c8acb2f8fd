"""Records in the text of a file that a person writes: CSV, JSON Lines, or one JSON array."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from fbrag_cli.text.printable import one_line

_DELIMITERS = ",;\t"


class BadRecordError(ValueError):
    """place: "line 3", or "row 3" of an array. The message is the reason."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def is_array(text: str) -> bool:
    """Return whether a text is one JSON array."""
    return re.match(r"\s*\[\s*[\]{\"]", text) is not None


def of_json(text: str) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of JSON Lines, or of the items of an array. Raises BadRecordError for invalid JSON, and for a line
    that has no object."""
    if is_array(text):
        try:
            rows = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadRecordError(f"line {error.lineno}", f"invalid JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise BadRecordError("line 1", f"invalid JSON: {error}") from None
        yield from ((f"row {number}", row) for number, row in enumerate(rows, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRecordError(f"line {number}", f"invalid JSON: {error}") from None
        if not isinstance(record, dict):
            raise BadRecordError(f"line {number}", "not an object")
        yield f"line {number}", record


def of_csv(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place, values by lower-cased column) of each row that is not blank. Raises BadRecordError for invalid CSV, a row
    with too many values, and if there is no column `question`."""
    columns, delimiter = columns_of(text.partition("\n")[0])
    if "question" not in columns:
        raise BadRecordError("line 1", f'no "question" column (columns: {one_line(", ".join(columns), 80) or "none"})')
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    end = 0
    try:
        for values in reader:
            line, end = end + 1, reader.line_num
            if line == 1 or not any(value.strip() for value in values):
                continue
            if len(values) > len(columns):
                raise BadRecordError(f"line {line}", f"{len(values)} values for {len(columns)} columns")
            yield f"line {line}", dict(zip(columns, map(str.strip, values), strict=False))
    except csv.Error as error:
        raise BadRecordError(f"line {reader.line_num}", str(error)) from None


def answers_in(cell: str) -> list[Any]:
    """Return the right answers in a cell: a JSON list of them, or one; none if it is empty."""
    if cell.lstrip().startswith("["):
        try:
            found = json.loads(cell)
        except (ValueError, RecursionError):
            pass  # an answer that begins with a bracket
        else:
            return found if isinstance(found, list) else [cell]
    return [cell] if cell else []


def columns_of(line: str) -> tuple[list[str], str]:
    """Return the lower-cased column names and the delimiter. There are no names if csv cannot parse the line."""
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        names = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # longer than 131,072 characters
        names = []
    return [name.strip().lower() for name in names], delimiter
