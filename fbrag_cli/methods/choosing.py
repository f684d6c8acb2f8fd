"""Makes a `Method` of the values that a user gives, whatever front they come from: a name, settings, and presets of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import find_method
from fbrag_cli.storage.files import read_small

#: Name -> the settings that it stands for. Their cost was measured (tests/benchmarks/README.md).
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "fast": {"method": "order-preserving", "answer_anyway": True, "window_weight": 0.6},
    "thorough": {"select": 10},
}

#: The preset of `fbrag eval` that sets nothing.
PLAIN = "default"


def preset_settings(preset: str, retriever: str) -> dict[str, Any]:
    """Return the settings of a preset, none for another name.

    retriever: name of the retriever; only BM25 has windows to weigh.
    """
    return {name: value for name, value in PRESETS.get(preset, {}).items() if name != "window_weight" or retriever == "bm25"}


def choose_method(name: str, values: Mapping[str, Any], *, prompts: str | None = None, on_gpu: bool) -> Method:
    """Return the method of this name, with those of the values that it reads.

    values: values of settings by name; a missing one, or None, stands for the default on this machine. prompts: file of
    prompts in place of ours. on_gpu: whether the models run on a GPU.
    Raises FbragError `usage` for a name, a value or a file that cannot be used.
    """
    kind = find_method(name)
    method = method_with(kind, values, on_gpu=on_gpu)
    if prompts is None:
        return method
    if values.get("instructions"):
        raise FbragError("usage", "--prompts and --instructions both say how to answer", "leave one of them out")
    from fbrag_cli.methods.prompt_file import read_prompt_file

    limits = {name: values[name] for name in ("max_tokens", "forward_tokens") if values.get(name) and hasattr(method, name)}
    return replace(read_prompt_file(prompts).of().applied(method), **limits)


def method_with(method: type[Method], values: Mapping[str, Any], *, on_gpu: bool) -> Method:
    """Return a method with those of the values that it reads. None stands for the default on this machine."""
    settings: dict[str, Any] = {}
    known = settings_of(method)
    implied = [each.knob.implies for name, each in known.items() if each.knob.implies and values.get(name) is not None]
    for name, setting in known.items():
        value = values.get(name)
        if value is None and len(implied) == 1 and implied[0][0] == name:
            value = implied[0][1]
        elif value is None:
            value = setting.knob.on_gpu if on_gpu and setting.knob.on_gpu is not None else setting.default
        settings[name] = value
    if settings.get("instructions"):
        settings["instructions"] = _instructions(settings["instructions"])
    return method(**settings)


def reading_more(method: Method, more: int) -> Method:
    """Return the method that reads `more` portions more. Raises FbragError `usage` if what it reads is fixed."""
    if not more:
        return method
    if (larger := method.with_more(more)) is None:
        what = "the whole document" if method.n_read(1) else "no document"
        raise FbragError("usage", f"--more: {method.name} reads {what} anyway", "leave out --more, or --method")
    return larger


def _instructions(value: str) -> str:
    if not value.startswith("@"):
        return value
    try:
        return read_small(Path(value[1:])).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise FbragError("usage", f"the instructions in {value[1:]} cannot be read: {why}", "name a UTF-8 text file") from None
