"""The rows of an evaluation grouped by configuration, and the metrics that reports and plots name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.configurations import key, labels, order
from fbrag_cli.evaluation.results import Row
from fbrag_cli.text.printable import one_line

SCORE = "score"  # the main metric of each data set
#: A metric of rows -> its name in tables and plots.
METRICS = {
    SCORE: "Score",
    "f1": "F1",
    "em": "Exact match",
    "contains": "Gold answer in the reply",
    "rouge_l": "Rouge-L F1",
    "accuracy": "Accuracy",
    "evidence_recall": "Evidence recall at the selected chunks",
    "full_evidence": "All evidence among the selected chunks",
    "answer_in_context": "Answer in what the large model read",
    "answer_in_samples": "Answer in a forward sample",
    "abstain": "Abstained where the document has no answer",
    "abstain_wrongly": "Abstained where the document has the answer",
}
#: Those of which less is better.
LESS = frozenset({"abstain_wrongly"})

Values = dict[str, dict[str, float]]  # by data set, then by id


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one configuration."""

    label: str
    configuration: dict[str, object]
    rows: tuple[Row, ...]

    @property
    def done(self) -> list[Row]:
        """The rows without an error."""
        return [row for row in self.rows if row.status != "error"]

    def values(self, metric: str) -> Values:
        """Return the values of a metric in the order of the ids, so that the same examples are resampled alike."""
        found: Values = {}
        for row in sorted(self.rows, key=lambda row: row.id):
            value = row.score if metric == SCORE else row.metrics.get(metric)
            if value is not None:
                found.setdefault(row.dataset, {})[row.id] = value
        return found


def group_rows(rows: Iterable[Row]) -> list[Group]:
    """Return the rows by configuration, in the order of a table, each group with its label."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row.configuration), []).append(row)
    ordered = sorted(found.values(), key=lambda group: order(group[0].configuration))
    named = labels([group[0].configuration for group in ordered])
    return [Group(label, group[0].configuration, tuple(group)) for label, group in zip(named, ordered, strict=True)]


def known_metric(name: str) -> str:
    """Return a metric's name as `METRICS` writes it. Raises FbragError (usage) for an unknown one."""
    name = name.strip().lower().replace("-", "_")
    if name not in METRICS:
        raise FbragError("usage", f"there is no metric {one_line(name, 40) or 'without a name'}", f"one of {', '.join(METRICS)}")
    return name


def datasets(groups: Iterable[Group]) -> list[str]:
    """Return the names of the data sets, in the order of the rows."""
    return list(dict.fromkeys(row.dataset for group in groups for row in group.rows))
