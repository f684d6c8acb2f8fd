"""Plots of result rows, as the paper's Figures 2, 3 and 5: a score against chunks, latency, small model or samples."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import statistics
from fbrag_cli.evaluation.labels import key, labels, order
from fbrag_cli.evaluation.metrics import METRICS, SCORE
from fbrag_cli.evaluation.results import Result
from fbrag_cli.evaluation.tables import Report, Table
from fbrag_cli.installation import extra
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg"]

#: Plot -> the setting on its horizontal axis, and the axis's label.
PLOTS = {
    "chunks": ("select", "Selected chunks"),
    "latency": ("select", "Seconds a question, median"),
    "small": ("small", "Small model"),
    "samples": ("samples", "Forward samples"),
    "recall": ("recall", "Chunks recalled for the small model"),
    "temperature": ("temperature", "Sampling temperature"),
}

# Okabe and Ito (2008): colours that all kinds of colour vision tell apart; without yellow, which is too light on white.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#24211c"]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
_DASHES: list[Any] = ["--", ":", "-.", (0, (1, 3)), (0, (8, 3))]
_PANELS_ACROSS = 3
_TITLE = 28  # characters of a name
_LONGEST = 70  # characters of a label
_BANDS = 2  # lines with a band each; more bands hide one another, so more lines have whiskers
_SIDE = 0.4  # of the distance of two values: where the whiskers of all lines stand
_LINES = 22  # lines of names in the height of a panel
_FORESTS = 3  # metrics of a plot of differences

# Options of matplotlib: of all figures, and of what is drawn.
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
    "text.parse_math": False,  # a name with a dollar sign is no formula
    "text.usetex": False,
    "svg.hashsalt": "fbrag",
    "svg.fonttype": "path",
}
_BAND: dict[str, Any] = {"alpha": 0.12, "linewidth": 0}
_BAR: dict[str, Any] = {"linestyle": "none", "capsize": 3, "elinewidth": 1.4}
_LEVEL: dict[str, Any] = {"color": "#675f52", "linewidth": 1.3}
_BESIDE: dict[str, Any] = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "fontsize": 8}
_LEADER: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.7, "alpha": 0.5, "relpos": (0, 0.5), "shrinkA": 0, "shrinkB": 3}
_METADATA: dict[Format, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": "fbrag"}}


@dataclass(frozen=True, slots=True)
class _Family:
    """Configurations that differ only in the setting of the axis. varies: whether their method reads that setting."""

    label: str
    configurations: tuple[dict[str, object], ...]
    varies: bool


@dataclass(frozen=True, slots=True)
class _Point:
    """One configuration in a plot.

    at: value of the setting on the axis. score, low, high: mean and 95 % interval, in percent. seconds: median of the total, None
    where none was measured.
    """

    at: object
    score: float
    low: float
    high: float
    seconds: float | None


Line = tuple[_Family, list[_Point]]


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a line, in the units of the axes, and its name."""

    name: str
    x: float
    y: float
    color: str


def supported(rows: Sequence[Result]) -> tuple[str, ...]:
    """Return the plots that the rows can fill: those where configurations differ in the setting of the axis alone."""
    return tuple(name for name in PLOTS if lacking(name, rows) is None)


def lacking(name: str, rows: Sequence[Result]) -> str | None:
    """Return what the rows lack for a plot, None where they can fill it. name: one of `PLOTS`."""
    setting, _ = PLOTS[name]
    if not _families(rows, setting, _metric(rows)):
        return f"the rows have no two values of {setting} to plot"
    if name == "latency" and not any(row.status in ("answered", "not_found") and "total" in row.seconds for row in rows):
        return "nothing was answered, so no row has the seconds of a question"
    return None


def _metric(rows: Sequence[Result]) -> str:
    """Return the score, or evidence recall where nothing was answered."""
    return SCORE if any(row.score is not None for row in rows) else "evidence_recall"


def plot(name: str, rows: Sequence[Result]) -> dict[Format, bytes]:
    """Draw a plot, and return the content of a file for each format. The same rows give the same bytes.

    name: one of `PLOTS`. The first panel shows the average over the data sets, each other panel one data set, all on one scale;
    names stand at the ends of the lines of the first. Bands (of one or two lines) and whiskers are 95 % intervals. Raises
    FbragError (usage) without matplotlib, for an unknown plot, or if the rows cannot fill it.
    """
    if name not in PLOTS:
        raise FbragError("usage", f"there is no plot {one_line(name, 40)}", f"one of {', '.join(PLOTS)}")
    if (what := lacking(name, rows)) is not None:
        raise FbragError("usage", what, "evaluate a list of them, and leave --retrieval-only out")
    return _drawn(lambda: _figure(name, rows))


def forest(report: Report) -> dict[Format, bytes]:
    """Draw the paired differences of a report of `compare`: a panel for each of the first metrics, a line for each configuration.

    Whiskers are 95 % intervals of the average over the data sets; a difference that is marked in the report is filled. Raises
    FbragError (usage) without matplotlib, or if the report has no differences.
    """
    if not report.tables:
        raise FbragError("usage", "no example was measured by both sides", "evaluate both on the same questions")
    return _drawn(lambda: _forest(report.tables[:_FORESTS], report.title))


def _drawn(made: Callable[[], Figure]) -> dict[Format, bytes]:
    try:
        import matplotlib
    except ImportError:
        raise FbragError("usage", "plots need matplotlib, which is not installed", extra("plots")) from None
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a script that the font lacks is drawn as boxes
        figure = made()
        return {"png": _saved(figure, "png"), "svg": _saved(figure, "svg")}


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
            filled = _COLOURS[0] if cell.marked else "white"
            look = {"color": _COLOURS[0], "marker": "o", "markerfacecolor": filled} | _BAR
            place.errorbar([value], [names.index(label)], xerr=[[value - low], [high - value]], **look)
        place.set_yticks(range(len(names)), [_wrapped(name) for name in names])
        place.set_ylim(len(names) - 0.5, -0.5)
        place.set_title(_wrapped(table.title))
        place.set_xlabel("Difference, points of percent")
    return figure


def _figure(name: str, rows: Sequence[Result]) -> Figure:
    from matplotlib.figure import Figure

    setting, axis = PLOTS[name]
    metric = _metric(rows)
    families = _families(rows, setting, metric)
    by_configuration: dict[str, list[Result]] = {}
    for row in sorted(rows, key=lambda row: row.id):  # the same resamples, in whatever order they were evaluated
        by_configuration.setdefault(key(row.configuration), []).append(row)
    datasets = list(dict.fromkeys(row.dataset for row in rows if row.value(metric) is not None))
    panels = [(f"Average of {len(datasets)} data sets", datasets)] if len(datasets) > 1 else []
    panels += [(one_line(dataset, _TITLE), [dataset]) for dataset in datasets]
    across = min(len(panels), _PANELS_ACROSS)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(max(6.4, 2.6 + 4.2 * across), 3.9 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharey=True).ravel().tolist()
    for (title, names), place in zip(panels, axes, strict=False):
        ends = _draw(place, name, [(family, _points(family, by_configuration, setting, metric, names)) for family in families])
        if place is axes[0]:
            named = ends
        place.set_title(title)
        place.set_xlabel(axis)
        place.set_ylabel(f"{METRICS.get(metric, one_line(metric, _TITLE)).split(' at the ')[0]}, %")
    for place in axes[len(panels) :]:
        place.remove()
    _name_ends(axes[0], named)
    return figure


def _families(rows: Sequence[Result], setting: str, metric: str) -> list[_Family]:
    """Return the families with at least two values of `setting`, then the methods without it that agree with one of them."""
    measured = {key(row.configuration): row.configuration for row in rows if row.value(metric) is not None}
    found: dict[str, dict[str, dict[str, object]]] = {}  # by the other settings, then by this one
    for configuration in sorted(measured.values(), key=order):
        settings = dict(configuration)
        value = key({"at": settings.pop(setting, None)})
        found.setdefault(key(settings), {}).setdefault(value, configuration)
    groups = [tuple(group.values()) for group in found.values()]
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
    """Return a point for each configuration that has rows of all `datasets`: its average over them.

    by_configuration: the rows by the key of their configuration.
    """
    points = []
    for configuration in family.configurations:
        rows = [row for row in by_configuration[key(configuration)] if row.dataset in datasets]
        values: dict[str, list[float]] = {dataset: [] for dataset in datasets}
        for row in rows:
            if (value := row.value(metric)) is not None:
                values[row.dataset].append(100 * value)
        if not all(values.values()):
            continue
        sampled = statistics.average([statistics.bootstrap(scores, dataset) for dataset, scores in values.items()])
        low, high = statistics.interval(sampled) or (sampled.mean, sampled.mean)
        taken = [row.seconds["total"] for row in rows if row.status != "error" and "total" in row.seconds]
        seconds = statistics.percentile(taken, 50) if taken else None
        points.append(_Point(configuration.get(setting), sampled.mean, low, high, seconds))
    return points


def _draw(place: Axes, name: str, lines: Sequence[Line]) -> list[_End]:
    """Draw one panel, and return where its lines end. A line has its look by its place among `lines`, the same in every panel."""
    if name == "latency":
        for i, (family, points) in enumerate(lines):
            _draw_latency(place, family, points, i)
        place.set_xlim(left=0)
        return list(_latency_ends(lines))
    varied = [line for line in lines if line[0].varies]
    ats = {point.at for _, points in varied for point in points}
    if name == "small":
        models = sorted(map(str, ats))
        place.set_xticks(range(len(models)), [one_line(model, _TITLE) for model in models], rotation=20, ha="right")
        place.set_xlim(-0.5, len(models) - 0.5)
        where = {model: float(i) for i, model in enumerate(models)}
    else:
        ticks = sorted(map(_number, ats))
        place.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        where = {str(at): _number(at) for at in ats}
    step = min((right - left for left, right in pairwise(sorted(where.values()))), default=1.0)
    ends: list[_End] = []
    for i, (family, points) in enumerate(varied):
        scores, look = [point.score for point in points], _look(i) | {"label": _label(family)}
        beside = (i - (len(varied) - 1) / 2) * _SIDE * step / len(varied) if name == "small" or len(varied) > _BANDS else 0
        at = [where[str(point.at)] + beside for point in points]
        around = [[point.score - point.low for point in points], [point.high - point.score for point in points]]
        if name == "small":
            place.errorbar(at, scores, around, **look | _BAR)
        elif len(varied) > _BANDS:
            place.plot(at, scores, **look)
            place.errorbar(at, scores, around, color=look["color"], **_BAR)
        else:
            low, high = [point.low for point in points], [point.high for point in points]
            place.fill_between(at, low, high, color=look["color"], **_BAND)
            place.plot(at, scores, **look)
        if points:
            ends.append(_End(_label(family) + _same(points, varied[:i]), at[-1], scores[-1], look["color"]))
    for i, (family, points) in enumerate(lines[len(varied) :]):
        for point in points:
            place.axhline(point.score, linestyle=_DASHES[i % len(_DASHES)], label=_label(family), **_LEVEL)
            ends.append(_End(_label(family), max(where.values()), point.score, _LEVEL["color"]))
    return ends


def _latency_ends(lines: Sequence[Line]) -> Iterator[_End]:
    for i, (family, points) in enumerate(lines):
        timed = [(point.seconds, point.score) for point in points if point.seconds is not None]
        if timed:
            yield _End(_label(family), *timed[-1], _look(i)["color"])


def _same(points: Sequence[_Point], before: Sequence[Line]) -> str:
    """Return a word for a line that lies on one of those before it; "" for another one."""
    for family, others in before:
        if [(each.at, each.score) for each in others] == [(each.at, each.score) for each in points]:
            return f" (the same as {_label(family)})"
    return ""


def _name_ends(place: Axes, ends: Sequence[_End]) -> None:
    """Write the names of lines to the right of a panel, each as near to the end of its line as there is room."""
    low, high = place.get_ylim()
    line = (high - low) / _LINES
    ordered = sorted(ends, key=lambda end: end.y)
    names = [_wrapped(end.name) for end in ordered]
    heights = [line * (name.count("\n") + 1.3) for name in names]
    top, places = low - line, []
    for end, height in zip(ordered, heights, strict=True):
        places.append(max(end.y, top + height / 2))
        top = places[-1] + height / 2
    up = sum(at - end.y for end, at in zip(ordered, places, strict=True)) / max(1, len(places))
    for end, name, at in zip(ordered, names, places, strict=True):
        place.annotate(
            name,
            (end.x, end.y),
            xytext=(1.06, at - up),
            textcoords=place.get_yaxis_transform(),
            color=end.color,
            fontsize=8,
            va="center",
            arrowprops=_LEADER | {"color": end.color},
            annotation_clip=False,
        )


def _wrapped(name: str) -> str:
    return "\n".join(wrap(one_line(name).replace(",", ", "), _TITLE, break_on_hyphens=False)) or name


def _draw_latency(place: Axes, family: _Family, points: Sequence[_Point], i: int) -> None:
    timed = [(point.seconds, point.score, point.at) for point in points if point.seconds is not None]
    look = _look(i)
    place.plot([seconds for seconds, _, _ in timed], [score for _, score, _ in timed], **look, label=_label(family))
    for seconds, score, at in timed if family.varies else ():
        place.annotate(one_line(str(at), _TITLE), (seconds, score), color=look["color"], **_BESIDE)


def _look(i: int) -> dict[str, Any]:
    """Return the colour and the marker of the i-th line. Where the colours come again, the markers are others."""
    n = len(_COLOURS)
    return {"color": _COLOURS[i % n], "marker": _MARKERS[(i + i // n) % len(_MARKERS)]}


def _label(family: _Family) -> str:
    label = one_line(family.label, _LONGEST)
    return f" {label}" if label.startswith("_") else label  # matplotlib hides labels that begin so


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _saved(figure: Figure, kind: Format) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=_METADATA[kind])
    return file.getvalue()
