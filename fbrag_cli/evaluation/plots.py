"""Plots of result rows, like the paper's Figures 2 and 5: a score against chunks, small model or samples."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from fbrag_cli.evaluation import statistics
from fbrag_cli.evaluation.metrics import METRICS, SCORE
from fbrag_cli.evaluation.results import Result, key, labels, order
from fbrag_cli.evaluation.tables import Report, Table
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg"]

#: Plot -> the setting on its horizontal axis, and the axis's label.
PLOTS = {
    "chunks": ("select", "Selected chunks"),
    "small": ("small", "Small model"),
    "samples": ("samples", "Forward samples"),
    "recall": ("recall", "Chunks retrieved for the small model"),
    "temperature": ("temperature", "Sampling temperature"),
}

# Okabe and Ito (2008): colors distinguishable with any color vision; without yellow, which is too light on white.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#24211c"]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
_DASHES: list[Any] = ["--", ":", "-.", (0, (1, 3)), (0, (8, 3))]
_PANELS_ACROSS = 3
_TITLE = 28  # characters of a name
_LONGEST = 70  # characters of a label
_FORESTS = 3  # metrics in a plot of differences

# Options of matplotlib, for figures and for what is drawn.
_STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 160,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 10,
    "text.color": "#24211c",
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.labelcolor": "#24211c",
    "axes.edgecolor": "#675f52",
    "xtick.color": "#675f52",
    "ytick.color": "#675f52",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2dbcd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.parse_math": False,  # a dollar sign in a name is not a formula
    "text.usetex": False,
    "svg.hashsalt": "fbrag",
    "svg.fonttype": "path",
}
_BAR: dict[str, Any] = {"capsize": 3, "elinewidth": 1.2}
_LEVEL: dict[str, Any] = {"color": "#675f52", "linewidth": 1.3}
_METADATA: dict[Format, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": "fbrag"}}


@dataclass(frozen=True, slots=True)
class _Family:
    """Configurations that differ only in the axis's setting. varies: whether their method has that setting."""

    label: str
    configurations: tuple[dict[str, object], ...]
    varies: bool


@dataclass(frozen=True, slots=True)
class _Point:
    """One configuration in a plot. at: value of the axis's setting. score, low, high: mean and 95% interval, in percent."""

    at: object
    score: float
    low: float
    high: float


def supported(rows: Sequence[Result]) -> tuple[str, ...]:
    """Return the plots that the rows support: those with configurations that differ only in the axis's setting."""
    metric = _metric(rows)
    return tuple(name for name, (setting, _) in PLOTS.items() if _families(rows, setting, metric))


def _metric(rows: Sequence[Result]) -> str:
    """Return the score, or evidence recall if there are no answers."""
    return SCORE if any(row.score is not None for row in rows) else "evidence_recall"


def plot(name: str, rows: Sequence[Result]) -> dict[Format, bytes]:
    """Draw a plot, and return the content of a file per format. The same rows give the same bytes.

    name: one of `supported`. The first panel shows the average over the datasets, each other panel one dataset, all on one scale.
    Bars are 95% intervals.
    """
    families = _families(rows, PLOTS[name][0], _metric(rows))
    return _drawn(lambda: _figure(name, rows, families))


def forest(report: Report) -> dict[Format, bytes]:
    """Draw the paired differences in a report of `compare`: one panel per metric (the first few), one line per configuration.

    Bars are 95% intervals of the average over the datasets; differences marked in the report are filled.
    """
    return _drawn(lambda: _forest(report.tables[:_FORESTS], report.title))


def _drawn(made: Callable[[], Figure]) -> dict[Format, bytes]:
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # scripts that the font lacks are drawn as boxes
        figure = made()
        return {"png": _saved(figure, "png"), "svg": _saved(figure, "svg")}


def _saved(figure: Figure, kind: Format) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=_METADATA[kind])
    return file.getvalue()


def _forest(tables: Sequence[Table], title: str) -> Figure:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(label for table in tables for label, _ in table.rows))
    figure = Figure(figsize=(3.4 + 3.2 * len(tables), 1.6 + 0.5 * len(names)), layout="constrained")
    figure.suptitle(one_line(title, _LONGEST), ha="left", x=0.02, fontsize=11)
    for place, table in zip(figure.subplots(1, len(tables), squeeze=False, sharey=True).ravel(), tables, strict=True):
        place.axvline(0, **_LEVEL)
        for label, (cell, *_) in table.rows:
            if cell.value is None:
                continue
            value, low, high = (100 * (cell.value if each is None else each) for each in (cell.value, cell.low, cell.high))
            look = _BAR | {"color": _COLOURS[0], "marker": "o", "markerfacecolor": _COLOURS[0] if cell.marked else "white"}
            place.errorbar([value], [names.index(label)], xerr=[[value - low], [high - value]], linestyle="none", **look)
        place.set_yticks(range(len(names)), [_wrapped(name) for name in names])
        place.set_ylim(len(names) - 0.5, -0.5)
        place.set_title(_wrapped(table.title))
        place.set_xlabel("Difference, percentage points")
    return figure


def _figure(name: str, rows: Sequence[Result], families: Sequence[_Family]) -> Figure:
    from matplotlib.figure import Figure

    metric = _metric(rows)
    by_configuration: dict[str, list[Result]] = {}
    for row in sorted(rows, key=lambda row: row.id):  # the same resamples whatever the order of evaluation
        by_configuration.setdefault(key(row.configuration), []).append(row)
    datasets = list(dict.fromkeys(row.dataset for row in rows if row.value(metric) is not None))
    panels = [(f"Average of {len(datasets)} datasets", datasets)] if len(datasets) > 1 else []
    panels += [(one_line(dataset, _TITLE), [dataset]) for dataset in datasets]
    across = min(len(panels), _PANELS_ACROSS)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(max(6.4, 2.6 + 4.2 * across), 3.9 * down + 0.5), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharey=True).ravel().tolist()
    for (title, names), place in zip(panels, axes, strict=False):
        points = [_points(family, by_configuration, PLOTS[name][0], metric, names) for family in families]
        _draw(place, name, families, points)
        place.set_title(title)
        place.set_xlabel(PLOTS[name][1])
        place.set_ylabel(f"{METRICS.get(metric, one_line(metric, _TITLE)).split(' at the ')[0]}, %")
    for place in axes[len(panels) :]:
        place.remove()
    shown = {label: handle for place in axes for handle, label in zip(*place.get_legend_handles_labels(), strict=True)}
    figure.legend([*shown.values()], [*shown], loc="outside lower left", ncols=across)
    return figure


def _families(rows: Sequence[Result], setting: str, metric: str) -> list[_Family]:
    """Return the families with at least two values of `setting`, then the methods without it whose settings agree with one of
    them."""
    measured = {key(row.configuration): row.configuration for row in rows if row.value(metric) is not None}
    lines: dict[str, dict[str, dict[str, object]]] = {}  # by the other settings, then by this one
    for configuration in sorted(measured.values(), key=order):
        settings = dict(configuration)
        value = key({"at": settings.pop(setting, None)})
        lines.setdefault(key(settings), {}).setdefault(value, configuration)
    groups = [tuple(group.values()) for group in lines.values()]
    varied = [group for group in groups if len(group) > 1]
    level = [group for group in groups if setting not in group[0] and any(_agree(group[0], other[0]) for other in varied)]
    shown = [*varied, *level] if varied else []
    named = labels([{**group[0], setting: None} for group in shown])
    return [_Family(label, group, len(group) > 1) for label, group in zip(named, shown, strict=True)]


def _agree(level: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return all(other.get(name, value) == value for name, value in level.items() if name != "method")


def _points(
    family: _Family, by_configuration: Mapping[str, Sequence[Result]], setting: str, metric: str, datasets: Sequence[str]
) -> list[_Point]:
    """Return a point for each configuration with rows for all `datasets`: its average over them.

    by_configuration: the rows by configuration key.
    """
    points = []
    for configuration in family.configurations:
        values: dict[str, list[float]] = {dataset: [] for dataset in datasets}
        for row in by_configuration[key(configuration)]:
            if row.dataset in values and (value := row.value(metric)) is not None:
                values[row.dataset].append(100 * value)
        if not all(values.values()):
            continue
        sampled = statistics.average([statistics.bootstrap(scores, dataset) for dataset, scores in values.items()])
        low, high = statistics.interval(sampled) or (sampled.mean, sampled.mean)
        points.append(_Point(configuration.get(setting), sampled.mean, low, high))
    return points


def _draw(place: Axes, name: str, families: Sequence[_Family], points_of: Sequence[Sequence[_Point]]) -> None:
    """Draw one panel. The style of a family depends on its position, so it is the same in every panel."""
    ats = {point.at for family, points in zip(families, points_of, strict=True) for point in points if family.varies}
    if name == "small":
        models = sorted(map(str, ats))
        where = {model: float(i) for i, model in enumerate(models)}
        place.set_xticks(range(len(models)), [one_line(model, _TITLE) for model in models], rotation=20, ha="right")
        place.set_xlim(-0.5, len(models) - 0.5)
    else:
        where = {str(at): float(at) if isinstance(at, int | float) else 0.0 for at in ats}
        place.set_xticks(ticks := sorted(where.values()), [f"{tick:g}" for tick in ticks])
    for i, (family, points) in enumerate(zip(families, points_of, strict=True)):
        label = _wrapped(family.label)
        if family.varies:
            at, scores = [where[str(point.at)] for point in points], [point.score for point in points]
            around = [[point.score - point.low for point in points], [point.high - point.score for point in points]]
            color, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[(i + i // len(_COLOURS)) % len(_MARKERS)]
            line = "none" if name == "small" else "-"
            place.errorbar(at, scores, around, label=label, linestyle=line, color=color, marker=marker, **_BAR)
        else:
            for point in points:
                place.axhline(point.score, linestyle=_DASHES[i % len(_DASHES)], label=label, **_LEVEL)


def _wrapped(name: str) -> str:
    name = "\n".join(wrap(one_line(name, _LONGEST).replace(",", ", "), _TITLE, break_on_hyphens=False)) or name
    return f" {name}" if name.startswith("_") else name  # matplotlib hides labels that start with _
