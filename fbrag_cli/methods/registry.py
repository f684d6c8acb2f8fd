"""The methods, in the order of tables: what reads no document, then the baselines, then FIT-RAG, R2AG and FB-RAG; and how the
values that a user gives make one of them, whatever front they come from.

A method is registered by one line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.alone.closed_book import ClosedBook
from fbrag_cli.methods.alone.genread import GenRead
from fbrag_cli.methods.alone.refeed import Refeed
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.fb_rag.long_context import LongContext
from fbrag_cli.methods.fb_rag.order_preserving import OrderPreserving
from fbrag_cli.methods.fb_rag.self_route import SelfRoute
from fbrag_cli.methods.fb_rag.vanilla import Vanilla
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.r2ag.method import R2Ag
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.settings import Setting, settings_of
from fbrag_cli.storage.files import read_small
from fbrag_cli.text.suggest import suggestion

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

#: Name -> the settings that it means. Their cost was measured (tests/benchmarks/README.md).
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "fast": {"method": "order-preserving", "allow_unsupported": True, "window_weight": 0.6},
    "thorough": {"select": 10},
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
    found: dict[str, Setting] = {}
    for method in reversed(METHODS):
        for name, setting in settings_of(method).items():
            found.setdefault(name, setting)
    return found


# -- the method that a user chooses ----------------------------------------------------------------------------------------------


def resolved(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that count, those of presets among them.

    layers: values by name, as "samples", "method", "retriever" or the name of a preset; the last layer counts most, and is what
    the user gives for this very question. A preset counts less than other values of its layer, and more than those of the layers
    before. Raises FbragError `usage` for values that contradict each other, and for a setting that the user gives and the method
    does not have.
    """
    name, before, after = PLAIN, dict[str, Any](), dict[str, Any]()
    for layer in layers:
        method, presets = layer.get("method"), [each for each in PRESETS if layer.get(each)]
        if len(presets) > 1:
            what = f"use either {' or '.join(presets)}, not both"
            raise FbragError("usage", what, "leave one of them out")
        if presets:
            name, before, after = presets[0], before | after, {}
        own = PRESETS.get(name, {}).get("method")
        if method and own and method != own:
            if presets:
                what = f"{name} is the method {own}, and {method} is another"
                raise FbragError("usage", what, f"leave out {name}, or the method")
            name = PLAIN  # the method sets aside the preset of a layer before
        after |= layer
    found = {**before, **PRESETS.get(name, {}), **after}
    if name == "fast" and found.get("retriever", DEFAULT_RETRIEVER) != DEFAULT_RETRIEVER and "window_weight" not in after:
        del found["window_weight"]  # only BM25 has windows to weigh
    kind = find_method(found.setdefault("method", DEFAULT))
    for given in [name for name, value in (layers[-1] if layers else {}).items() if value is not None]:
        having = [each.name for each in METHODS if given in settings_of(each) or (given == "retriever" and each.retrieves)]
        if having and kind.name not in having:
            what = f"{given} has no effect with the method {kind.name}"
            raise FbragError("usage", what, f"leave it out; it is a setting of {', '.join(having)}")
    return found


def choose_method(*layers: Mapping[str, Any], on_gpu: bool) -> Method:
    """Return the method of the values that count, with the defaults of this machine if there is none.

    layers: as of `resolved`. Their "prompts" is a file of prompts instead of ours. on_gpu: whether the models run on a GPU.
    Raises FbragError `usage` for a name, a value or a file that cannot be used.
    """
    values = resolved(*layers)
    method = _made(find_method(values["method"]), values, on_gpu=on_gpu)
    if not (prompts := values.get("prompts")):
        return method
    if values.get("instructions"):
        raise FbragError("usage", "use either prompts or --instructions, not both", "leave one of them out")
    from fbrag_cli.methods.prompt_file import read_prompt_file

    limits = {name: values[name] for name in ("max_tokens", "forward_tokens") if values.get(name) and hasattr(method, name)}
    return replace(read_prompt_file(prompts).of().applied(method), **limits)


def _made(kind: type[Method], values: Mapping[str, Any], *, on_gpu: bool) -> Method:
    """Return the method with those of the values that it has. None means the default on this machine."""
    known = settings_of(kind)
    settings = {name: each.on_gpu if on_gpu and each.on_gpu is not None else each.default for name, each in known.items()}
    given = {name: values[name] for name in known if values.get(name) is not None}
    implied = [implies for name in given if (implies := known[name].implies)]
    if len(implied) == 1:
        settings |= dict(implied)
    settings |= given
    if str(settings.get("instructions") or "").startswith("@"):
        settings["instructions"] = _text_of(settings["instructions"][1:])
    return kind(**settings)


def _text_of(file: str) -> str:
    try:
        return read_small(Path(file)).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise FbragError("usage", f"the instructions in {file} cannot be read: {why}", "name a UTF-8 text file") from None


def reading_more(method: Method, more: int) -> Method:
    """Return the method that reads `more` portions more. Raises FbragError `usage` if what it reads is fixed."""
    if not more:
        return method
    if (larger := method.with_more(more)) is None:
        what = "the whole document" if method.n_context_chunks(1) else "no document"
        raise FbragError("usage", f"--more: {method.name} reads {what} anyway", "leave out --more, or --method")
    return larger
