"""Reports on result rows: a summary, paired differences between configurations or runs, and minimum scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import statistics
from fbrag_cli.evaluation.metrics import LESS, METRICS, RIGHT, SCORE, known_metric
from fbrag_cli.evaluation.results import Result, key, labels, order, shared
from fbrag_cli.evaluation.statistics import percentile
from fbrag_cli.evaluation.tables import Asked, Cell, Column, Report, Table, Unit
from fbrag_cli.methods.registry import PLAIN
from fbrag_cli.text.printable import one_line, plural

_REPORTED = (
    *(RIGHT, SCORE, "contains", "evidence_recall", "full_evidence"),
    *("answer_in_context", "answer_in_samples", "abstain", "abstain_wrongly"),
)
_ERRORS_NAMED = 3
_COVERED = (0.25, 0.5, 0.75, 1.0)  # shares of the answers
_SURE = 0.05  # p below which a difference is marked, because the interval of a few pairs is too narrow
#: What decides which configuration is better: the first of these that was measured; and its name in the summary.
_SHORT = {RIGHT: "Right", SCORE: "Score", "evidence_recall": "Evidence recall", "answer_in_context": "Answer read"}
_STAGES = ("read", "load", "recall", "forward", "select", "answer", "verify", "first_token")
_ASKED = 40  # questions in a report

Values = dict[str, dict[str, float]]  # by data set, then by id
Part = TypeVar("Part")


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
        """Return the values of a metric in the order of the ids, so that the same examples are resampled in the same way."""
        values: Values = {}
        for row in sorted(self.rows, key=lambda row: row.id):
            if (value := row.value(metric)) is not None:
                values.setdefault(row.dataset, {})[row.id] = value
        return values


def group_rows(rows: Iterable[Result]) -> list[Group]:
    """Return the rows grouped by configuration, in table order, with labels."""
    groups: dict[str, list[Result]] = {}
    for row in rows:
        groups.setdefault(key(row.configuration), []).append(row)
    ordered = sorted(groups.values(), key=lambda group: order(group[0].configuration))
    named = labels([group[0].configuration for group in ordered])
    presets = [group[0].preset for group in ordered]
    if len(presets) > 1 and all(presets) and len({*presets}) == len(presets):
        named = presets
    return [Group(label, group[0].configuration, tuple(group)) for label, group in zip(named, ordered, strict=True)]


Pair = tuple[Group, Group]  # a group, and the one to compare it with


def pairs_of(groups: Sequence[Group], baseline: str | None = None) -> list[Pair]:
    """Return the other groups, each with `baseline`: a label, or the name of a method if only one group has it; by default the
    preset `default`, or else the first group. Raises FbragError (usage) if it names no group or several."""
    if not groups:
        return []
    chosen = _chosen(groups, baseline) if baseline else next((each for each in groups if each.label == PLAIN), groups[0])
    return [(group, chosen) for group in groups if group is not chosen]


def pairs_of_runs(groups: Sequence[Group], before: Sequence[Group]) -> list[Pair]:
    """Return the groups, each with the one of an older run that has the same configuration, or with the only one.

    Raises FbragError (usage) if the runs have no configuration in common.
    """
    by_key = {key(group.configuration): group for group in before}
    only = before[0] if len(before) == 1 else None
    matched = [(group, by_key.get(key(group.configuration), only)) for group in groups]
    pairs = [(group, replace(other, label=f"{other.label} before")) for group, other in matched if other is not None]
    if not pairs:
        message = "the two runs have no configuration in common"
        raise FbragError("usage", message, f"old run: {_listed(before)}; new run: {_listed(groups)}")
    return pairs


# -- what a decision needs -------------------------------------------------------------------------------------------------------


def overview(rows: Sequence[Result], pairs: Sequence[Pair] | None = None) -> Report:
    """Return which configuration is better, the questions with what each one answers, and one table.

    pairs: groups to compare, None for all with the default one. Of many questions, those come first for which the configurations
    differ.
    """
    groups = group_rows(rows)
    pairs = pairs_of(groups) if pairs is None else pairs
    said = [verdict(new, old) for new, old in pairs] or [_alone(group) for group in groups]
    replies: dict[tuple[str, str], dict[str, Result]] = {}
    for group in groups:
        for row in group.rows:
            if row.answer is not None or row.status in ("error", "not_found"):
                replies.setdefault((row.dataset, row.id), {})[group.label] = row
    names = tuple(group.label for group in groups)
    listed, notes = [*replies.values()], [*_notes(groups)]
    if (more := len(listed) - _ASKED) > 0:
        listed.sort(key=lambda of: len({row.right for row in of.values()}) == 1)
        notes.insert(0, f"{plural(more, 'more question')}: -o FILE writes all rows.")
    tables = (summary_table(groups),) if groups else ()
    asked = tuple(_asked(of, names) for of in listed[:_ASKED])
    return Report("Evaluation", tables, {}, tuple(notes), tuple(said) or ("No questions were evaluated.",), names, asked)


def verdict(new: Group, old: Group) -> str:
    """Return which of two groups is better over the questions that both have, or that no difference can be seen and how many
    questions would be needed (`statistics.needed_pairs`)."""
    for metric in _SHORT:
        if paired := _paired(new.values(metric), old.values(metric)):
            break
    else:
        return f"{new.label} and {old.label} have no question in common."
    differences = [value for of in paired.values() for value in of]
    n, found = len(differences), _difference(paired)
    if found.marked:
        sign = 1 if (found.value or 0) > 0 else -1
        better, worse = (new, old) if sign > 0 else (old, new)
        low, high = sorted(100 * sign * (each or 0) for each in (found.low, found.high))
        more = f"{abs(sum(differences)):.0f} of {n} more right"
        if metric != RIGHT:
            more = f"{METRICS[metric]} {100 * sign * (found.value or 0):+.1f} points"
        return f"{better.label} is better than {worse.label}: {more} ({low:+.0f} to {high:+.0f}%)."
    what = f"No difference can be seen between {new.label} and {old.label} with {plural(n, 'question')}"
    if _read_the_same(new, old):
        return f"{what}: both read the same passages."
    if metric == RIGHT:
        rights = (sum(row.right is True for row in group.done) for group in (new, old))
        what += " ({:,} and {:,} right)".format(*rights)
    needed = statistics.needed_pairs(differences)
    return f"{what}; about {_rounded(needed):,} are needed." if needed else f"{what}."


def _alone(group: Group) -> str:
    """Return what a single group reaches."""
    for metric in _SHORT:
        if values := group.values(metric):
            cell, every = _mean(values), [value for of in values.values() for value in of.values()]
            said = f"{METRICS[metric]} {100 * (cell.value or 0):.1f}%"
            if metric == RIGHT:
                said = f"{sum(every):.0f} of {len(every)} right"
            if cell.low is not None and cell.high is not None:
                said += f" (95% interval: {100 * cell.low:.0f} to {100 * cell.high:.0f}%)"
            return f"{group.label}: {said}."
    return f"{group.label}: no question was answered."


def _read_the_same(new: Group, old: Group) -> bool:
    """Return whether the large model read the same text for each question that both have."""
    read = {(row.dataset, row.id): row.read for row in old.done}
    both = [(row.read, read[row.dataset, row.id]) for row in new.done if (row.dataset, row.id) in read]
    return bool(both) and all(one and one == other for one, other in both)


def _rounded(n: int) -> int:
    """Return a number rounded up to two digits."""
    step: int = 10 ** max(0, len(str(n)) - 2)
    return ceil(n / step) * step


def _asked(rows: Mapping[str, Result], names: Sequence[str]) -> Asked:
    first = next(iter(rows.values()))
    return Asked(first.question or first.id, "; ".join(first.gold), tuple(_reply(rows.get(name)) for name in names))


def _reply(row: Result | None) -> str:
    """Return what `fbrag ask` would print, after "+" if it is right and "-" if not."""
    if row is None:
        return ""
    mark = {True: "+ ", False: "- ", None: ""}[row.right]
    if row.status == "error":
        return f"error: {row.error}"
    said = row.answer or ""
    return mark + (f"not found (withheld: {said})" if row.withheld and said else "not found" if row.withheld else said)


# -- reports -------------------------------------------------------------------------------------------------------------------


def summarise(rows: Sequence[Result]) -> Report:
    """Return the tables of a run, like the paper's Tables 1, 2, 7 and 8: one line per configuration, one column per dataset.

    There is a table for each score in the rows, for the coverage of confident answers, and the costs of models. The first column
    is the average over the datasets.
    """
    groups = group_rows(rows)
    tables = [score_table(name, groups) for name in _REPORTED if any(group.values(name) for group in groups)]
    if any(row.confidence is not None and row.right is not None for row in rows):
        tables.append(coverage_table(groups))
    if any(row.tokens_read for row in rows):  # if no model ran, the costs are zero
        tables.append(cost_table(groups))
    return Report("All scores", tuple(tables), shared([group.configuration for group in groups]))


def compare(pairs: Sequence[Pair]) -> Report:
    """Return the differences of groups from others, over the examples that both have."""
    groups = list({id(group): group for pair in pairs for group in pair}.values())
    tables = tuple(table for metric in _REPORTED if (table := difference_table(metric, pairs, groups)))
    note = "Intervals: percentile bootstrap over the pairs. p: sign-flip test, not corrected for multiple comparisons."
    if not tables:
        note = "No example was measured for both."
    from_ = ", ".join(dict.fromkeys(other.label for _, other in pairs))
    return Report(f"Difference from {from_}", tables, shared([group.configuration for group in groups]), (note,))


def parse_fail_under(text: str) -> dict[str, float]:
    """Parse minimum scores such as `f1=0.4,evidence_recall=0.8`. Return them by metric.

    Raises FbragError (usage) for an unknown or repeated metric, one that should be low, and a value that is not a number from 0
    to 1.
    """
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
                f"--fail-under: expected METRIC=NUMBER (0 to 1), got {one_line(part, 60)!r}",
                "for example --fail-under f1=0.4,evidence_recall=0.8",
            )
        name = known_metric(name)
        if name in LESS:
            raise FbragError("usage", f"--fail-under: {name} should be low", "use --fail-under abstain=X")
        if name in minimum:
            raise FbragError("usage", f"--fail-under: {name} is given twice", "name each metric once")
        minimum[name] = least
    return minimum


def below(rows: Sequence[Result], minimum: Mapping[str, float]) -> list[str]:
    """Return a line for each average over the datasets that is missing or below its minimum.

    With a minimum there is also a line for each configuration with failed examples, which are in no average.
    """
    lines = [] if rows else ["no examples were evaluated"]
    for group in group_rows(rows):
        n_failed = len(group.rows) - len(group.done)
        if minimum and n_failed:
            lines.append(f"{group.label}: {n_failed} of {len(group.rows)} examples failed")
        for name, least in minimum.items():
            values = group.values(name)
            if not values:
                lines.append(f"{group.label}: {name} was not measured (minimum: {least:g})")
                continue
            mean = sum(sum(each.values()) / len(each) for each in values.values()) / len(values)
            if mean < least - 1e-12:
                lines.append(f"{group.label}: {name} {mean:.4f} is below {least:g}")
    return [one_line(line) for line in lines]


def _listed(groups: Sequence[Group]) -> str:
    return "; ".join(group.label for group in groups[:10]) + (" …" if len(groups) > 10 else "") if groups else "nothing"


def _chosen(groups: Sequence[Group], baseline: str) -> Group:
    asked = baseline.strip().casefold()
    matching = [group for group in groups if group.label.casefold() == asked]
    matching = matching or [group for group in groups if str(group.configuration.get("method")).casefold() == asked]
    if len(matching) != 1:
        how_many = "several configurations match" if matching else "no configuration matches"
        raise FbragError(
            "usage", f"--baseline: {how_many} {one_line(baseline, 60)!r}", f"use one of: {_listed(matching or groups)}"
        )
    return matching[0]


def _notes(groups: Sequence[Group]) -> Iterator[str]:
    errors = Counter(one_line(row.error or "no message", 120) for group in groups for row in group.rows if row.status == "error")
    for message, count in errors.most_common(_ERRORS_NAMED):
        yield f"{count} × error: {message}"
    if len(errors) > _ERRORS_NAMED:
        yield f"{len(errors) - _ERRORS_NAMED} other kinds of errors"
    examples = [{(row.dataset, row.id) for row in group.done} for group in groups]
    if any(row.withheld for group in groups for row in group.rows):
        yield "Withheld answers failed the answer check: they score 0, and are right only if the document has no answer."
    if any(each != examples[0] for each in examples):
        yield "The configurations do not have the same examples: compare them by paired differences."


# -- tables --------------------------------------------------------------------------------------------------------------------


def score_table(metric: str, groups: Sequence[Group]) -> Table:
    """Return a metric by configuration and dataset, with the average over the datasets first."""
    by_group = [group.values(metric) for group in groups]
    names = _names(groups, by_group)
    rows = [_cells(values, names, _mean) for values in by_group]
    columns = _columns(names, _details(metric, groups), rows)
    rows = _marked(rows, [min if metric in LESS else max] * len(columns))
    return _table(metric, METRICS[metric], "In percent, [95% interval]", columns, groups, rows)


def difference_table(metric: str, pairs: Sequence[tuple[Group, Group]], groups: Sequence[Group]) -> Table | None:
    """Return the paired differences of a metric by configuration and dataset; None if no example has both values.

    pairs: a group, and the one to compare it with. groups: the groups whose datasets get a column.
    """
    paired = [_paired(group.values(metric), other.values(metric)) for group, other in pairs]
    if not (names := _names(groups, paired)):
        return None
    rows = [_cells(differences, names, _difference) for differences in paired]
    columns = _columns(names, _details(metric, groups), rows, "difference")
    note = "In percentage points, [95% interval], p two-sided; marked if the interval excludes 0 and p is below 0.05."
    labelled = tuple((group.label, tuple(row)) for (group, _), row in zip(pairs, rows, strict=True))
    return Table(metric, METRICS[metric], note, tuple(columns), labelled)


def summary_table(groups: Sequence[Group]) -> Table:
    """Return the shares and means that a decision needs, over all examples that did not fail, and how many did."""
    scores = [name for name in _SHORT if any(group.values(name) for group in groups)]
    columns = [Column(_SHORT[name]) for name in scores]
    columns += [Column(name, unit="count") for name in ("Withheld", "Errors", "Tokens read")] + [
        Column("Seconds", "median", "seconds")
    ]
    rows = []
    for group in groups:
        means = [_mean(values) if (values := group.values(name)) else Cell() for name in scores]
        counts = [sum(row.withheld for row in group.rows), sum(row.status == "error" for row in group.rows)]
        read = [row.tokens_read for row in group.done if row.tokens_read is not None]
        taken = [row.seconds["total"] for row in group.done if "total" in row.seconds]
        costs = [Cell(sum(read) / len(read)) if read else Cell(), Cell(percentile(taken, 50)) if taken else Cell()]
        rows.append([*means, *map(Cell, counts), *costs])
    kept = [i for i, column in enumerate(columns) if column.unit != "count" or any(row[i].value for row in rows)]
    columns, rows = [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
    note = "Scores in percent, [95% interval]. Failed examples are in no mean"
    return _table("summary", "Summary", note, _counted(columns, rows), groups, rows)


def coverage_table(groups: Sequence[Group]) -> Table:
    """Return the share of right answers among the most confident 25% to 100% of the answers.

    Answers of equal confidence are kept together.
    """
    rows = []
    for group in groups:
        answers = sorted(
            ((row.confidence, float(row.right)) for row in group.rows if row.confidence is not None and row.right is not None),
            reverse=True,
        )
        least = [answers[ceil(share * len(answers)) - 1][0] for share in _COVERED] if answers else []
        samples = [{"": [right for confidence, right in answers if confidence >= each]} for each in least]
        rows.append([*map(_mean, samples)] or [Cell()] * len(_COVERED))
    columns = _counted([Column(f"{share:.0%}", "most confident") for share in _COVERED], rows)
    note = "In percent over all datasets, [95% interval]"
    return _table(
        "coverage", "Right answers among the most confident", note, columns, groups, _marked(rows, [max] * len(columns))
    )


def cost_table(groups: Sequence[Group]) -> Table:
    """Return the tokens read, the seconds of each stage and the memory."""
    found = {name for group in groups for row in group.rows for name in row.seconds}
    stages = sorted(found, key=lambda name: (name == "total", _STAGES.index(name) if name in _STAGES else len(_STAGES), name))
    columns = [
        Column("Tokens read", "mean", "count"),
        *(Column(stage, "s, median", "seconds") for stage in stages),
        Column("Memory", "MB, peak", "MB"),
    ]
    rows = []
    for group in groups:
        read = [row.tokens_read for row in group.done if row.tokens_read is not None]
        taken = [[row.seconds[stage] for row in group.done if stage in row.seconds] for stage in stages]
        memory = max((row.memory_mb for row in group.done if row.memory_mb is not None), default=None)
        medians = [Cell(percentile(each, 50), p95=percentile(each, 95)) if each else Cell() for each in taken]
        rows.append([Cell(sum(read) / len(read)) if read else Cell(), *medians, Cell(memory)])
    best = [min if column.name in ("Tokens read", "total") else None for column in columns]
    return _table("cost", "Cost", "Over all examples that did not fail", columns, groups, _marked(rows, best))


def _names(groups: Iterable[Group], parts: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names of the datasets in any of the parts, in the order of the rows."""
    found = dict.fromkeys(row.dataset for group in groups for row in group.rows)
    return [name for name in found if any(name in each for each in parts)]


def _cells(parts: Mapping[str, Part], names: Sequence[str], cell: Callable[[Mapping[str, Part]], Cell]) -> list[Cell]:
    """Return the cells of a line: first over all datasets if there are several, then for each. A cell without a part is empty."""
    columns = [*([names] if len(names) > 1 else []), *([name] for name in names)]
    return [
        cell({name: parts[name] for name in parts if name in each}) if parts.keys() >= {*each} else Cell() for each in columns
    ]


def _mean(parts: Mapping[str, Mapping[str, float] | Sequence[float]]) -> Cell:
    """Return the average over datasets, each of which has values (by id). Of a share, Wilson's interval."""
    listed = {name: [*(of.values() if isinstance(of, Mapping) else of)] for name, of in parts.items()}
    sampled = statistics.average([statistics.bootstrap(values, name) for name, values in listed.items()])
    low, high = statistics.interval(sampled) or (None, None)
    if all(value in (0, 1) for values in listed.values() for value in values):
        low, high = statistics.wilson(sampled.mean, sampled.n)
    return Cell(sampled.mean, low, high, n=sampled.n)


def _paired(new: Values, old: Values) -> dict[str, list[float]]:
    """Return the differences by dataset, over the ids that both have."""
    both = [name for name in new if name in old]
    paired = {name: [value - old[name][id_] for id_, value in new[name].items() if id_ in old[name]] for name in both}
    return {name: differences for name, differences in paired.items() if differences}


def _difference(paired: Mapping[str, Sequence[float]]) -> Cell:
    difference = statistics.paired_difference(paired)
    excludes = difference.low is not None and difference.high is not None and not difference.low <= 0 <= difference.high
    return Cell(
        difference.mean, difference.low, difference.high, p=difference.p, n=difference.n, marked=excludes and difference.p < _SURE
    )


def _details(metric: str, groups: Iterable[Group]) -> dict[str, str]:
    """Return the name of the metric in the column of each dataset."""
    if metric != SCORE:
        return {}
    reported = [(row.dataset, row.main_metric) for group in groups for row in group.rows if row.score is not None]
    return {dataset: METRICS.get(name, one_line(name, 20)) for dataset, name in dict.fromkeys(reported)}


def _columns(
    names: Sequence[str], details: Mapping[str, str], rows: Sequence[Sequence[Cell]], unit: Unit = "score"
) -> list[Column]:
    columns = [Column("Average", unit=unit)] if len(names) > 1 else []
    columns += [Column(name, details.get(name, ""), unit) for name in names]
    return _counted(columns, rows)


def _counted(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[Column]:
    """Return the columns, each with the most common number of examples in its cells."""
    counted = list(columns)
    for i, column in enumerate(counted):
        counts = Counter(row[i].n for row in rows if row[i].value is not None)
        if counts:
            counted[i] = replace(column, n=counts.most_common(1)[0][0])
    return counted


def _marked(rows: Sequence[Sequence[Cell]], best: Sequence[Callable[[Iterable[float]], float] | None]) -> list[list[Cell]]:
    """Return the rows with the best cell of each column marked, if its cells differ. best: `max`, `min` or None, per column."""
    marked = [list(row) for row in rows]
    for i, choose in enumerate(best):
        values = [value for row in rows if (value := row[i].value) is not None]
        if choose is not None and values and max(values) - min(values) > 1e-12:
            for row in marked:
                value = row[i].value
                row[i] = replace(row[i], marked=value is not None and abs(value - choose(values)) <= 1e-12)
    return marked


def _table(
    name: str, title: str, note: str, columns: Sequence[Column], groups: Sequence[Group], rows: Sequence[Sequence[Cell]]
) -> Table:
    note += "; the best of a column is marked." if any(cell.marked for row in rows for cell in row) else "."
    labelled = tuple((group.label, tuple(row)) for group, row in zip(groups, rows, strict=True))
    return Table(name, title, note, tuple(columns), labelled)
