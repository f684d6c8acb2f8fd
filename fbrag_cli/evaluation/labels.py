"""How rows and tables name a configuration: by its settings, and by a label of those in which it differs from others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.methods.registry import METHODS, all_settings, names
from fbrag_cli.text.printable import one_line

Settings = Mapping[str, object]

#: Settings that rows leave out where they have this value. Older versions lack the setting.
_ABSENT = {name: each.default for name, each in sorted(all_settings().items()) if each.knob.added}
_ORDER = "recall select order weights small large retriever samples temperature chunk_words".split()
_QUOTED = re.compile(r"[^\w.:/+@%…-]+")  # signs that a shell treats as its own, and those that separate the parts of a label
_LONGEST = 60  # characters of one value


def key(configuration: dict[str, object]) -> str:
    """Return a text that is equal for equal settings in any order."""
    return json.dumps(configuration, sort_keys=True)


def written(configuration: Settings) -> dict[str, object]:
    """Return the settings that a row holds, without those at a default that rows of older versions lack."""
    return {name: value for name, value in configuration.items() if _ABSENT.get(name) != value}


def _full(configuration: Settings) -> dict[str, object]:
    """Return the settings of a row with those that it leaves out."""
    read = {name for method in METHODS if method.name == configuration.get("method") for name in settings_of(method)}
    return {name: value for name, value in _ABSENT.items() if name in read} | dict(configuration)


def shared(configurations: Sequence[Settings]) -> dict[str, object]:
    """Return the settings that have one value in all configurations that read them."""
    settings = [_full(configuration) for configuration in configurations]
    names = dict.fromkeys(name for each in settings for name in each)
    return {name: next(each[name] for each in settings if name in each) for name in names if not _differs(settings, name)}


def order(configuration: Settings) -> tuple[tuple[float, str], ...]:
    """Return a sort key for the lines of a table: by the number of selected chunks, then by method in the paper's order."""
    settings = _full(configuration)
    known, method = names(), str(settings.get("method"))
    rank = float(known.index(method) if method in known else len(known))
    read = ("recall", "small", "large", "retriever", "chunk_words", "weights", "samples", "temperature")
    places = [_place(settings.get(name)) for name in read]
    return (_place(settings.get("select")), (rank, str(method)), *places, (0, _written(settings)))


def labels(configurations: Sequence[Settings]) -> list[str]:
    """Return a unique label for each that needs no quotes in a shell, as "fb-rag:recall=8,select=5" and "vanilla"."""
    settings = [_full(configuration) for configuration in configurations]
    names = sorted({name for each in settings for name in each if _differs(settings, name)} - {"method"}, key=_rank)
    found = [_label(each, [name for name in names if name in each]) for each in settings]
    for label in {label for label in found if found.count(label) > 1}:
        alike = [i for i, other in enumerate(found) if other == label]
        # These differ in a setting that some of them lack.
        read = {name for i in alike for name in settings[i]} - {"method"}
        differing = [name for name in read if len({_written(settings[i].get(name)) for i in alike}) > 1]
        for i in alike:
            found[i] = _label(settings[i], sorted({*differing, *(name for name in names if name in settings[i])}, key=_rank))
    # Cut values and replaced signs can make labels alike: these get a number.
    return [label if found.count(label) == 1 else f"{label}.{i}" for i, label in enumerate(found, 1)]


def _label(settings: Settings, names: Sequence[str]) -> str:
    parts = ",".join(f"{name.replace('_', '-')}={_value(settings.get(name, _ABSENT.get(name)))}" for name in names)
    return ":".join(filter(None, [_value(settings.get("method")), parts]))


def _rank(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _place(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (-1.0, "" if value is None else str(value))


def _differs(settings: Sequence[Settings], name: str) -> bool:
    return len({_written(each[name]) for each in settings if name in each}) > 1


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _QUOTED.sub("_", one_line(value if isinstance(value, str) else _written(value), _LONGEST))
