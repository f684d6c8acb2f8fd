"""Plots: which ones the rows support, the numbers that are drawn, the same bytes every time, names that stay text."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fbrag_cli.evaluation.plots import forest, plot, supported
from fbrag_cli.evaluation.report import compare, group_rows, pairs_of
from fbrag_cli.evaluation.results import Result
from tests.conftest import needs

FB: dict[str, Any] = {
    "method": "fb-rag",
    "small": "small-1b",
    "large": "large-3b",
    "recall": 8,
    "select": 5,
    "samples": 5,
    "weights": "0.5:0.5",
    "temperature": 1.0,
}
OP = {"method": "order-preserving", "large": "large-3b", "select": 5}
LC = {"method": "long-context", "large": "large-3b"}
HOSTILE = '<script>alert(1)</script> "/> --> ]]> &lt; $\\frac{1}{0 \x1b[31m 中文 \u202e \ud800 _nolegend_'


def rows(configurations: Iterable[dict[str, Any]], datasets: Iterable[str] = ("musique",), **more: Any) -> list[Result]:
    """Two examples each, 0.1 apart around a score that grows with the chunks."""
    found = []
    for configuration in configurations:
        score = 0.3 + configuration.get("select", 0) / 100
        for dataset in datasets:
            for i, each in enumerate((score - 0.05, score + 0.05)):
                seconds = {"total": 2.0 + configuration.get("select", 0) + i}
                held = {
                    "status": "answered",
                    "metrics": {"f1": each},
                    "seconds": seconds,
                    "tokens_read": 1.0,
                    "memory_mb": 1.0,
                    "error": None,
                } | more
                found.append(Result(id=str(i), dataset=dataset, configuration=configuration, main_metric="f1", **held))
    return found


def chunks(*sizes: int) -> list[dict[str, Any]]:
    return [configuration | {"select": size} for size in sizes for configuration in (OP, FB)]


@pytest.mark.parametrize(
    ("configurations", "names"),
    [
        ([], ()),
        ([FB], ()),
        ([FB, OP, LC], ()),
        (chunks(3, 5), ("chunks",)),
        ([FB, FB | {"samples": 1}], ("samples",)),
        ([FB, FB | {"small": "small-3b"}], ("small",)),
        ([FB, FB | {"recall": 20}], ("recall",)),
        ([FB, FB | {"temperature": 0.5}], ("temperature",)),
        ([FB, FB | {"select": 3, "samples": 1}], ()),  # they differ in two things at once
        ([*chunks(3, 5), FB | {"samples": 1}], ("chunks", "samples")),
    ],
)
def test_what_the_rows_support(configurations: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    assert supported(rows(configurations)) == names


def test_nothing_without_a_score() -> None:
    assert supported(rows(chunks(3, 5), metrics={})) == ()
    assert supported(rows(chunks(3, 5), metrics={"evidence_recall": 0.5})) == ("chunks",)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """By label, what is handed to matplotlib in the first panel."""
    axes = needs("matplotlib.axes")
    found: dict[str, list[Any]] = {}

    def spied(name: str) -> None:
        original = getattr(axes.Axes, name)

        def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
            if "label" in kwargs:
                found.setdefault(kwargs["label"], [name, *args])
            return original(self, *args, **kwargs)

        monkeypatch.setattr(axes.Axes, name, spy)

    for name in ("axhline", "errorbar"):
        spied(name)
    return found


def test_score_against_chunks_with_intervals(drawn: dict[str, list[Any]]) -> None:
    plot("chunks", rows([*chunks(10, 3), LC]))
    for name in ("fb-rag", "order-preserving"):
        kind, at, scores, around = drawn[name]
        assert (kind, at, scores) == ("errorbar", [3, 10], pytest.approx([33, 40]))
        assert around == [pytest.approx([5, 5])] * 2
    assert drawn["long-context"] == ["axhline", pytest.approx(30)]


def test_score_by_small_model_beside_what_needs_none(drawn: dict[str, list[Any]]) -> None:
    other = OP | {"select": 20}  # it shares no size with what is plotted
    plot("small", rows([FB, FB | {"small": "small-3b"}, OP, other]))
    assert drawn["fb-rag"][:3] == ["errorbar", pytest.approx([0, 1]), pytest.approx([35, 35])]
    assert drawn["order-preserving"] == ["axhline", pytest.approx(35)]
    assert len(drawn) == 2


def test_the_first_panel_is_the_average_over_the_data_sets(drawn: dict[str, list[Any]]) -> None:
    both = rows(chunks(3, 10), ["musique"]) + rows(chunks(3, 10), ["qmsum"], metrics={"f1": 0.8})
    plot("chunks", both)
    assert drawn["fb-rag"][1:3] == [[3, 10], pytest.approx([(33 + 80) / 2, (40 + 80) / 2])]


def test_a_point_without_one_of_the_data_sets_is_in_no_average(drawn: dict[str, list[Any]]) -> None:
    plot("chunks", rows(chunks(3, 5, 10), ["musique"]) + rows(chunks(3, 10), ["qmsum"]))
    assert drawn["fb-rag"][1] == [3, 10]


def test_more_lines_than_colours_are_all_drawn(drawn: dict[str, list[Any]]) -> None:
    many = [FB | {"select": size, "small": f"model-{i:02}"} for i in range(10) for size in (3, 5)]
    plot("chunks", rows(many))
    assert {f"fb-rag:small=model-{i:02}" for i in range(10)} <= set(drawn)


def test_each_line_stands_in_the_legend_once_whatever_its_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = needs("matplotlib.figure")
    seen: list[str] = []
    original = figure.Figure.legend
    monkeypatch.setattr(
        figure.Figure, "legend", lambda self, handles, names, **more: seen.extend(names) or original(self, handles, names, **more)
    )
    plot("chunks", rows([FB | {"select": size, "method": method} for size in (3, 5) for method in ("_a", "b")], ["x", "y"]))
    assert sorted(name.strip() for name in seen) == ["_a", "b"]
    assert not any(name.startswith("_") for name in seen)  # which matplotlib would leave out


def test_differences_are_a_forest_with_a_line_for_each_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = needs("matplotlib.axes")
    seen: list[float] = []
    original = axes.Axes.errorbar
    monkeypatch.setattr(axes.Axes, "errorbar", lambda self, x, *args, **more: seen.extend(x) or original(self, x, *args, **more))
    made = forest(compare(pairs_of(group_rows(rows([*chunks(3, 10), LC])), "long-context")))
    assert seen == pytest.approx([0, 0, 0, 0, 3, 3, 10, 10])  # right answers, then scores
    assert made["png"].startswith(b"\x89PNG")


def test_png_and_svg_of_a_readable_size() -> None:
    needs("matplotlib")
    made = plot("chunks", rows(chunks(3, 5), ["musique", "qmsum"]))
    assert list(made) == ["png", "svg"]
    assert made["png"].startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", made["png"][16:24])
    assert 800 <= width <= 3000
    assert 500 <= height <= 3000
    assert ElementTree.fromstring(made["svg"]).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    needs("matplotlib")
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]; from test_plots import *; "
        "sys.stdout.buffer.write(b''.join(plot('chunks', rows(chunks(3, 5))).values()))"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    other = subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[2]).stdout
    made = plot("chunks", rows(chunks(3, 5)))
    assert b"".join(made.values()) == other
    assert b"<dc:date>" not in made["svg"]
    assert made == plot("chunks", list(reversed(rows(chunks(3, 5)))))


def test_names_stay_text() -> None:
    needs("matplotlib")
    hostile = [FB | {"select": size, "small": small} for size in (3, 5) for small in (HOSTILE, "$x$")]
    for name in ("chunks", "small"):
        svg = plot(name, rows(hostile, [HOSTILE, "中文"]))["svg"]
        tags = {element.tag.split("}")[-1] for element in ElementTree.fromstring(svg).iter()}
        assert not tags & {"script", "image", "a", "foreignObject"}
        assert b"\x1b" not in svg
