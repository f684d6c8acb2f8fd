"""How rows and tables name a configuration: by its settings, and by a label of those in which it differs from others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from fbrag_cli.methods.registry import names
from fbrag_cli.text.printable import one_line

Settings = Mapping[str, object]

_QUOTED = re.compile(r"[^\w.:/+@%…-]+")  # signs that a shell treats as its own, and those that separate the parts of a label
_LONGEST = 60  # characters of one value


def key(configuration: Settings) -> str:
    """Return a text that is equal for equal settings in any order."""
    return json.dumps(configuration, sort_keys=True)


def shared(configurations: Sequence[Settings]) -> dict[str, object]:
    """Return the settings that have one value in all configurations that have them."""
    differing = _differing(configurations)
    return {name: value for each in configurations for name, value in each.items() if name not in differing}


def order(configuration: Settings) -> tuple[tuple[float, str], ...]:
    """Return a sort key for the lines of a table: by the number of selected chunks, then by method in the paper's order."""
    known, method = names(), str(configuration.get("method"))
    rank = float(known.index(method) if method in known else len(known))
    places = [_place(value) for _, value in sorted(configuration.items())]
    return (_place(configuration.get("select")), (rank, method), *places, (0, key(configuration)))


def labels(configurations: Sequence[Settings]) -> list[str]:
    """Return a unique label for each that needs no quotes in a shell, as "fb-rag:recall=8,select=5" and "vanilla"."""
    settings = [dict(configuration) for configuration in configurations]
    of_method: dict[object, dict[str, object]] = {}  # the settings that any configuration of a method has
    for each in settings:
        of_method.setdefault(each.get("method"), {}).update(dict.fromkeys(each))
    settings = [{**of_method[each.get("method")], **each} for each in settings]
    differing = sorted(_differing(settings) - {"method"})
    found = []
    for each in settings:
        parts = ",".join(f"{name.replace('_', '-')}={_value(each[name])}" for name in differing if name in each)
        found.append(":".join(filter(None, [_value(each.get("method")), parts])))
    # Cut values and replaced signs can make labels alike: these get a number.
    return [label if found.count(label) == 1 else f"{label}.{i}" for i, label in enumerate(found, 1)]


def _differing(settings: Sequence[Settings]) -> set[str]:
    """Return the names of the settings that have several values."""
    values: dict[str, set[str]] = {}
    for each in settings:
        for name, value in each.items():
            values.setdefault(name, set()).add(_written(value))
    return {name for name, found in values.items() if len(found) > 1}


def _place(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (-1.0, "" if value is None else str(value))


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _QUOTED.sub("_", one_line(value if isinstance(value, str) else _written(value), _LONGEST))
