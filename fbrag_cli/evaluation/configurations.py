"""Configurations to evaluate. Each is a method with its settings, models and retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.prompts import PromptFile, Task, asking, read_prompt_file
from fbrag_cli.evaluation.results import key
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import PRESETS, choose_method, find_method, of_preset
from fbrag_cli.query import DEFAULT_RETRIEVER, ModelNames
from fbrag_cli.settings import settings_of

_ANSWER_TOKENS = 64  # the limit of most benchmarks


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to answer.

    small, large: names of models; large is None if there are no answers (`--retrieval-only`). chunk_words: words per chunk.
    prompts: prompts and length limits of a benchmark by dataset, instead of the default ones. checked: whether answers are
    checked, so that the method may abstain. preset: the name of the preset that it comes from.
    """

    method: Method
    small: str | None
    large: str | None
    retriever: str = DEFAULT_RETRIEVER
    chunk_words: int = 300
    prompts: PromptFile | None = None
    checked: bool = False
    preset: str = ""

    @property
    def names(self) -> ModelNames:
        return ModelNames(self.small, self.large)

    def method_for(self, dataset: str, choices: tuple[str, ...] = ()) -> Method:
        """Return the method with the prompts and the check for a dataset, and with the choices of a question. Raises FbragError
        `usage` if the file has no prompts for it."""
        method = replace(self.method, allow_unsupported=not self.checked)
        return asking(method, self.prompts.of(dataset) if self.prompts else Task(), choices)

    @property
    def models(self) -> dict[str, str]:
        """The names of the models that it uses, by role."""
        asked = {"small": self.small if self.method.needs_small else None, "large": self.large}
        return {role: name for role, name in asked.items() if name}

    def described(self) -> dict[str, object]:
        """Return the settings that affect results, for a row. Configurations with equal descriptions are the same."""
        settings: dict[str, object] = {"method": self.method.name, **self.method.described()}
        if self.method.needs_small:
            settings["small"] = self.small
        if self.large:
            settings["large"] = self.large
        if self.method.retrieves:
            settings |= {"retriever": self.retriever, "chunk_words": self.chunk_words}
        if self.prompts:
            settings["prompts"] = self.prompts.label
            if self.prompts.has_limits:
                settings = {name: value for name, value in settings.items() if name not in ("max_tokens", "forward_tokens")}
        return settings

    @property
    def key(self) -> str:
        return key(self.described())


def distinct(configurations: Sequence[Configuration]) -> list[Configuration]:
    """Return each configuration once, those with the most samples first, because the others reuse some of these."""
    by_key = {configuration.key: configuration for configuration in configurations}
    return sorted(by_key.values(), key=lambda configuration: -getattr(configuration.method, "samples", 0))


# -- lists of values, compared -----------------------------------------------------------------------------------------------


def combinations(
    *,
    methods: Sequence[str],
    presets: Sequence[str],
    small: Sequence[str],
    retrievers: Sequence[str],
    large: str | None,
    settings: Mapping[str, Sequence[Any]],
    given: Sequence[str],
    chunk_words: int | None,
    prompts: str | None,
    max_tokens: int | None,
    seed: int,
    on_gpu: bool,
) -> list[Configuration]:
    """Return every combination of the lists that apply to a method, with the settings of each preset. Lists count more.

    methods, presets, small, retrievers: names. settings: the values of each setting. given: settings that at least one method
    must have. large: the model that answers, None for no answers. chunk_words: words per chunk, None for each method's default.
    prompts: a file of prompts, or None. max_tokens: length limit of an answer in tokens, None for the limit in `prompts`, or 64.
    seed: seed of the samples. on_gpu: whether the models run on a GPU. Raises FbragError `usage` for an invalid name, value or
    file.
    """
    file = read_prompt_file(prompts) if prompts else None
    if file and file.has_limits and (max_tokens or "forward_tokens" in settings):
        raise FbragError("usage", f"{file.path} sets its own length limits", "drop --max-tokens and forward-tokens")
    if file and (kept := [name for name in methods if find_method(name).own_prompt]):
        message = f"--prompts has no effect with {', '.join(kept)}, whose prompt is a part of the method"
        raise FbragError("usage", message, "drop --prompts, or use another --method")
    configurations, used = [], set[str]()
    for preset, name in product(presets, methods):
        kind = find_method(name)
        if preset in PRESETS and not of_preset(preset, kind):
            continue
        used.add(preset)
        own = {each: values for each, values in settings.items() if each in settings_of(kind)}
        for values, retriever in product(product(*own.values()), retrievers):
            lists = dict(zip(own, values, strict=True))
            fixed = {"method": name, "retriever": retriever, "max_tokens": max_tokens or _ANSWER_TOKENS, "seed": seed}
            method = choose_method({preset: True, **fixed}, lists, on_gpu=on_gpu)
            words = chunk_words or method.chunk_words
            smalls = small if method.needs_small else [None]
            configurations += [
                Configuration(method, of_small, large, retriever, words, file, preset=preset) for of_small in smalls
            ]
    for option in [*given, *(preset for preset in presets if preset not in used)]:
        if option in presets or not any(option in settings_of(find_method(name)) for name in methods):
            message = f"{option} has no effect with {', '.join(methods)}"
            raise FbragError(
                "usage", message, f"drop {'--preset' if option in presets else '--set'} {option}, or use another --method"
            )
    return distinct(configurations)
