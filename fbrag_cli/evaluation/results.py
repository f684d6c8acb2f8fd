"""Reads the result rows that the runner writes, and names configurations in rows and tables.

A row has the measures of one example for one configuration. A configuration is identified by its settings, and labeled by those
that differ from others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.metrics import ANSWER_METRICS, RIGHT, SCORE
from fbrag_cli.methods.registry import names
from fbrag_cli.storage.rows import Row, parsed
from fbrag_cli.text.printable import one_line

SCHEMA = "fbrag.eval/1"
STATUSES = ("answered", "not_found", "retrieved", "error")

Settings = Mapping[str, object]

_RIGHT = {"f1": 0.5, "accuracy": 1.0}  # minimum score of a right answer
_QUOTED = re.compile(r"[^\w.:/+@%…-]+")  # special characters of a shell, and those that separate the parts of a label
_LONGEST = 60  # characters of one value
_HINT = "use a file written by `fbrag eval -o` of this version"


@dataclass(frozen=True, slots=True)
class Result:
    """One result row.

    metrics: values by metric, 0 to 1. tokens_read: number of tokens in all prompts. seconds: time by stage, with a "total".
    memory_mb: peak memory. confidence: 0 to 1; None if it was not measured. error: message, if the status is "error". answer: as
    the model wrote it, also if it was withheld. gold: the right answers. read: fingerprint of the text that the large model read.
    preset: the preset of the configuration.
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
    question: str = ""
    gold: tuple[str, ...] = ()
    answer: str | None = None
    read: str = ""
    preset: str = ""

    @property
    def withheld(self) -> bool:
        """Whether the answer failed the check, so that `fbrag ask` would not print it."""
        return self.status == "not_found" and not {"abstain", "abstain_wrongly"}.isdisjoint(self.metrics)

    @property
    def score(self) -> float | None:
        """The main metric of the dataset, 0 to 1; None without an answer."""
        return self.metrics.get(self.main_metric)

    def value(self, metric: str) -> float | None:
        """Return a metric of METRICS, 0 to 1; None if it was not measured. A withheld answer scores 0."""
        if metric == RIGHT:
            return None if self.right is None else float(self.right)
        value = self.score if metric == SCORE else self.metrics.get(metric)
        return 0.0 if value is not None and self.withheld and metric in (SCORE, *ANSWER_METRICS) else value

    @property
    def right(self) -> bool | None:
        """Whether what `fbrag ask` would print is right: F1 of 0.5 or more, a gold answer in the reply, or accuracy of 1.

        If the document has no answer, it is right to print none. None for a summary, and without an answer.
        """
        if "abstain" in self.metrics:
            return self.withheld
        least = _RIGHT.get(self.main_metric)
        if least is None or self.score is None:
            return None
        return not self.withheld and (self.score >= least or self.metrics.get("contains") == 1)


def planned_row(configuration: dict[str, object], preset: str = "") -> Result:
    """Return a row without measures. Before a run, a report on such rows shows whether the report on the real ones would fail."""
    nothing: dict[str, float] = {}
    return Result("", "", configuration, "retrieved", "", nothing, None, nothing, None, None, preset=preset)


def read_results(path: Path) -> list[Result]:
    """Read the rows of a results file. The last row for an example and configuration counts, because failures are retried.

    An incomplete last row is dropped. Raises FbragError (usage) for a missing file, a row of another schema, and a damaged row.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FbragError("usage", f"{path}: {error.strerror or error}", _HINT) from None
    try:
        lines = parsed(data, SCHEMA)
    except ValueError as error:
        raise FbragError("usage", f"{path}, {error}", _HINT) from None
    return results_of(lines, path)


def results_of(found: Iterable[Row], path: object = "the cache") -> list[Result]:
    """Return the results in rows. The last row for an example and configuration counts. path: of the rows, for the error. Raises
    FbragError (usage) for a damaged row."""
    rows: dict[tuple[str, str, str], Result] = {}
    for line, fields in enumerate(found, 1):
        try:
            row = _result(fields)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise FbragError("usage", f"{path}, line {line}: damaged row", _HINT) from None
        place = row.dataset, row.id, key(row.configuration)
        rows.pop(place, None)
        rows[place] = row
    return list(rows.values())


def _result(found: Row) -> Result:
    """Return the result in an object. Raises TypeError, KeyError or ValueError for a damaged one."""
    names = ("id", "dataset", "status", "main_metric", "error", "question", "answer", "read", "preset")
    texts = {name: found.get(name) or "" for name in names}
    if not all(isinstance(each, str) for each in texts.values()) or texts["status"] not in STATUSES:
        raise ValueError("status")
    return Result(
        **texts | {"error": found.get("error"), "answer": found.get("answer")},
        gold=tuple(map(str, found.get("gold") or ())),
        configuration=dict(found["configuration"].items()),
        metrics=_numbers(found["metrics"]),
        tokens_read=_number(found.get("tokens_read")),
        seconds=_numbers(found["seconds"]),
        memory_mb=_number(found.get("memory_mb")),
        confidence=_number(found.get("confidence")),
    )


def _numbers(found: dict[str, Any]) -> dict[str, float]:
    return {name: number for name, value in found.items() if (number := _number(value)) is not None}


def _number(value: Any) -> float | None:
    if value is not None and not isfinite(value):
        raise ValueError(value)
    return None if value is None else float(value)


# -- configurations --------------------------------------------------------------------------------------------------------------


def key(settings: object) -> str:
    """Return a string that is equal for equal settings in any order."""
    return json.dumps(settings, sort_keys=True)


def shared(configurations: Sequence[Settings]) -> dict[str, object]:
    """Return the settings with the same value in all configurations that have them."""
    differing = _differing(configurations)
    return {name: value for each in configurations for name, value in each.items() if name not in differing}


def order(configuration: Settings) -> tuple[tuple[float, str], ...]:
    """Return a sort key for the lines of a table: by the number of selected chunks, then by method in the paper's order."""
    known, method = names(), str(configuration.get("method"))
    rank = float(known.index(method) if method in known else len(known))
    places = [_place(value) for _, value in sorted(configuration.items())]
    return (_place(configuration.get("select")), (rank, method), *places, (0, key(configuration)))


def labels(configurations: Sequence[Settings]) -> list[str]:
    """Return unique labels that need no quotes in a shell, such as "fb-rag:recall=8,select=5" and "vanilla"."""
    settings = [dict(configuration) for configuration in configurations]
    of_method: dict[object, dict[str, object]] = {}  # the settings of any configuration of a method
    for setting in settings:
        of_method.setdefault(setting.get("method"), {}).update(dict.fromkeys(setting))
    settings = [{**of_method[each.get("method")], **each} for each in settings]
    differing = sorted(_differing(settings) - {"method"})
    named = []
    for setting in settings:
        parts = ",".join(f"{name.replace('_', '-')}={_value(setting[name])}" for name in differing if name in setting)
        named.append(":".join(filter(None, [_value(setting.get("method")), parts])))
    # Shortened values and replaced characters can make labels equal: these get a number.
    return [label if named.count(label) == 1 else f"{label}.{i}" for i, label in enumerate(named, 1)]


def _differing(settings: Sequence[Settings]) -> set[str]:
    """Return the names of the settings with several values."""
    values: dict[str, set[str]] = {}
    for each in settings:
        for name, value in each.items():
            values.setdefault(name, set()).add(key(value))
    return {name for name, found in values.items() if len(found) > 1}


def _place(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (-1.0, "" if value is None else str(value))


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _QUOTED.sub("_", one_line(value if isinstance(value, str) else key(value), _LONGEST))
