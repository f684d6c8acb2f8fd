"""The report as its reader sees it: right numbers under right names, in each rendering, whatever the data are called."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.report import (
    below,
    compare,
    group_rows,
    overview,
    pairs_of,
    pairs_of_runs,
    parse_fail_under,
    summarise,
)
from fbrag_cli.evaluation.results import Result, read_results
from fbrag_cli.evaluation.tables import Cell, Report, Table, as_json, as_markdown, as_text
from fbrag_cli.text.printable import one_line

HOSTILE = (
    "</td></table><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7*7 }} {% raw %} | a | \\| `x` **b** [l](http://e.x) "
    "![i](http://e.x/i.png) <http://e.x> https://e.x www.e.x a@e.x &lt; $x$ \x1b[31m red \x07 \u202e evil \ud800 \nnext\r"
    "# h --> ]]>"
)
FB: dict[str, Any] = {
    "method": "fb-rag",
    "retriever": "bm25",
    "small": "small-1b",
    "large": "large-3b",
    "chunk_words": 300,
    "recall": 8,
    "select": 5,
    "samples": 5,
    "weights": "0.5:0.5",
    "temperature": 1.0,
}
F = FB | {"weights": "1:0"}
OP = {"method": "order-preserving", "retriever": "bm25", "large": "large-3b", "chunk_words": 300, "select": 5}


def row(id_: str, configuration: dict[str, Any], score: float | None, dataset: str = "musique", /, **more: Any) -> dict[str, Any]:
    metrics = {"f1": score, "em": None, "evidence_recall": None, "full_evidence": None}
    return {
        "schema": "fbrag.eval/1",
        "id": id_,
        "dataset": dataset,
        "configuration": configuration,
        "status": "answered",
        "answer": "x",
        "main_metric": "f1",
        "metrics": metrics,
        "tokens_read": 1000,
        "seconds": {"forward": 2.0, "total": 3.0},
        "memory_mb": 2000,
        "error": None,
    } | more


@pytest.fixture
def results(tmp_path: Path) -> Any:
    def read(rows: Iterable[dict[str, Any]], name: str = "rows.jsonl") -> list[Result]:
        path = tmp_path / name
        path.write_text("".join(json.dumps(each) + "\n" for each in rows), "utf-8")
        return read_results(path)

    return read


def table(report: Report, name: str) -> Table:
    return next(table for table in report.tables if table.name == name)


def cell(report: Report, name: str, label: str, column: str) -> Cell:
    found = table(report, name)
    return dict(found.rows)[label][[column.name for column in found.columns].index(column)]


def against(rows: list[Result], baseline: str) -> Report:
    return compare(pairs_of(group_rows(rows), baseline))


def before(rows: list[Result], old: list[Result]) -> Report:
    return compare(pairs_of_runs(group_rows(rows), group_rows(old)))


def labels_of(report: Report) -> list[str]:
    return [label for label, _ in report.tables[0].rows]


# Reading


def test_a_last_row_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = json.dumps(row("1", FB, 0.5))
    path = tmp_path / "rows.jsonl"
    for cut in (3, 20, 60, len(whole) - 1):
        path.write_text(f"{whole}\n{json.dumps(row('2', FB, 0.7))}\n{whole[:cut]}", "utf-8")
        assert [each.id for each in read_results(path)] == ["1", "2"]
    path.write_bytes(whole.encode() + b"\n" + json.dumps(row("é", FB, 0.7), ensure_ascii=False).encode()[:33] + b"\0\0")
    assert [each.id for each in read_results(path)] == ["1"]
    path.write_text(whole, "utf-8")  # whole, but for its line break
    assert [each.id for each in read_results(path)] == ["1"]


def test_of_an_example_that_was_tried_again_the_last_row_counts(results: Any) -> None:
    failed = row("1", FB, None, status="error", error="timeout", metrics={})
    rows = results([failed, row("2", FB, 0.2), row("1", dict(reversed(FB.items())), 0.6)])
    assert sorted((each.id, each.score) for each in rows) == [("1", 0.6), ("2", 0.2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "fbrag.eval/2", "id": "1"}', "line 1: schema is fbrag.eval/2, not fbrag.eval/1"),
        ('{"id": "1"}', "line 1: schema is None"),
        ("\n\nsome notes\n", "line 3: not JSON"),
        ("some notes", "line 1: not JSON"),
        ("[1, 2]", "line 1: not an object"),
        ("[" * 100_000, "line 1: not JSON"),
        *(
            (json.dumps(row("1", FB, 0.5, **changed)), "line 1: damaged row")
            for changed in (
                *({"id": 7}, {"status": "done"}, {"configuration": []}, {"metrics": {"f1": "high"}}, {"memory_mb": 10**400}),
                *({"metrics": {"f1": float("nan")}}, {"seconds": None}, {"error": ["x"]}),
            )
        ),
    ],
)
def test_what_is_no_result_row_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(FbragError) as error:
        read_results(path)
    assert error.value.code == "usage"
    assert said in error.value.message
    assert error.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FbragError, match="No such file"):
        read_results(tmp_path / "none.jsonl")
    with pytest.raises(FbragError, match="directory"):
        read_results(tmp_path)


# Names


@pytest.mark.parametrize(
    ("configurations", "named"),
    [
        ([FB], ["fb-rag"]),
        ([FB, OP], ["order-preserving", "fb-rag"]),
        (
            [FB, OP, OP | {"select": 3}],
            ["order-preserving:select=3", "order-preserving:select=5", "fb-rag:select=5"],
        ),
        ([FB | {"select": 3, "recall": 20}, FB], ["fb-rag:recall=20,select=3", "fb-rag:recall=8,select=5"]),
        ([F, FB], ["fb-rag:weights=0.5:0.5", "fb-rag:weights=1:0"]),
        ([FB | {"fusion": "raw"}, FB | {"fusion": "minmax"}], ["fb-rag:fusion=minmax", "fb-rag:fusion=raw"]),
        ([FB | {"order": "read-first"}, FB | {"order": "document"}], ["fb-rag:order=document", "fb-rag:order=read-first"]),
        ([FB, FB | {"chunk_words": 60}], ["fb-rag:chunk-words=60", "fb-rag:chunk-words=300"]),
        (
            [FB | {"small": "a", "large": "x"}, FB | {"small": "b", "large": "y"}],
            ["fb-rag:large=x,small=a", "fb-rag:large=y,small=b"],
        ),
        ([FB | {"weights": "0.7:0.3"}, FB], ["fb-rag:weights=0.5:0.5", "fb-rag:weights=0.7:0.3"]),
        ([FB, OP, {"method": "long-context", "large": "large-3b"}], ["long-context", "order-preserving", "fb-rag"]),
        ([FB, FB | {"new": 1}], ["fb-rag:new=1", "fb-rag:new=null"]),
        ([FB | {"small": "my model;$(ls).gguf"}, FB], ["fb-rag:small=my_model_ls_.gguf", "fb-rag:small=small-1b"]),
        ([FB | {"x": "m" * 80 + "a"}, FB | {"x": "m" * 80 + "b"}], [f"fb-rag:x={'m' * 59}….1", f"fb-rag:x={'m' * 59}….2"]),
    ],
)
def test_labels_name_what_differs(results: Any, configurations: list[dict[str, Any]], named: list[str]) -> None:
    assert labels_of(summarise(results(row("1", each, 0.5) for each in configurations))) == named


def test_a_label_is_one_word_of_a_shell(results: Any) -> None:
    configurations = [FB | {"select": 3}, F, OP | {"retriever": "hub/a b&c"}, FB | {"method": HOSTILE}, FB | {"new": ["$x", "*"]}]
    labels = labels_of(summarise(results(row("1", each, 0.5) for each in configurations)))
    assert len(set(labels)) == len(configurations)
    for label in labels:
        assert subprocess.run(["sh", "-c", f"printf %s {label}"], capture_output=True, text=True, check=True).stdout == label


def test_what_all_have_alike_is_said_once(results: Any) -> None:
    report = summarise(results([row("1", FB, 0.5), row("1", OP, 0.5)]))
    assert report.settings["large"] == "large-3b"
    assert report.settings["small"] == "small-1b"  # of all that read it
    assert "method" not in report.settings
    assert "large large-3b" in as_text(report, 100)


# Scores


def paper(results: Any) -> list[Result]:
    """OP scores 0.2 and 0.4 on musique and 0.5 on qmsum; FB-RAG 0.5, 0.9 and 0.4."""
    found = []
    for configuration, first, second, third in ((OP, 0.2, 0.4, 0.5), (FB, 0.5, 0.9, 0.4)):
        found += [row("1", configuration, first), row("2", configuration, second)]
        found.append(row("1", configuration, 0.1, "qmsum", main_metric="rouge_l", metrics={"rouge_l": third, "f1": 0.1}))
    return list(results(found))


def test_data_sets_across_configurations_down_averages_first(results: Any) -> None:
    report = summarise(paper(results))
    score = table(report, "score")
    assert [(column.name, column.detail) for column in score.columns] == [
        ("Average", ""),
        ("musique", "F1"),
        ("qmsum", "Rouge-L F1"),
    ]
    assert cell(report, "score", "order-preserving", "musique").value == pytest.approx(0.3)
    assert cell(report, "score", "fb-rag", "musique").value == pytest.approx(0.7)
    assert cell(report, "score", "order-preserving", "Average").value == pytest.approx(
        0.4
    )  # of 0.3 and 0.5, not of three examples
    assert cell(report, "score", "fb-rag", "Average").value == pytest.approx(0.55)
    found = cell(report, "score", "order-preserving", "musique")
    assert (found.low, found.high, found.n) == (pytest.approx(0.2), pytest.approx(0.4), 2)
    assert cell(report, "score", "order-preserving", "qmsum").low is None  # one example


def test_the_best_of_each_column_is_marked(results: Any) -> None:
    report = summarise(paper(results))
    marked = {(label, i) for label, cells in table(report, "score").rows for i, each in enumerate(cells) if each.marked}
    assert marked == {("fb-rag", 0), ("fb-rag", 1), ("order-preserving", 2)}
    text = as_text(report, 100)
    assert "*70.0" in text
    assert "*30.0" not in text
    assert "**70.0** \\[50.0, 90.0\\]" in as_markdown(report)
    alone = summarise(results([row("1", FB, 0.5)]))
    assert "*" not in as_text(alone, 100)  # nothing to be better than


def test_all_that_are_best_are_marked(results: Any) -> None:
    rows = [row("1", FB | {"select": select}, score) for select, score in ((3, 0.8), (5, 0.8), (10, 0.1))]
    assert [cells[0].marked for _, cells in table(summarise(results(rows)), "score").rows] == [True, True, False]


def test_a_configuration_without_a_data_set_has_no_average(results: Any) -> None:
    rows = [row("1", FB, 0.5), row("1", FB, 0.5, "qmsum"), row("1", OP, 0.9)]
    report = summarise(results(rows))
    assert cell(report, "score", "order-preserving", "Average").value is None
    assert not cell(report, "score", "order-preserving", "Average").marked
    assert any("same examples" in note for note in overview(results(rows)).notes)
    assert "–" in as_text(report, 100)


def test_retrieval_only_has_no_columns_of_answers(results: Any) -> None:
    metrics = {"f1": None, "evidence_recall": 0.5, "full_evidence": 0}
    configuration = {name: value for name, value in FB.items() if name != "large"}
    rows = results(row(str(i), configuration, None, status="retrieved", metrics=metrics) for i in range(4))
    report = summarise(rows)
    assert [each.name for each in report.tables] == ["evidence_recall", "full_evidence", "cost"]
    for text in (as_text(report, 100), as_markdown(report)):
        assert "F1" not in text
        assert "50.0" in text
    assert overview(rows).verdicts == ("fb-rag: Evidence recall of the selected chunks 50.0% (95% interval: 50 to 50%).",)


def test_errors_are_counted_named_and_in_no_average(results: Any) -> None:
    failed = row("3", FB, None, status="error", error="prompt too long", metrics={}, seconds={}, tokens_read=None, memory_mb=None)
    report = overview(results([row("1", FB, 0.4), row("2", FB, 0.6), failed]))
    assert cell(report, "summary", "fb-rag", "Score").value == pytest.approx(0.5)
    assert cell(report, "summary", "fb-rag", "Right").value == 0.5
    assert cell(report, "summary", "fb-rag", "Errors").value == 1
    assert "1 × error: prompt too long" in as_text(report, 100)


def test_cost_has_medians_95th_percentiles_and_the_peak(results: Any) -> None:
    costs = [(1000, 1.0, 2000), (2000, 2.0, 2500), (3000, 9.0, 2100)]
    rows = [
        row(str(i), FB, 0.5, tokens_read=tokens, seconds={"total": seconds, "forward": 1.0, "odd": 0.5}, memory_mb=memory)
        for i, (tokens, seconds, memory) in enumerate(costs)
    ]
    report = summarise(results(rows))
    assert [column.name for column in table(report, "cost").columns] == ["Tokens read", "forward", "odd", "total", "Memory"]
    total = cell(report, "cost", "fb-rag", "total")
    assert (total.value, total.p95) == (2.0, pytest.approx(8.3))
    assert cell(report, "cost", "fb-rag", "Tokens read").value == 2000
    assert cell(report, "cost", "fb-rag", "Memory").value == 2500
    assert "p95 8.30" in as_text(report, 100)


def test_the_order_of_the_rows_changes_nothing(results: Any) -> None:
    rows = [row(str(i), each, (i * 7 % 10) / 10) for i in range(20) for each in (FB, OP)]
    assert as_text(summarise(results(rows)), 100) == as_text(summarise(results(reversed(rows))), 100)


def test_no_rows_make_an_empty_report(results: Any) -> None:
    assert as_text(overview(results([])), 100) == "No questions were evaluated.\n"


# Differences


def test_differences_are_paired(results: Any) -> None:
    rows = [row(str(i), OP, i / 20) for i in range(10)] + [row(str(i), FB, i / 20 + 0.1) for i in range(12)]
    report = against(results(rows), "order-preserving")
    found = cell(report, "score", "fb-rag", "musique")
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))  # each pair differs by that, however hard the question
    assert found.n == 10
    assert found.p == pytest.approx(2 / 1024)
    assert found.marked
    assert labels_of(report) == ["fb-rag"]
    assert "*+10.0" in as_text(report, 100)
    assert "p=0.002" in as_text(report, 100)


def test_a_difference_that_may_be_chance_is_not_marked(results: Any) -> None:
    rows = [row(str(i), OP, 0.5) for i in range(10)] + [row(str(i), FB, 0.5 + (-1) ** i / 10) for i in range(10)]
    found = cell(against(results(rows), "order-preserving"), "score", "fb-rag", "musique")
    assert found.p == 1.0
    assert not found.marked


@pytest.mark.parametrize(("n", "p"), [(3, 0.25), (5, 0.0625)])
def test_a_few_pairs_that_agree_are_not_marked(results: Any, n: int, p: float) -> None:
    """The interval of a few pairs leaves out 0 as soon as all have one sign."""
    rows = [row(str(i), OP, 0.1) for i in range(n)] + [row(str(i), FB, 0.2 + i / 10) for i in range(n)]
    found = cell(against(results(rows), "order-preserving"), "score", "fb-rag", "musique")
    assert found.low is not None
    assert found.low > 0
    assert found.p == p
    assert not found.marked


def test_ids_of_two_data_sets_are_not_one_example(results: Any) -> None:
    rows = [row("1", OP, 0.2, "a"), row("1", OP, 0.8, "b"), row("1", FB, 0.3, "a"), row("1", FB, 0.6, "b")]
    report = against(results(rows), "Order-Preserving")
    assert cell(report, "score", "fb-rag", "a").value == pytest.approx(0.1)
    assert cell(report, "score", "fb-rag", "b").value == pytest.approx(-0.2)
    assert cell(report, "score", "fb-rag", "Average").value == pytest.approx(-0.05)


def test_a_baseline_that_is_not_there_or_is_several(results: Any) -> None:
    rows = results([row("1", FB, 0.5), row("1", OP, 0.5), row("1", OP | {"select": 3}, 0.5)])
    with pytest.raises(FbragError, match="no configuration matches 'vanilla'") as error:
        against(rows, "vanilla")
    assert "order-preserving:select=5" in str(error.value.hint)
    with pytest.raises(FbragError, match="several configurations match 'order-preserving'") as error:
        against(rows, "order-preserving")
    assert error.value.hint == "use one of: order-preserving:select=3; order-preserving:select=5"


def test_two_runs_by_their_configurations(results: Any) -> None:
    old = results([row("1", FB, 0.2), row("2", FB, 0.4), row("1", OP, 0.9)], "old.jsonl")
    new = results([row("1", FB, 0.5), row("2", FB, 0.4)], "new.jsonl")
    found = cell(before(new, old), "score", "fb-rag", "musique")
    assert (found.value, found.n) == (pytest.approx(0.15), 2)
    only = results([row("1", OP, 0.9)], "only.jsonl")
    assert cell(before(new, only), "score", "fb-rag", "musique").value == pytest.approx(-0.4)
    with pytest.raises(FbragError, match="no configuration in common"):
        before(new, results([row("1", OP, 0.9), row("1", OP | {"select": 3}, 0.9)], "other.jsonl"))
    nothing = before(new, results([row("9", FB, 0.5)], "nothing.jsonl"))
    assert nothing.tables == ()
    assert nothing.notes == ("No example was measured for both.",)


# Minimum


def test_minimum_is_read() -> None:
    assert parse_fail_under("f1=0.4, evidence-recall = 0.8") == {"f1": 0.4, "evidence_recall": 0.8}


@pytest.mark.parametrize(
    "text", ["", "f1", "f1=", "f1=x", "f1=40", "f1=-1", "f1=nan", "f1=inf", "bleu=0.4", "=0.4", "f1=0.1,f1=0.2", "f1=0.4,"]
)
def test_a_minimum_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FbragError) as error:
        parse_fail_under(text)
    assert (error.value.code, bool(error.value.hint)) == ("usage", True)


def test_below_names_configuration_metric_and_value(results: Any) -> None:
    rows = paper(results)
    assert below(rows, {"score": 0.4}) == []  # as much as the minimum is enough
    assert below(rows, {"score": 0.5}) == ["order-preserving: score 0.4000 is below 0.5"]
    assert below(rows, {"evidence_recall": 0}) == [
        "order-preserving: evidence_recall was not measured (minimum: 0)",
        "fb-rag: evidence_recall was not measured (minimum: 0)",
    ]
    assert below([], {"f1": 0.1}) == ["no examples were evaluated"]


# Abstention


def test_a_minimum_is_missed_where_examples_failed(results: Any) -> None:
    failed = [row(str(i), OP, None, status="error", error="too long") for i in range(9)]
    rows = results([row("9", OP, 0.9), *failed])
    assert below(rows, {"score": 0.4}) == ["order-preserving: 9 of 10 examples failed"]
    assert below(rows, {}) == []


def declining(configuration: dict[str, Any], *declined: float) -> list[dict[str, Any]]:
    """Two questions without an answer, then two with one, by whether each was declined."""
    names = ("abstain", "abstain", "abstain_wrongly", "abstain_wrongly")
    return [
        row(str(i), configuration, None, status="not_found" if each else "answered", metrics={name: each})
        for i, (name, each) in enumerate(zip(names, declined, strict=True))
    ]


def test_abstention_is_two_figures_of_which_one_is_better_when_it_is_less(results: Any) -> None:
    rows = results([*declining(FB, 1, 1, 0, 1), *declining(OP, 1, 0, 0, 0)])
    report = summarise(rows)
    assert [cell(report, "abstain", label, "musique").value for label in ("fb-rag", "order-preserving")] == [1, 0.5]
    assert [cell(report, "abstain_wrongly", label, "musique").value for label in ("fb-rag", "order-preserving")] == [0.5, 0]
    assert cell(report, "abstain", "fb-rag", "musique").marked
    assert cell(report, "abstain_wrongly", "order-preserving", "musique").marked
    assert any("failed the answer check" in note for note in overview(rows).notes)
    differences = against(rows, "order-preserving")
    assert cell(differences, "abstain", "fb-rag", "musique").value == pytest.approx(0.5)
    assert cell(differences, "abstain_wrongly", "fb-rag", "musique").value == pytest.approx(0.5)


def test_a_minimum_of_abstention(results: Any) -> None:
    rows = results(declining(OP, 1, 0, 0, 0))
    assert below(rows, parse_fail_under("abstain=0.5")) == []
    assert below(rows, parse_fail_under("abstain=0.8")) == ["order-preserving: abstain 0.5000 is below 0.8"]
    with pytest.raises(FbragError, match="abstain_wrongly should be low"):
        parse_fail_under("abstain-wrongly=0.8")


# Confidence


def confident(configuration: dict[str, Any], right: Iterable[tuple[float, float]], **more: Any) -> list[dict[str, Any]]:
    """Rows by (confidence, F1)."""
    return [row(str(i), configuration, f1, confidence=sure, **more) for i, (sure, f1) in enumerate(right)]


def test_coverage_is_the_share_of_right_answers_among_the_most_confident(results: Any) -> None:
    sure = confident(FB, [(0.1, 0), (0.9, 0.5), (0.2, 0.4), (0.8, 1), (0.7, 0), (0.6, 1), (0.5, 0), (0.3, 0)])
    report = summarise(results([*sure, *(row(str(i), OP, 0.9) for i in range(8))]))
    found = [cell(report, "coverage", "fb-rag", share) for share in ("25%", "50%", "75%", "100%")]
    assert [(each.value, each.n) for each in found] == [(1, 2), (0.75, 4), (0.5, 6), (0.375, 8)]
    assert found[1].low is not None
    assert found[1].low < 0.75
    assert cell(report, "coverage", "order-preserving", "50%").value is None  # rows without a confidence
    assert "Right answers among the most confident" in as_text(report, 100)
    assert "| 25% most confident n=2 |" in as_markdown(report)


def test_answers_of_the_same_confidence_are_taken_together(results: Any) -> None:
    report = summarise(results(confident(FB, [(1, 1), (1, 0), (1, 0), (0, 0)])))
    found = cell(report, "coverage", "fb-rag", "25%")
    assert (found.value, found.n) == (pytest.approx(1 / 3), 3)


def test_of_coverage_a_choice_is_right_as_a_whole_and_a_question_without_an_answer_if_none_is_printed(results: Any) -> None:
    choices = confident(FB, [(0.9, 0)], main_metric="accuracy", metrics={"accuracy": 0.5})
    unanswerable = row("u", FB, None, confidence=0.8, status="not_found", metrics={"abstain": 1})
    report = summarise(results([*choices, unanswerable, row("f", FB, 1, confidence=0.7)]))
    assert cell(report, "coverage", "fb-rag", "100%").value == pytest.approx(2 / 3)


def test_summaries_have_no_coverage(results: Any) -> None:
    report = summarise(results(confident(FB, [(0.9, 0)], main_metric="rouge_l", metrics={"rouge_l": 0.6})))
    assert "coverage" not in [table.name for table in report.tables]


# Renderings


def test_text_keeps_to_the_width_and_its_columns_aligned(results: Any) -> None:
    names = ["narrativeqa", "multifieldqa_en", "中文长文本问答数据集", "hotpotqa", "2wikimqa", "musique", "qmsum", "x" * 90]
    long = FB | {"small": "some-model-with-quite-a-long-name-instruct-q4_k_m"}
    rows = results(row(str(i), each, i / 8, name) for i in range(9) for each in (FB, long, OP) for name in names)
    for width in (100, 160):
        lines = as_text(summarise(rows), width).splitlines()
        assert max(map(cell_len, lines)) <= width
        values = [line for line in lines if line.startswith("order-preserving ")]
        assert "\n".join(values).count("50.0") == 9  # eight data sets and their average, over as many blocks as it takes
        heading = next(line for line in lines if "中文" in line)
        interval = next(line for line in lines[lines.index(heading) :] if "]" in line)
        name = "中文长文本问答数据集"
        ends = {cell_len(interval[: found.end()]) for found in re.finditer(r"\]", interval)}
        assert cell_len(heading[: heading.index(name) + len(name)]) in ends


@pytest.fixture
def hostile(results: Any) -> Report:
    configuration = FB | {"small": HOSTILE, HOSTILE: HOSTILE}
    rows = [
        row(HOSTILE, each, 0.5, HOSTILE, main_metric=HOSTILE, metrics={HOSTILE: 0.5}, seconds={HOSTILE: 1.0})
        for each in (FB, configuration)
    ]
    rows.append(row("2", FB, None, HOSTILE, status="error", error=HOSTILE))
    return overview(results([{**each, "question": HOSTILE, "gold": [HOSTILE], "answer": HOSTILE} for each in rows]))


def test_sentences_keep_to_the_width_too(results: Any) -> None:
    metrics = {"evidence_recall": 0.5, "full_evidence": 1}
    rows = results(row(str(i), each, None, metrics=metrics) for i in range(2) for each in (FB, OP))
    for width in (60, 100):
        assert max(map(cell_len, as_text(against(rows, "order-preserving"), width).splitlines())) <= width


def test_names_stay_text_on_a_terminal(hostile: Report) -> None:
    text = as_text(hostile, 100)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    assert "script" in text
    text.encode("utf-8")


def test_names_stay_text_in_markdown(hostile: Report) -> None:
    markdown = as_markdown(hostile)
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or []}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "code_inline", "em_open", "fence"}
    bodies = re.findall(r"<tbody>.*?</tbody>", MarkdownIt("commonmark").enable("table").render(markdown), re.S)
    assert len(bodies) == 1 + len(hostile.tables)
    assert bodies[0].count("<td") == len(hostile.asked) * (2 + len(hostile.labels))
    for each, body in zip(hostile.tables, bodies[1:], strict=True):
        assert body.count("<tr>") == len(each.rows)
        assert body.count("<td") == len(each.rows) * (len(each.columns) + 1)
    assert not re.search(r"https?://|www\.|\w@\w", markdown)  # what GitHub would make a link of
    assert one_line(HOSTILE)[:40] in "".join(child.content for token in tokens for child in token.children or [])


def test_json_says_all_that_was_measured(hostile: Report, results: Any) -> None:
    assert json.loads(json.dumps(as_json(hostile)))["tables"][0]["rows"]
    found: Any = json.loads(json.dumps(as_json(summarise(paper(results)))))
    score = next(each for each in found["tables"] if each["name"] == "score")
    assert score["columns"][1] == {"name": "musique", "detail": "F1", "unit": "score"}
    assert score["rows"][1]["configuration"] == "fb-rag"
    assert score["rows"][1]["cells"][1]["value"] == pytest.approx(0.7)
    assert score["rows"][1]["cells"][1]["n"] == 2


# What is better


def asked(configuration: dict[str, Any], right: Iterable[int], **more: Any) -> list[dict[str, Any]]:
    """A row per question, whose answer is right or wrong."""
    return [
        row(str(i), configuration, each, question=f"Why {i}?", gold=["rain"], answer="rain" if each else "snow", **more)
        for i, each in enumerate(right)
    ]


def test_a_report_opens_with_what_is_better(results: Any) -> None:
    rows = results([*asked(OP, [0] * 12 + [1] * 28, preset="default"), *asked(FB, [1] * 40, preset="thorough")])
    report = overview(rows)
    assert report.verdicts == ("thorough is better than default: 12 of 40 more right (+18 to +45%).",)
    assert as_text(report, 100).startswith("thorough is better than default: 12 of 40 more right (+18 to +45%).\n")
    worse = overview(rows, pairs_of(group_rows(rows), "thorough"))
    assert worse.verdicts == report.verdicts  # whichever is the baseline
    assert as_markdown(report).splitlines()[2].startswith("thorough is better than default")


def test_no_difference_says_how_many_questions_are_needed(results: Any) -> None:
    few = overview(results([*asked(OP, [1, 0, 0, 1, 0]), *asked(FB, [1, 1, 0, 0, 1])]))
    assert few.verdicts == (
        "No difference can be seen between fb-rag and order-preserving with 5 questions (3 and 2 right); about 110 are needed.",
    )
    none = overview(results([*asked(OP, [1, 0]), *asked(FB, [0, 1])]))
    assert none.verdicts[0].endswith("with 2 questions (1 and 1 right).")
    same = overview(results([*asked(OP, [1, 0], read="ab"), *asked(OP | {"select": 9}, [1, 1], read="ab")]))
    assert same.verdicts[0].endswith("with 2 questions: both read the same passages.")


def test_a_share_has_an_interval_also_if_all_are_right(results: Any) -> None:
    report = overview(results(asked(FB, [1, 1, 1, 1])))
    found = cell(report, "summary", "fb-rag", "Right")
    assert (found.value, found.low, found.high) == pytest.approx((1, 0.510, 1), abs=1e-3)  # Wilson's, as R's prop.test has it
    assert report.verdicts == ("fb-rag: 4 of 4 right (95% interval: 51 to 100%).",)
    assert "100.0 [100.0, 100.0]" not in as_text(report, 100)


def test_question_by_question_as_the_product_would_print_it(results: Any) -> None:
    withheld = {"status": "not_found", "metrics": {"f1": 1, "abstain_wrongly": 1}}
    failed = row("3", FB, None, status="error", error="too long", metrics={}, question="Why 3?")
    rows = [*asked(OP, [1, 0, 1]), *asked(FB, [1, 1]), row("2", FB, 1, question="Why 2?", answer="rain", **withheld), failed]
    report = overview(results(rows))
    said = {each.question: dict(zip(report.labels, each.replies, strict=True)) for each in report.asked}
    assert said["Why 1?"] == {"order-preserving": "- snow", "fb-rag": "+ rain"}
    assert said["Why 2?"] == {"order-preserving": "+ rain", "fb-rag": "- not found (withheld: rain)"}
    assert said["Why 3?"]["fb-rag"] == "error: too long"
    assert cell(report, "summary", "fb-rag", "Withheld").value == 1
    assert cell(report, "summary", "fb-rag", "Right").value == pytest.approx(2 / 3)
    assert cell(report, "summary", "fb-rag", "Score").value == pytest.approx(2 / 3)


def test_of_many_questions_those_come_first_that_differ(results: Any) -> None:
    report = overview(results([*asked(OP, [1] * 60), *asked(FB, [1] * 59 + [0])]))
    assert len(report.asked) == 40
    assert report.asked[0].question == "Why 59?"
    assert report.notes[0] == "20 more questions: -o FILE writes all rows."


def test_an_answer_that_holds_the_right_one_is_right(results: Any) -> None:
    long = row("1", FB, 0.2, metrics={"f1": 0.2, "contains": 1.0}, answer="It rained, as the mate says in his letter.")
    open_one = row("2", FB, None, status="not_found", metrics={"abstain": 1.0})
    guess = row("3", FB, None, metrics={"abstain": 0.0})
    assert [each.right for each in results([long, open_one, guess])] == [True, True, False]


def test_without_answers_what_was_read_decides(results: Any) -> None:
    read = [row(str(i), FB, None, status="retrieved", metrics={"answer_in_context": float(i < 9)}) for i in range(10)]
    other = [row(str(i), OP, None, status="retrieved", metrics={"answer_in_context": 0.0}) for i in range(10)]
    assert (
        overview(results([*read, *other]))
        .verdicts[0]
        .startswith("fb-rag is better than order-preserving: Answer in the text that the large model read +90.0 points")
    )
