"""The report over result rows: scores by data set and configuration, what they cost, paired differences, thresholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import statistics
from fbrag_cli.evaluation.configurations import labels, order, shared
from fbrag_cli.evaluation.results import Row, key
from fbrag_cli.evaluation.statistics import Bootstrap
from fbrag_cli.evaluation.tables import Cell, Column, Report, Table, Unit
from fbrag_cli.text.printable import one_line

SCORE = "score"  # the main metric of each data set
METRICS = {
    SCORE: "Score",
    "f1": "F1",
    "em": "Exact match",
    "rouge_l": "Rouge-L F1",
    "accuracy": "Accuracy",
    "evidence_recall": "Evidence recall at the selected chunks",
    "full_evidence": "All evidence among the selected chunks",
    "answer_in_samples": "Answer in a forward sample",
    "abstained": "Abstained",
}
_REPORTED = (SCORE, "evidence_recall", "full_evidence", "answer_in_samples")
_STAGES = ("read", "load", "recall", "forward", "select", "answer", "verify", "first_token", "total")
_ERRORS_NAMED = 3

Values = dict[str, dict[str, float]]  # by data set, then by id


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows of one configuration."""

    label: str
    configuration: dict[str, object]
    rows: tuple[Row, ...]

    def values(self, metric: str) -> Values:
        """In the order of the ids: the same resamples for the same examples, in whatever order they were evaluated."""
        found: Values = {}
        for row in sorted(self.rows, key=lambda row: row.id):
            value = row.score if metric == SCORE else row.metrics.get(metric)
            if value is not None:
                found.setdefault(row.dataset, {})[row.id] = value
        return found


def summarise(rows: Sequence[Row]) -> Report:
    """Tables like the paper's 1, 2, 7 and 8: configurations down, data sets across, their average before them.

    metrics: names of `METRICS`; without them the score and the evidence. What no row has measured is left out, as the answers'
    metrics are where only was retrieved. Then how the runs ended, and what they cost. FbragError `usage`: no such metric.
    """
    groups = _groups(rows)
    tables = [_scores(name, groups) for name in _REPORTED if any(group.values(name) for group in groups)]
    if groups:
        tables += [_outcomes(groups), _costs(groups)]
    return Report("Evaluation", tuple(tables), shared([group.configuration for group in groups]), tuple(_notes(groups)))


def compare(rows: Sequence[Row], baseline: str) -> Report:
    """Every other configuration minus `baseline`, over the examples that both have.

    baseline: a configuration's label, or the name of its method where one configuration has it. FbragError `usage`: no such
    configuration, or several; no such metric.
    """
    groups = _groups(rows)
    chosen = _chosen(groups, baseline)
    pairs = [(group.label, group, chosen) for group in groups if group is not chosen]
    return _differences(pairs, f"Difference from {chosen.label}", groups)


def compare_runs(new: Sequence[Row], old: Sequence[Row]) -> Report:
    """Each configuration of `new` minus the same one of `old`; where `old` has only one, minus that.

    FbragError `usage`: they have no configuration in common; no such metric.
    """
    groups, before = _groups(new), _groups(old)
    by_key = {key(group.configuration): group for group in before}
    only = before[0] if len(before) == 1 else None
    matched = [(group, by_key.get(key(group.configuration), only)) for group in groups]
    pairs = [(group.label, group, other) for group, other in matched if other is not None]
    if not pairs:
        raise FbragError(
            "usage",
            "the two runs have no configuration in common",
            f"the old one has: {_listed(before)}; the new one: {_listed(groups)}",
        )
    return _differences(pairs, "Difference from the older run", [*groups, *before])


def parse_minimum(text: str) -> dict[str, float]:
    """`f1=0.4,evidence_recall=0.8` as a mapping. FbragError `usage`: no such metric, no number from 0 to 1, one metric twice."""
    minimum: dict[str, float] = {}
    for part in text.split(","):
        name, equals, written = part.partition("=")
        try:
            least = float(written)
        except ValueError:
            least = float("nan")
        if not equals or not 0 <= least <= 1:
            raise FbragError(
                "usage",
                f"--min: {one_line(part, 60) or 'nothing'} is not METRIC=NUMBER with a number from 0 to 1",
                "write it as --min f1=0.4,evidence_recall=0.8",
            )
        name = _known(name)
        if name in minimum:
            raise FbragError("usage", f"--min: {name} is there twice", "name each metric once")
        minimum[name] = least
    return minimum


def below(rows: Sequence[Row], minimum: Mapping[str, float]) -> list[str]:
    """A line for each configuration and metric whose average over the data sets is less than its minimum, or was not measured."""
    lines = [] if rows else ["no example was evaluated"]
    for group in _groups(rows):
        for name, least in minimum.items():
            values = group.values(name)
            if not values:
                lines.append(f"{group.label}: {name} was not measured; the minimum is {least:g}")
                continue
            mean = sum(sum(held.values()) / len(held) for held in values.values()) / len(values)
            if mean < least - 1e-12:
                lines.append(f"{group.label}: {name} {mean:.4f} is below {least:g}")
    return [one_line(line) for line in lines]


def _groups(rows: Iterable[Row]) -> list[_Group]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row.configuration), []).append(row)
    held = sorted(found.values(), key=lambda group: order(group[0].configuration))
    named = labels([group[0].configuration for group in held])
    return [_Group(label, group[0].configuration, tuple(group)) for label, group in zip(named, held, strict=True)]


def _known(name: str) -> str:
    name = name.strip().lower().replace("-", "_")
    if name not in METRICS:
        raise FbragError("usage", f"there is no metric {one_line(name, 40) or 'without a name'}", f"one of {', '.join(METRICS)}")
    return name


def _listed(groups: Sequence[_Group]) -> str:
    return "; ".join(group.label for group in groups[:10]) + (" …" if len(groups) > 10 else "") if groups else "nothing"


def _chosen(groups: Sequence[_Group], baseline: str) -> _Group:
    asked = baseline.strip().casefold()
    found = [group for group in groups if group.label.casefold() == asked]
    found = found or [group for group in groups if str(group.configuration.get("method")).casefold() == asked]
    if len(found) != 1:
        how_many = "several configurations are" if found else "no configuration is"
        raise FbragError(
            "usage", f"{how_many} called {one_line(baseline, 60) or 'nothing'}", f"one of: {_listed(found or groups)}"
        )
    return found[0]


def _datasets(groups: Iterable[_Group]) -> list[str]:
    return list(dict.fromkeys(row.dataset for group in groups for row in group.rows))


def _details(metric: str, groups: Iterable[_Group]) -> dict[str, str]:
    """By data set, the metric that its column shows."""
    if metric != SCORE:
        return {}
    held = [(row.dataset, row.main_metric) for group in groups for row in group.rows if row.score is not None]
    return {dataset: METRICS.get(name, one_line(name, 20)) for dataset, name in dict.fromkeys(held)}


def _scores(metric: str, groups: Sequence[_Group]) -> Table:
    by_group = [group.values(metric) for group in groups]
    names = [name for name in _datasets(groups) if any(name in values for values in by_group)]
    rows = [list(_score_cells(values, names)) for values in by_group]
    columns = _columns(names, _details(metric, groups), rows)
    note = "In percent, [95 % interval]"
    return _table(metric, METRICS[metric], note, columns, groups, rows, [max] * len(columns))


def _score_cells(values: Values, names: Sequence[str]) -> Iterator[Cell]:
    sampled = {name: statistics.bootstrap(list(values[name].values()), name) for name in names if name in values}
    if len(names) > 1:
        yield _cell(statistics.average(list(sampled.values()))) if len(sampled) == len(names) else Cell()
    for name in names:
        yield _cell(sampled[name]) if name in sampled else Cell()


def _cell(sampled: Bootstrap) -> Cell:
    low, high = statistics.interval(sampled) or (None, None)
    return Cell(sampled.mean, low, high, n=sampled.n)


def _columns(
    names: Sequence[str], details: Mapping[str, str], rows: Sequence[Sequence[Cell]], unit: Unit = "score"
) -> list[Column]:
    found = [Column("Average", unit=unit)] if len(names) > 1 else []
    found += [Column(name, details.get(name, ""), unit) for name in names]
    for i, column in enumerate(found):
        counts = Counter(row[i].n for row in rows if row[i].value is not None)
        if counts:
            found[i] = replace(column, n=counts.most_common(1)[0][0])
    return found


def _table(
    name: str,
    title: str,
    note: str,
    columns: Sequence[Column],
    groups: Sequence[_Group],
    rows: Sequence[Sequence[Cell]],
    best: Sequence[Callable[[Iterable[float]], float] | None],
) -> Table:
    """With the best cell of each column marked, where the cells differ; best: `max`, `min` or None, by column."""
    held = [list(row) for row in rows]
    marks = False
    for i, choose in enumerate(best):
        values = [row[i].value for row in held]
        found = [value for value in values if value is not None]
        if choose is None or not found or max(found) - min(found) <= 1e-12:
            continue
        marks = True
        for row in held:
            value = row[i].value
            row[i] = replace(row[i], marked=value is not None and abs(value - choose(found)) <= 1e-12)
    note += "; the best of a column is marked." if marks else "."
    named = [(group.label, tuple(row)) for group, row in zip(groups, held, strict=True)]
    return Table(name, title, note, tuple(columns), tuple(named))


def _outcomes(groups: Sequence[_Group]) -> Table:
    columns = [
        Column("Examples", unit="count"),
        Column("Answered", unit="count"),
        Column("Not found", unit="count"),
        Column("Retrieved only", unit="count"),
        Column("Errors", unit="count"),
        Column("Abstained", "percent"),
    ]
    rows = []
    for group in groups:
        ended = Counter(row.status for row in group.rows)
        abstained = [value for held in group.values("abstained").values() for value in held.values()]
        rows.append(
            [
                Cell(len(group.rows)),
                *(Cell(ended[status]) for status in ("answered", "not_found", "retrieved", "error")),
                Cell(sum(abstained) / len(abstained), n=len(abstained)) if abstained else Cell(),
            ]
        )
    shown = [i for i, column in enumerate(columns) if column.name in ("Examples", "Errors") or any(row[i].value for row in rows)]
    rows = [[row[i] for i in shown] for row in rows]
    columns = [columns[i] for i in shown]
    note = "Examples with an error count in no average"
    return _table("outcomes", "Outcomes", note, columns, groups, rows, [None] * len(columns))


def _costs(groups: Sequence[_Group]) -> Table:
    found = {name for group in groups for row in group.rows for name in row.seconds}
    stages = [name for name in _STAGES if name in found]
    # Stages that we do not know go before the total.
    stages[stages.index("total") if "total" in stages else len(stages) :] = [
        *sorted(found - set(_STAGES)),
        *(["total"] if "total" in stages else []),
    ]
    columns = [
        Column("Tokens read", "mean", "count"),
        *(Column(stage, "s, median", "seconds") for stage in stages),
        Column("Memory", "MB, peak", "MB"),
    ]
    rows = [[_tokens(group), *(_seconds(group, stage) for stage in stages), _memory(group)] for group in groups]
    best = [min if column.name in ("Tokens read", "total") else None for column in columns]
    return _table("cost", "Cost", "Over all examples without an error", columns, groups, rows, best)


def _done(group: _Group) -> list[Row]:
    return [row for row in group.rows if row.status != "error"]


def _tokens(group: _Group) -> Cell:
    read = [row.tokens_read for row in _done(group) if row.tokens_read is not None]
    return Cell(sum(read) / len(read)) if read else Cell()


def _seconds(group: _Group, stage: str) -> Cell:
    taken = [row.seconds[stage] for row in _done(group) if stage in row.seconds]
    return Cell(statistics.percentile(taken, 50), p95=statistics.percentile(taken, 95)) if taken else Cell()


def _memory(group: _Group) -> Cell:
    return Cell(max((row.memory_mb for row in _done(group) if row.memory_mb is not None), default=None))


def _notes(groups: Sequence[_Group]) -> Iterator[str]:
    errors = Counter(one_line(row.error or "no message", 120) for group in groups for row in group.rows if row.status == "error")
    for message, count in errors.most_common(_ERRORS_NAMED):
        yield f"{count} × error: {message}"
    if len(errors) > _ERRORS_NAMED:
        yield f"{len(errors) - _ERRORS_NAMED} other kinds of errors"
    examples = [{(row.dataset, row.id) for row in _done(group)} for group in groups]
    if any(each != examples[0] for each in examples):
        yield "Not every configuration has the same examples: compare them by paired differences."


def _differences(pairs: Sequence[tuple[str, _Group, _Group]], title: str, groups: Sequence[_Group]) -> Report:
    tables = []
    for metric in _REPORTED:
        paired = [_paired(group.values(metric), other.values(metric)) for _, group, other in pairs]
        names = [name for name in _datasets(groups) if any(name in held for held in paired)]
        if not names:
            continue
        rows = [list(_difference_cells(held, names)) for held in paired]
        columns = _columns(names, _details(metric, groups), rows, "difference")
        note = "In points of percent, [95 % interval], p two-sided; marked where the interval excludes 0."
        held_rows = tuple((label, tuple(row)) for (label, _, _), row in zip(pairs, rows, strict=True))
        tables.append(Table(metric, METRICS[metric], note, tuple(columns), held_rows))
    note = "Intervals: percentile bootstrap over the pairs. p: sign-flip test, not corrected for how many differences are shown."
    if not tables:
        note = "No example was measured by both sides."
    return Report(title, tuple(tables), shared([group.configuration for group in groups]), (note,))


def _paired(new: Values, old: Values) -> dict[str, list[float]]:
    """By data set, the differences over the ids that both have."""
    held = {name: [value - old[name][id_] for id_, value in new[name].items() if id_ in old[name]] for name in new if name in old}
    return {name: differences for name, differences in held.items() if differences}


def _difference_cells(paired: Mapping[str, Sequence[float]], names: Sequence[str]) -> Iterator[Cell]:
    if len(names) > 1:
        yield _difference(paired) if len(paired) == len(names) else Cell()
    for name in names:
        yield _difference({name: paired[name]}) if name in paired else Cell()


def _difference(paired: Mapping[str, Sequence[float]]) -> Cell:
    found = statistics.paired_difference(paired)
    excludes = found.low is not None and found.high is not None and not found.low <= 0 <= found.high
    return Cell(found.mean, found.low, found.high, p=found.p, n=found.n, marked=excludes)
