"""Reports over result rows: a summary, paired differences between configurations or runs, and minimum scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.labels import key, shared
from fbrag_cli.evaluation.metrics import LESS, SCORE, known_metric
from fbrag_cli.evaluation.report_tables import (
    Group,
    cost_table,
    coverage_table,
    difference_table,
    group_rows,
    outcome_table,
    score_table,
)
from fbrag_cli.evaluation.results import Result
from fbrag_cli.evaluation.tables import Report
from fbrag_cli.text.printable import one_line

_REPORTED = (
    *(SCORE, "contains", "evidence_recall", "full_evidence"),
    *("answer_in_context", "answer_in_samples", "abstain", "abstain_wrongly"),
)
_ERRORS_NAMED = 3


def summarise(rows: Sequence[Result]) -> Report:
    """Return the tables of a run, as the paper's Tables 1, 2, 7 and 8: a line for each configuration, a column for each data set.

    There is a table for each score that any row has, for the coverage of confident answers, the outcomes, and the costs of
    models. The first column is the average over the data sets.
    """
    groups = group_rows(rows)
    tables = [score_table(name, groups) for name in _REPORTED if any(group.values(name) for group in groups)]
    if any(row.confidence is not None and row.right is not None for row in rows):
        tables.append(coverage_table(groups))
    if groups:
        tables.append(outcome_table(groups))
    if any(row.tokens_read for row in rows):  # where no model ran, the costs are zeros
        tables.append(cost_table(groups))
    return Report("Evaluation", tuple(tables), shared([group.configuration for group in groups]), tuple(_notes(groups)))


def compare(rows: Sequence[Result], baseline: str) -> Report:
    """Return the difference of each other configuration from `baseline`, over the examples that both have.

    baseline: a configuration's label, or the name of its method where one configuration has it. Raises FbragError (usage) where
    it names no configuration or several.
    """
    groups = group_rows(rows)
    chosen = _chosen(groups, baseline)
    pairs = [(group, chosen) for group in groups if group is not chosen]
    return _differences(pairs, f"Difference from {chosen.label}", groups)


def compare_runs(new: Sequence[Result], old: Sequence[Result]) -> Report:
    """Return the difference of each configuration of `new` from the same one of `old`, or from the only one of `old`.

    Raises FbragError (usage) where they have no configuration in common.
    """
    groups, before = group_rows(new), group_rows(old)
    by_key = {key(group.configuration): group for group in before}
    only = before[0] if len(before) == 1 else None
    matched = [(group, by_key.get(key(group.configuration), only)) for group in groups]
    pairs = [(group, other) for group, other in matched if other is not None]
    if not pairs:
        raise FbragError(
            "usage",
            "the two runs have no configuration in common",
            f"the old one has: {_listed(before)}; the new one: {_listed(groups)}",
        )
    return _differences(pairs, "Difference from the older run", [*groups, *before])


def parse_minimum(text: str) -> dict[str, float]:
    """Parse minimum scores, as `f1=0.4,evidence_recall=0.8`. Return them by metric.

    Raises FbragError (usage) for an unknown metric, a metric that is named twice, one where less is better, and a value that is
    not a number from 0 to 1.
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
                f"--min: {one_line(part, 60) or 'nothing'} is not METRIC=NUMBER with a number from 0 to 1",
                "write it as --min f1=0.4,evidence_recall=0.8",
            )
        name = known_metric(name)
        if name in LESS:
            raise FbragError("usage", f"--min: less of {name} is better", "give a minimum of abstain")
        if name in minimum:
            raise FbragError("usage", f"--min: {name} is there twice", "name each metric once")
        minimum[name] = least
    return minimum


def below(rows: Sequence[Result], minimum: Mapping[str, float]) -> list[str]:
    """Return a line for each average over the data sets that is missing or below its minimum.

    With a minimum there is also a line for each configuration with failed examples, which count in no average.
    """
    lines = [] if rows else ["no example was evaluated"]
    for group in group_rows(rows):
        n_failed = len(group.rows) - len(group.done)
        if minimum and n_failed:
            lines.append(f"{group.label}: {n_failed} of {len(group.rows)} examples failed")
        for name, least in minimum.items():
            values = group.values(name)
            if not values:
                lines.append(f"{group.label}: {name} was not measured; the minimum is {least:g}")
                continue
            mean = sum(sum(each.values()) / len(each) for each in values.values()) / len(values)
            if mean < least - 1e-12:
                lines.append(f"{group.label}: {name} {mean:.4f} is below {least:g}")
    return [one_line(line) for line in lines]


def _listed(groups: Sequence[Group]) -> str:
    return "; ".join(group.label for group in groups[:10]) + (" …" if len(groups) > 10 else "") if groups else "nothing"


def _chosen(groups: Sequence[Group], baseline: str) -> Group:
    asked = baseline.strip().casefold()
    found = [group for group in groups if group.label.casefold() == asked]
    found = found or [group for group in groups if str(group.configuration.get("method")).casefold() == asked]
    if len(found) != 1:
        how_many = "several configurations are" if found else "no configuration is"
        raise FbragError(
            "usage", f"--compare: {how_many} called {one_line(baseline, 60) or 'nothing'}", f"one of: {_listed(found or groups)}"
        )
    return found[0]


def _notes(groups: Sequence[Group]) -> Iterator[str]:
    errors = Counter(one_line(row.error or "no message", 120) for group in groups for row in group.rows if row.status == "error")
    for message, count in errors.most_common(_ERRORS_NAMED):
        yield f"{count} × error: {message}"
    if len(errors) > _ERRORS_NAMED:
        yield f"{len(errors) - _ERRORS_NAMED} other kinds of errors"
    examples = [{(row.dataset, row.id) for row in group.done} for group in groups]
    if any(row.status == "not_found" for group in groups for row in group.rows):
        yield "An answer that was declined counts in the scores as it was proposed."
    if any(each != examples[0] for each in examples):
        yield "Not every configuration has the same examples: compare them by paired differences."


def _differences(pairs: Sequence[tuple[Group, Group]], title: str, groups: Sequence[Group]) -> Report:
    found = [difference_table(metric, pairs, groups) for metric in _REPORTED]
    tables = tuple(table for table in found if table)
    note = "Intervals: percentile bootstrap over the pairs. p: sign-flip test, not corrected for how many differences are shown."
    if not tables:
        note = "No example was measured by both sides."
    return Report(title, tables, shared([group.configuration for group in groups]), (note,))
