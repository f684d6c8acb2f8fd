"""The options of the methods, made from their fields: `ask` and `explain` take a value each, `eval` a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any, Literal

from fbrag_cli.cli.options import option
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.choosing import PRESETS, choose_method, preset_settings
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import DEFAULT, METHODS, all_settings, find_method, names

_NAMES = sorted(names(), key=lambda name: name != DEFAULT)  # the default first
_OTHERS = ", ".join(f"{each.chunk_words} for {each.name}" for each in METHODS if each.chunk_words != Method.chunk_words)
_CHUNK_WORDS = f"about how many words a chunk has ({Method.chunk_words}; {_OTHERS})"
_ORIGINS = ("DEFAULT", "DEFAULT_MAP", "ENVIRONMENT", "COMMANDLINE")  # the last one counts most; DEFAULT_MAP is the file


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """The options that every method has."""

    method: str = option(
        DEFAULT, "--method", help=f"way to answer: {', '.join(_NAMES)}", group="Method", choices=_NAMES, metavar="NAME"
    )
    fast: bool = option(
        False,
        "--fast",
        help="retrieve by the question alone, answer without a check: one model call, 0.6 of the time",
        group="Method",
    )
    thorough: bool = option(
        False,
        "--thorough",
        help="answer from 10 chunks (as on a GPU): more evidence, 1.6 times as long",
        group="Method",
    )
    chunk_words: int | None = option(None, "--chunk-words", help=_CHUNK_WORDS, group="Method", metavar="N", min=1)
    retriever: str = option(
        "bm25",
        "--retriever",
        help="what ranks the chunks: bm25, or an embedding model: a GGUF file, a name of the hub (bm25)",
        group="Method",
        metavar="NAME",
    )
    prompts: str | None = option(
        None,
        "--prompts",
        help="file with a benchmark's prompts in place of ours: JSON; FILE:NAME where it has several",
        group="Method",
        metavar="FILE",
    )

    @property
    def words(self) -> int:
        """Words of a chunk: those that the user names, else those of the method."""
        return self.chunk_words or find_method(self.method).chunk_words


def _value_options() -> type[Any]:
    """Return a record with an option for each setting. One whose default varies is None where it is not given."""
    made = []
    for setting in all_settings().values():
        about = setting.knob
        varies = about.varies is not None or about.on_gpu is not None
        kind: Any = Literal[setting.choices] if setting.choices else setting.kind
        knob = replace(about, varies=about.default_text(setting.default))
        default = None if varies else setting.default
        made.append((setting.name, kind | None if default is None else kind, field(default=default, metadata={"knob": knob})))
    return make_dataclass("MethodSettings", made, frozen=True)


#: Options of `ask` and `explain`.
MethodKnobs = _value_options()


def chosen_method(options: MethodOptions, given: Any, *, on_gpu: bool) -> Method:
    """Return the method that the options name, with the defaults of this machine where the user gives no value.

    given: a record of `MethodKnobs`. Raises FbragError `usage`.
    """
    values = {each.name: getattr(given, each.name) for each in fields(given)}
    return choose_method(options.method, values, prompts=options.prompts, on_gpu=on_gpu)


# -- lists, for comparisons ------------------------------------------------------------------------------------------------


def _list_options() -> type[Any]:
    """Return a record with a list option for each setting that can be compared."""
    made = []
    for setting in (each for each in all_settings().values() if each.knob.compared):
        knob = replace(
            setting.knob,
            varies=setting.knob.default_text(setting.default),
            minimum=None,
            maximum=None,
            group="Compare",
            metavar=f"{setting.knob.metavar or 'NAME'},…",
        )
        made.append((setting.name, str | None, field(default=None, metadata={"knob": knob})))
    return make_dataclass("ComparedSettings", made, frozen=True)


ListKnobs = _list_options()


# -- presets ---------------------------------------------------------------------------------------------------------------


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
