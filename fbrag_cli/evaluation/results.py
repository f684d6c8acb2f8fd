"""Result rows, read from the files that the runner writes. A row holds the measures of one example under one configuration."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.labels import key, written
from fbrag_cli.evaluation.metrics import SCORE
from fbrag_cli.storage.rows import parsed
from fbrag_cli.text.printable import one_line

SCHEMA = "fbrag.eval/1"
STATUSES = ("answered", "not_found", "retrieved", "error")

_RIGHT = {"f1": 0.5, "accuracy": 1.0}  # the least score of a right answer
_HINT = "name a file that `fbrag eval -o` of this version wrote"


@dataclass(frozen=True, slots=True)
class Result:
    """One result row.

    metrics: values by metric, 0 to 1. tokens_read: number of tokens in all prompts. seconds: time by stage, with a "total".
    memory_mb: peak of memory. confidence: confidence in the answer, 0 to 1; None where it was not measured. error: message of the
    failure, where status is "error".
    """

    id: str
    dataset: str
    configuration: dict[str, object]
    status: str
    main_metric: str
    metrics: dict[str, float]
    tokens_read: float | None
    seconds: dict[str, float]
    memory_mb: float | None
    error: str | None
    confidence: float | None = None

    @property
    def score(self) -> float | None:
        """The metric that the data set's benchmark reports, 0 to 1; None without an answer."""
        return self.metrics.get(self.main_metric)

    def value(self, metric: str) -> float | None:
        """Return a metric of METRICS, 0 to 1; None where it was not measured."""
        return self.score if metric == SCORE else self.metrics.get(metric)

    @property
    def right(self) -> bool | None:
        """Whether the answer is right: F1 of 0.5 or more, or accuracy of 1. None for a summary, and without an answer.

        An answer is never right where the document has none.
        """
        if "abstain" in self.metrics:
            return False
        least = _RIGHT.get(self.main_metric)
        return None if least is None or self.score is None else self.score >= least


def planned(configuration: dict[str, object]) -> Result:
    """Return a row without measures. Before a run, a report over such rows fails as the report over the real ones would."""
    nothing: dict[str, float] = {}
    return Result("", "", configuration, "retrieved", "", nothing, None, nothing, None, None)


def read_results(path: Path) -> list[Result]:
    """Read the rows of a results file. The last row of an example and configuration counts: errors are tried again.

    A row that was cut off while it was written is left out. Raises FbragError (usage) for a missing file, a row of another
    schema, and a line that is no result row.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FbragError("usage", f"{path}: {error.strerror or error}", _HINT) from None
    try:
        lines = parsed(data, SCHEMA)
    except ValueError as error:
        raise FbragError("usage", f"{path}, {error}", _HINT) from None
    rows: dict[tuple[str, str, str], Result] = {}
    for line, found in enumerate(lines, 1):
        try:
            row = _result(found)
        except ValueError as error:
            raise FbragError("usage", f"{path}, line {line}: {error}", _HINT) from None
        place = row.dataset, row.id, key(row.configuration)
        rows.pop(place, None)
        rows[place] = row
    return list(rows.values())


def _result(found: dict[str, object]) -> Result:
    """Return the result in an object. Raises ValueError where a value does not fit."""
    return Result(
        id=_text(found, "id"),
        dataset=_text(found, "dataset"),
        configuration=written(_object(found, "configuration")),
        status=_status(found),
        main_metric=_text(found, "main_metric") if found.get("main_metric") is not None else "",
        metrics=_numbers(found, "metrics"),
        tokens_read=_number(found.get("tokens_read"), "tokens_read"),
        seconds=_numbers(found, "seconds"),
        memory_mb=_number(found.get("memory_mb"), "memory_mb"),
        error=_text(found, "error") if found.get("error") is not None else None,
        confidence=_number(found.get("confidence"), "confidence"),
    )


def _text(found: dict[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def _status(found: dict[str, object]) -> str:
    status = _text(found, "status")
    if status not in STATUSES:
        raise ValueError(f"status is none of {', '.join(STATUSES)}")
    return status


def _object(found: dict[str, object], name: str) -> dict[str, object]:
    value = found.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _numbers(found: dict[str, object], name: str) -> dict[str, float]:
    if found.get(name) is None:
        return {}
    values = {key: _number(value, f"{name}: {one_line(key, 40)}") for key, value in _object(found, name).items()}
    return {key: value for key, value in values.items() if value is not None}


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and abs(value) < 1e300 and isfinite(value):
        return float(value)
    raise ValueError(f"{name} is not a number")
