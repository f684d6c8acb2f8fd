"""`--fast` and `--thorough`: names for settings. What they cost was measured (tests/benchmarks/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.choosing import PRESETS, preset_settings

_ORIGINS = ("DEFAULT", "DEFAULT_MAP", "ENVIRONMENT", "COMMANDLINE")  # the last one counts most; DEFAULT_MAP is the file


def with_preset(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the options with those of --fast or --thorough, where one of them is set.

    origins: of each value. An option that is set beside a preset counts, unless it comes from where options count less: a flag
    over a variable, a variable over the configuration file. Raises FbragError `usage` for what contradicts each other.
    """
    rank = {name: _ORIGINS.index(origin) if origin in _ORIGINS else 0 for name, origin in origins.items()}
    asked = sorted((name for name in PRESETS if values.get(name)), key=lambda name: -rank[name])
    if not asked:
        return dict(values)
    if len(asked) > 1 and rank[asked[0]] == rank[asked[1]]:
        raise FbragError("usage", "--fast and --thorough contradict each other", "leave one of them out")
    (preset, *_), chosen = asked, preset_settings(asked[0], values["retriever"])
    method, given = chosen.get("method"), values["method"]
    if method and given != method and rank["method"] >= rank[preset]:
        if rank["method"] > rank[preset]:
            return dict(values)  # the method of a flag sets aside the preset of the file
        what = f"--{preset} is the method {method}, and --method {given} is another"
        raise FbragError("usage", what, f"leave out --{preset}, or --method")
    return {name: chosen[name] if name in chosen and rank[name] < rank[preset] else value for name, value in values.items()}
