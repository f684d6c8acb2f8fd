"""Names of configurations in a table: the settings in which each differs from the others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fbrag_cli.methods.registry import METHODS, names
from fbrag_cli.text.printable import one_line

Settings = Mapping[str, object]

_ETAS = ("eta_forward", "eta_backward")
_SPOKEN = {"samples": "{} samples", "temperature": "T={}", "chunk_words": "{} words", "seed": "seed {}"}
#: Settings that rows leave out where they have this value: the rows of older versions lack them.
ABSENT: dict[str, object] = {"pooling": "max"}
_BARE = ("retriever", "fusion", "pooling")
_ORDER = ("fusion", "pooling", "small", "large", "retriever", "samples", "temperature", "chunk_words")
_LONGEST = 60  # characters of one value


def _full(configuration: Settings) -> dict[str, object]:
    """The settings of a row, and those that it leaves out."""
    return {**ABSENT, **configuration} if "samples" in configuration else dict(configuration)


def shared(configurations: Sequence[Settings]) -> dict[str, object]:
    """The settings that every configuration that reads them has alike."""
    settings = [_full(configuration) for configuration in configurations]
    names = dict.fromkeys(name for each in settings for name in each)
    return {name: next(each[name] for each in settings if name in each) for name in names if not _differs(settings, name)}


def order(configuration: Settings) -> tuple[tuple[float, str], ...]:
    """Sorts configurations as a table has them: the same number of chunks together, the methods in the paper's order."""
    settings = _full(configuration)
    known, method = names(), str(settings.get("method"))
    rank = float(known.index(method) if method in known else len(known))
    read = ("recall", "small", "large", "retriever", "chunk_words", "eta_forward", "eta_backward", "samples", "temperature")
    places = [_place(settings.get(name)) for name in read]
    return (_place(settings.get("select")), (rank, str(method)), *places, (0, _written(settings)))


def labels(configurations: Sequence[Settings]) -> list[str]:
    """A label for each, no two alike: "FB-RAG FB, 8→5" beside "OP, 5"; "F" beside "FB"; "raw" beside "minmax"."""
    settings = [_full(configuration) for configuration in configurations]
    found = [_label(each, settings) for each in settings]
    for label in {label for label in found if found.count(label) > 1}:
        alike = [i for i, other in enumerate(found) if other == label]
        names = sorted({name for i in alike for name in configurations[i]})
        told = [name for name in names if len({_written(configurations[i].get(name)) for i in alike}) > 1]
        for i in alike:
            found[i] = ", ".join([label, *(f"{name} {_value(configurations[i].get(name))}" for name in told)])
    # Long values are cut. Labels that became alike by that get a number.
    return [label if found.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(found, 1)]


def _label(each: Settings, settings: Sequence[Settings]) -> str:
    methods = _differs(settings, "method")
    forward = [_variant(other) for other in settings if _variant(other)]
    parts = []
    if methods:
        parts.append(_title(each))
    elif len(set(forward)) > 1:
        parts.append(_variant(each))
    if _differs(settings, "select") or _differs(settings, "recall"):
        parts += [_sizes(each, methods)] if "select" in each else []
    names = {name for name in each if _differs(settings, name)} - {"method", "select", "recall", *_ETAS}
    both = {"small", "large"} <= {name for other in settings for name in other if _differs(settings, name)}
    for name in sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)):
        parts.append(_part(name, each[name], both))
    return ", ".join(part for part in parts if part) or _title(each)


def _title(settings: Settings) -> str:
    method = one_line(str(settings.get("method")), _LONGEST)
    titles = {each.name: each.title for each in METHODS}
    return " ".join(filter(None, [titles.get(method, method), _variant(settings)]))


def _variant(settings: Settings) -> str:
    """Return F, FB or B of the paper by the weights of the two lookups; other weights are added to the name."""
    if not all(eta in settings for eta in _ETAS):
        return ""
    forward, backward = (settings[eta] for eta in _ETAS)
    if backward == 0 or forward == 0:
        return "F" if backward == 0 else "B"
    return "FB" if forward == backward else f"FB {_value(forward)}:{_value(backward)}"


def _sizes(settings: Settings, after_method: bool) -> str:
    if "recall" in settings:
        return f"{_value(settings['recall'])}→{_value(settings['select'])}"
    return _value(settings["select"]) + ("" if after_method else " chunks")


def _part(name: str, value: object, both_models: bool) -> str:
    if name == "samples" and value == 1:
        return "1 sample"
    if name in _SPOKEN:
        return _SPOKEN[name].format(_value(value))
    if name in _BARE or (name in ("small", "large") and not both_models):
        return _value(value)
    return f"{name} {_value(value)}"


def _place(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (-1.0, "" if value is None else str(value))


def _differs(settings: Sequence[Settings], name: str) -> bool:
    return len({_written(each[name]) for each in settings if name in each}) > 1


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _value(value: object) -> str:
    return one_line(value if isinstance(value, str) else _written(value), _LONGEST)
