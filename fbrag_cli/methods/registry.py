"""The methods, in the order of tables: those that read no document, the baselines, FIT-RAG, R2AG and FB-RAG; and how a user's
values make one of them, the same on every front.

A method is registered by one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.alone import ClosedBook, GenRead, Refeed
from fbrag_cli.methods.fb_rag.baselines import LongContext, OrderPreserving, SelfRoute, Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.r2ag.method import R2Ag
from fbrag_cli.query import MethodSettings
from fbrag_cli.settings import Setting, settings_of
from fbrag_cli.storage.files import read_small
from fbrag_cli.text.suggest import suggestion

#: Settings that only forward samples use.
_OF_SAMPLES = ("temperature", "forward_tokens", "weights")

METHODS: list[type[Method]] = [
    ClosedBook,
    GenRead,
    LongContext,
    Vanilla,
    OrderPreserving,
    SelfRoute,
    Refeed,
    FitRag,
    R2Ag,
    FBRag,
]

DEFAULT = FBRag.name


class Preset(NamedTuple):
    """Settings with one name. values: by name. on_gpu: those that differ if the models run on a GPU.

    `select` is never below the method's own default.
    """

    values: Mapping[str, Any]
    on_gpu: Mapping[str, Any] = {}


#: By name.
PRESETS: Mapping[str, Preset] = {
    "fast": Preset({"samples": 0}),
    "thorough": Preset({"samples": 5, "select": 8}, {"select": 20}),
}

#: The name of no preset.
PLAIN = "default"


def names() -> list[str]:
    """Return the names of all methods."""
    return [method.name for method in METHODS]


def find_method(name: str) -> type[Method]:
    """Return the method of this name. Raises FbragError `usage`."""
    for method in METHODS:
        if method.name == name:
            return method
    hint = suggestion(name, names(), f"one of {', '.join(names())}")
    raise FbragError("usage", f"unknown method {name}", hint)


def all_settings() -> dict[str, Setting]:
    """Return the settings of all methods by name. One that several methods have is declared by the last of them."""
    settings: dict[str, Setting] = {}
    for method in reversed(METHODS):
        for name, setting in settings_of(method).items():
            settings.setdefault(name, setting)
    return settings


# -- the method that a user chooses ----------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """What a user chose. kind: the method. preset: its name, PLAIN for none. before, after: the values that count less and more
    than those of the preset. given: the names of those that were given for this very question."""

    kind: type[Method]
    preset: str
    before: dict[str, Any]
    after: dict[str, Any]
    given: frozenset[str]

    @property
    def values(self) -> dict[str, Any]:
        """The values that count, with those of the preset on a CPU."""
        return {**self.before, **(PRESETS[self.preset].values if self.preset != PLAIN else {}), **self.after}


def chosen(*layers: Mapping[str, Any], typed: Callable[[str], str] = str) -> Choice:
    """Return what the layers choose.

    layers: values by name, as "samples", "method", "retriever" or the name of a preset; the last layer counts most, and is what
    the user gives for this very question. A preset counts less than other values of its layer, and more than those of the layers
    before. typed: returns a name as the user typed it. Raises FbragError `usage` for values that contradict each other, for a
    given setting that the method lacks, and for a preset without effect on the method.
    """
    preset, before, after = PLAIN, dict[str, Any](), dict[str, Any]()
    for layer in layers:
        presets = [each for each in PRESETS if layer.get(each)]
        if len(presets) > 1:
            problem = f"use either {' or '.join(map(typed, presets))}, not both"
            raise FbragError("usage", problem, "leave one of them out")
        if presets:
            preset, before, after = presets[0], before | after, {}
        after |= layer
    kind = find_method(after.get("method") or before.get("method") or DEFAULT)
    last = layers[-1] if layers else {}
    given = frozenset(name for name, value in last.items() if value is not None and name != PLAIN)
    for name in sorted(given):
        having = [each.name for each in METHODS if name in settings_of(each) or (name == "retriever" and each.retrieves)]
        if having and kind.name not in having:
            problem = f"{typed(name)} has no effect with the method {kind.name}"
            raise FbragError("usage", problem, f"leave it out; it is a setting of {', '.join(having)}")
    if preset != PLAIN:
        has = of_preset(preset, kind)
        if all(after.get(name) is not None for name in has):  # also if it has none
            if last.get(preset):
                why = f"with the method {kind.name}" if not has else f"next to {' and '.join(map(typed, has))}"
                raise FbragError("usage", f"{typed(preset)} has no effect {why}", f"leave out {typed(preset)}")
            preset = PLAIN  # what was set for all questions gives way
    _check_without_samples(Choice(kind, preset, before, after, given), typed)
    return Choice(kind, preset, before, after, given)


def of_preset(preset: str, kind: type[Method]) -> list[str]:
    """Return the names of the settings of a preset that a method has."""
    return [name for name in PRESETS[preset].values if name in settings_of(kind)]


def _check_without_samples(choice: Choice, typed: Callable[[str], str]) -> None:
    """Raise FbragError `usage` where the user gives both what only forward samples use, and that none are drawn."""
    causes = [each for each in (choice.preset, "samples") if each in choice.given]
    idle = sorted(choice.given & {"small", *_OF_SAMPLES})
    if idle and causes and choice.values.get("samples") == 0:
        cause = typed(causes[0]) + (" 0" if causes[0] == "samples" else "")
        raise FbragError("usage", f"{typed(idle[0])} has no effect with {cause}", f"leave out {typed(idle[0])}, or {cause}")


def choose_method(*layers: Mapping[str, Any], on_gpu: bool, typed: Callable[[str], str] = str) -> Method:
    """Return the method made of the values that count, and of this machine's defaults for the others.

    layers, typed: as of `chosen`. on_gpu: whether the models run on a GPU. Raises FbragError `usage` for a name or a value that
    cannot be used.
    """
    choice = chosen(*layers, typed=typed)
    method = _made(choice, on_gpu=on_gpu)
    if choice.preset in choice.given and method == _made(choice._replace(preset=PLAIN), on_gpu=on_gpu):
        what = f"{typed(choice.preset)} changes nothing with the method {method.name} on this machine"
        raise FbragError("usage", what, f"leave out {typed(choice.preset)}")
    return method


def _made(choice: Choice, *, on_gpu: bool) -> Method:
    """Return the method with those of the values that it has. None means the default on this machine."""
    settings = {}
    for name, each in settings_of(choice.kind).items():
        default = each.on_gpu if on_gpu and each.on_gpu is not None else each.default
        before, after = choice.before.get(name), choice.after.get(name)
        value = default if before is None else before
        if choice.preset != PLAIN:
            preset = PRESETS[choice.preset]
            value = {**preset.values, **(preset.on_gpu if on_gpu else {})}.get(name, value)
            if name == "select" and default is not None:
                value = max(value, default)
        settings[name] = value if after is None else after
    if str(settings.get("instructions") or "").startswith("@"):
        settings["instructions"] = _text_of(settings["instructions"][1:])
    return choice.kind(**settings)


def _text_of(file: str) -> str:
    try:
        return read_small(Path(file)).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise FbragError("usage", f"the instructions in {file} cannot be read: {why}", "name a UTF-8 text file") from None


def reading_twice(method: MethodSettings, times: int = 1) -> MethodSettings:
    """Return the method that reads twice as much, `times` times. Raises FbragError `usage` if what it reads is fixed."""
    for _ in range(times):
        if (larger := method.reading_twice()) is None:
            what = "the whole document" if method.n_context_chunks(1, method.chunk_words) else "no document"
            raise FbragError("usage", f"{method.name} reads {what} anyway: there is no more to read", "ask with another method")
        method = larger
    return method
