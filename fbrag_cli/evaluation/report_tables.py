"""The tables of a report, a line for each configuration: scores, paired differences, outcomes and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from fbrag_cli.evaluation import statistics
from fbrag_cli.evaluation.labels import key, labels, order
from fbrag_cli.evaluation.metrics import LESS, METRICS, SCORE
from fbrag_cli.evaluation.results import Result
from fbrag_cli.evaluation.statistics import Bootstrap
from fbrag_cli.evaluation.tables import Cell, Column, Table, Unit
from fbrag_cli.text.printable import one_line

_COVERED = (0.25, 0.5, 0.75, 1.0)  # shares of the answers
_SURE = 0.05  # p below which a difference is marked; the interval of a few pairs is too narrow
_STAGES = ("read", "load", "recall", "forward", "select", "answer", "verify", "first_token")
_OUTCOMES = {"answered": "Answered", "not_found": "Not found", "retrieved": "Retrieved only", "error": "Errors"}

Values = dict[str, dict[str, float]]  # by data set, then by id


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one configuration."""

    label: str
    configuration: dict[str, object]
    rows: tuple[Result, ...]

    @property
    def done(self) -> list[Result]:
        """The rows without an error."""
        return [row for row in self.rows if row.status != "error"]

    def values(self, metric: str) -> Values:
        """Return the values of a metric in the order of the ids, so that the same examples are resampled alike."""
        found: Values = {}
        for row in sorted(self.rows, key=lambda row: row.id):
            if (value := row.value(metric)) is not None:
                found.setdefault(row.dataset, {})[row.id] = value
        return found


def group_rows(rows: Iterable[Result]) -> list[Group]:
    """Return the rows by configuration, in the order of a table, each group with its label."""
    found: dict[str, list[Result]] = {}
    for row in rows:
        found.setdefault(key(row.configuration), []).append(row)
    ordered = sorted(found.values(), key=lambda group: order(group[0].configuration))
    named = labels([group[0].configuration for group in ordered])
    return [Group(label, group[0].configuration, tuple(group)) for label, group in zip(named, ordered, strict=True)]


def datasets(groups: Iterable[Group]) -> list[str]:
    """Return the names of the data sets, in the order of the rows."""
    return list(dict.fromkeys(row.dataset for group in groups for row in group.rows))


def score_table(metric: str, groups: Sequence[Group]) -> Table:
    """Return a metric by configuration and data set, with the average over the data sets first."""
    by_group = [group.values(metric) for group in groups]
    names = [name for name in datasets(groups) if any(name in values for values in by_group)]
    rows = [list(_score_cells(values, names)) for values in by_group]
    columns = _columns(names, _details(metric, groups), rows)
    return _table(
        metric,
        METRICS[metric],
        "In percent, [95 % interval]",
        columns,
        groups,
        _marked(rows, [min if metric in LESS else max] * len(columns)),
    )


def difference_table(metric: str, pairs: Sequence[tuple[Group, Group]], groups: Sequence[Group]) -> Table | None:
    """Return the paired differences of a metric by configuration and data set; None where no example has both values.

    pairs: a group, and the one to compare it with. groups: the groups whose data sets get a column.
    """
    paired = [_paired(group.values(metric), other.values(metric)) for group, other in pairs]
    names = [name for name in datasets(groups) if any(name in differences for differences in paired)]
    if not names:
        return None
    rows = [list(_difference_cells(differences, names)) for differences in paired]
    columns = _columns(names, _details(metric, groups), rows, "difference")
    note = "In points of percent, [95 % interval], p two-sided; marked where the interval excludes 0 and p is below 0.05."
    labelled = tuple((group.label, tuple(row)) for (group, _), row in zip(pairs, rows, strict=True))
    return Table(metric, METRICS[metric], note, tuple(columns), labelled)


def outcome_table(groups: Sequence[Group]) -> Table:
    """Return how many examples were answered, not found, retrieved only, or failed."""
    ended = [Counter(row.status for row in group.rows) for group in groups]
    shown = [status for status in _OUTCOMES if status == "error" or any(counts[status] for counts in ended)]
    columns = [Column(name, unit="count") for name in ("Examples", *(_OUTCOMES[status] for status in shown))]
    rows = [[Cell(counts.total()), *(Cell(counts[status]) for status in shown)] for counts in ended]
    return _table("outcomes", "Outcomes", "Examples with an error count in no average", columns, groups, rows)


def coverage_table(groups: Sequence[Group]) -> Table:
    """Return the share of right answers among the most confident 25 to 100 % of the answers.

    Answers of equal confidence are taken together. A declined answer counts as it was proposed.
    """
    columns = [Column(f"{share:.0%}", "most confident") for share in _COVERED]
    rows = [[_right_among(group, share) for share in _COVERED] for group in groups]
    return _table(
        "coverage",
        "Right answers among the most confident",
        "In percent of all data sets together, [95 % interval]; right: F1 of 0.5 or more, or the right choice",
        _counted(columns, rows),
        groups,
        _marked(rows, [max] * len(columns)),
    )


def _right_among(group: Group, share: float) -> Cell:
    answers = [(row.confidence, float(row.right)) for row in group.rows if row.confidence is not None and row.right is not None]
    if not answers:
        return Cell()
    answers.sort(reverse=True)
    least, _ = answers[ceil(share * len(answers)) - 1]
    return _cell(statistics.bootstrap([right for confidence, right in answers if confidence >= least]))


def cost_table(groups: Sequence[Group]) -> Table:
    """Return the tokens read, the seconds of each stage and the memory."""
    found = {name for group in groups for row in group.rows for name in row.seconds}
    stages = sorted(found, key=lambda name: (name == "total", _STAGES.index(name) if name in _STAGES else len(_STAGES), name))
    columns = [
        Column("Tokens read", "mean", "count"),
        *(Column(stage, "s, median", "seconds") for stage in stages),
        Column("Memory", "MB, peak", "MB"),
    ]
    rows = [[_tokens(group), *(_seconds(group, stage) for stage in stages), _memory(group)] for group in groups]
    best = [min if column.name in ("Tokens read", "total") else None for column in columns]
    return _table("cost", "Cost", "Over all examples without an error", columns, groups, _marked(rows, best))


def _score_cells(values: Values, names: Sequence[str]) -> Iterator[Cell]:
    sampled = {name: statistics.bootstrap(list(values[name].values()), name) for name in names if name in values}
    if len(names) > 1:
        yield _cell(statistics.average(list(sampled.values()))) if len(sampled) == len(names) else Cell()
    for name in names:
        yield _cell(sampled[name]) if name in sampled else Cell()


def _cell(sampled: Bootstrap) -> Cell:
    low, high = statistics.interval(sampled) or (None, None)
    return Cell(sampled.mean, low, high, n=sampled.n)


def _paired(new: Values, old: Values) -> dict[str, list[float]]:
    """Return the differences by data set, over the ids that both have."""
    both = [name for name in new if name in old]
    paired = {name: [value - old[name][id_] for id_, value in new[name].items() if id_ in old[name]] for name in both}
    return {name: differences for name, differences in paired.items() if differences}


def _difference_cells(paired: Mapping[str, Sequence[float]], names: Sequence[str]) -> Iterator[Cell]:
    if len(names) > 1:
        yield _difference(paired) if len(paired) == len(names) else Cell()
    for name in names:
        yield _difference({name: paired[name]}) if name in paired else Cell()


def _difference(paired: Mapping[str, Sequence[float]]) -> Cell:
    found = statistics.paired_difference(paired)
    excludes = found.low is not None and found.high is not None and not found.low <= 0 <= found.high
    return Cell(found.mean, found.low, found.high, p=found.p, n=found.n, marked=excludes and found.p < _SURE)


def _tokens(group: Group) -> Cell:
    read = [row.tokens_read for row in group.done if row.tokens_read is not None]
    return Cell(sum(read) / len(read)) if read else Cell()


def _seconds(group: Group, stage: str) -> Cell:
    taken = [row.seconds[stage] for row in group.done if stage in row.seconds]
    return Cell(statistics.percentile(taken, 50), p95=statistics.percentile(taken, 95)) if taken else Cell()


def _memory(group: Group) -> Cell:
    return Cell(max((row.memory_mb for row in group.done if row.memory_mb is not None), default=None))


def _details(metric: str, groups: Iterable[Group]) -> dict[str, str]:
    """Return the name of the metric in the column of each data set."""
    if metric != SCORE:
        return {}
    reported = [(row.dataset, row.main_metric) for group in groups for row in group.rows if row.score is not None]
    return {dataset: METRICS.get(name, one_line(name, 20)) for dataset, name in dict.fromkeys(reported)}


def _columns(
    names: Sequence[str], details: Mapping[str, str], rows: Sequence[Sequence[Cell]], unit: Unit = "score"
) -> list[Column]:
    found = [Column("Average", unit=unit)] if len(names) > 1 else []
    found += [Column(name, details.get(name, ""), unit) for name in names]
    return _counted(found, rows)


def _counted(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[Column]:
    """Return the columns with the number of examples that most of their cells have."""
    found = list(columns)
    for i, column in enumerate(found):
        counts = Counter(row[i].n for row in rows if row[i].value is not None)
        if counts:
            found[i] = replace(column, n=counts.most_common(1)[0][0])
    return found


def _marked(rows: Sequence[Sequence[Cell]], best: Sequence[Callable[[Iterable[float]], float] | None]) -> list[tuple[Cell, ...]]:
    """Return the rows with the best cell of each column marked, where the cells differ. best: `max`, `min` or None by column."""
    marked = [list(row) for row in rows]
    for i, choose in enumerate(best):
        found = [value for row in rows if (value := row[i].value) is not None]
        if choose is None or not found or max(found) - min(found) <= 1e-12:
            continue
        for row in marked:
            value = row[i].value
            row[i] = replace(row[i], marked=value is not None and abs(value - choose(found)) <= 1e-12)
    return [tuple(row) for row in marked]


def _table(
    name: str, title: str, note: str, columns: Sequence[Column], groups: Sequence[Group], rows: Sequence[Sequence[Cell]]
) -> Table:
    note += "; the best of a column is marked." if any(cell.marked for row in rows for cell in row) else "."
    labelled = tuple((group.label, tuple(row)) for group, row in zip(groups, rows, strict=True))
    return Table(name, title, note, tuple(columns), labelled)
