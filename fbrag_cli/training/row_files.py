"""Files of rows to train on, with the stories and meetings beside them. What is wrong with a row is told with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.dataset_files import MAX_ROW, dataset_files, drawn_rows, read_start

#: The share of a file's rows, its last ones, on which training is checked. Questions for training and for checking share the
#: passages of a file, and the story or meeting that the cut goes through: what is measured is other questions, not other texts.
DEV_SHARE = 0.2

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowsOfFile:
    """rows: each with whether it is for checking. stories: the sections of each, by name. meetings: the turns of each.

    No two rows of a data set have one `_id`: the second of a file that has it is called "ID#2". A row has `dataset`; its
    `documents` are those with a text; `gold_sections` and `gold_turns` of a story or a meeting name parts of it.
    """

    path: Path
    rows: Sequence[tuple[Row, bool]]
    stories: Mapping[str, Mapping[str, str]]
    meetings: Mapping[str, Sequence[str]]


def read_files(paths: Iterable[Path]) -> Iterator[RowsOfFile]:
    """Read JSON Lines (.gz or not), and NAME-stories.json.gz or NAME-meetings.json.gz beside them where rows name one.

    Raises FbragError `doc_not_found`, `doc_unreadable`: with the line for a row that lacks a part, names one that is not there,
    or has the id of a row in another file.
    """
    taken: dict[tuple[str, str], Path] = {}
    for path in dataset_files(paths):
        found = [(line, _checked(path, line, _row, text)) for line, text in drawn_rows(path, None, 0)]
        stories = _beside(path, "stories", _is_story) if any("story" in row for _, row in found) else {}
        meetings = _beside(path, "meetings", _is_meeting) if any("meeting" in row for _, row in found) else {}
        for line, row in found:
            row["dataset"] = str(row.get("dataset", path.stem))
            _checked(path, line, _check_parts, row, stories, meetings)
            _checked(path, line, _name, row, path, taken)
        first_of_dev = len(found) - round(len(found) * DEV_SHARE)
        yield RowsOfFile(path, [(row, i >= first_of_dev) for i, (_, row) in enumerate(found)], stories, meetings)


def title_and_text(document: Row) -> str:
    """Return a passage of a row as it is read: its text, below its title if it has one."""
    return "\n".join(filter(None, [document.get("title"), document["text"]]))


def _checked(path: Path, line: int, check: Callable[..., Any], *arguments: object) -> Any:
    """Return what `check` returns. Its ValueError is FbragError `doc_unreadable` with the line."""
    try:
        return check(*arguments)
    except ValueError as error:
        hint = "fbrag train fit-rag --help"
        raise FbragError("doc_unreadable", f"{path}, line {line}: {error}", hint, document=str(path)) from None


def _row(text: str) -> dict[str, Any]:
    row: Any = _parsed(text)
    texts = (row.get("_id"), row.get("input")) if isinstance(row, dict) else (None,)
    if not all(isinstance(each, str) for each in texts) or not isinstance(row.get("answers"), list):
        raise ValueError("a row needs _id, input and answers")
    if "documents" in row:
        if not isinstance(row["documents"], list) or not all(map(_is_document, row["documents"])):
            raise ValueError("`documents` is no list of objects with `text`")
        row["documents"] = [each for each in row["documents"] if each["text"].strip()]
    return dict(row)


def _parsed(data: str | bytes) -> Any:
    """Return an object of JSON, None for what is none. Raises ValueError for text that cannot be written."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate (\\ud800 to \\udfff) is no text") from None
    return found


def _check_parts(row: dict[str, Any], stories: Mapping[str, Any], meetings: Mapping[str, Any]) -> None:
    """Check what the row says of a story or a meeting. Raises ValueError."""
    for kind, known, gold in (("story", stories, "gold_sections"), ("meeting", meetings, "gold_turns")):
        if kind not in row:
            continue
        if not isinstance(row[kind], str) or row[kind] not in known:
            raise ValueError(f"there is no {kind} {row[kind]!r}")
        parts = known[row[kind]]
        fits = _is_section if kind == "story" else _is_stretch
        named = row.setdefault(gold, [])
        if not isinstance(named, list) or not all(fits(each, parts) for each in named):
            raise ValueError(f"`{gold}` names what the {kind} does not have")


def _name(row: dict[str, Any], path: Path, taken: dict[tuple[str, str], Path]) -> None:
    """Give the row an id that no other row has. taken: the file of each id so far. Raises ValueError for one of another file."""
    dataset, id_ = row["dataset"], row["_id"]
    n = 1
    while (other := taken.get((dataset, row["_id"]))) is not None:
        if other != path:
            raise ValueError(f"the id {id_!r} of {dataset} is taken by a row of {other}")
        n += 1
        row["_id"] = f"{id_}#{n}"
    taken[dataset, row["_id"]] = path


def _beside(path: Path, kind: str, fits: Callable[[object], bool]) -> dict[str, Any]:
    """Return the object in NAME-KIND.json.gz beside a file. fits: whether one of its values is a story or a meeting."""
    file = path.with_name(f"{path.name.partition('.')[0]}-{kind}.json.gz")
    try:
        found = _parsed(read_start(file, MAX_ROW))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(map(fits, found.values())):
        raise FbragError("doc_unreadable", f"{file} is no object (JSON) of {kind}", "fbrag train --help", document=str(file))
    return found


def _is_document(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str) and isinstance(value.get("title") or "", str)


def _is_story(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_meeting(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_section(name: object, sections: Mapping[str, str]) -> bool:
    return isinstance(name, str) and name in sections


def _is_stretch(value: object, turns: Sequence[str]) -> bool:
    """Return whether a value is the numbers of a first and a last turn."""
    if not isinstance(value, list) or len(value) != 2 or not all(type(each) is int for each in value):
        return False
    first, last = value
    return 0 <= int(first) <= int(last) < len(turns)
