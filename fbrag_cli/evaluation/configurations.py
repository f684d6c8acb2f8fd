"""Configurations: the columns of an evaluation. Each is a method with its settings, its models and its retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.results import key
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.prompt_file import PromptFile, read_prompt_file
from fbrag_cli.methods.registry import PRESETS, choose_method, find_method
from fbrag_cli.query import DEFAULT_RETRIEVER, ModelNames
from fbrag_cli.settings import settings_of

_ANSWER_TOKENS = 64  # of most benchmarks


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to answer.

    small, large: names of models; large is None where nothing is answered (`--retrieval-only`). chunk_words: words in a chunk.
    prompts: prompts and length limits of a benchmark, by data set, in place of ours. checked: data sets whose answers are checked
    and may be declined.
    """

    method: Method
    small: str | None
    large: str | None
    retriever: str = DEFAULT_RETRIEVER
    chunk_words: int = 300
    prompts: PromptFile | None = None
    checked: frozenset[str] = frozenset()

    @property
    def names(self) -> ModelNames:
        return ModelNames(self.small, self.large)

    def method_for(self, dataset: str) -> Method:
        """Return the method with the prompts and the check for a data set. Raises FbragError `usage` where it has no prompts."""
        method = replace(self.method, answer_anyway=dataset not in self.checked)
        return self.prompts.of(dataset).applied(method) if self.prompts else method

    @property
    def models(self) -> dict[str, str]:
        """The names of the models that it asks, by role."""
        asked = {"small": self.small if self.method.needs_small else None, "large": self.large}
        return {role: name for role, name in asked.items() if name}

    def described(self) -> dict[str, object]:
        """Return the settings that make a difference, as a row has them. Configurations with equal descriptions are one."""
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
    """Return each configuration once, those with most samples first: the others reuse some of their samples."""
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
    """Return every combination of the lists that a method reads, with the settings of each preset, or with its method.

    methods, presets, small, retrievers: names. settings: the values of each setting. given: settings that a method has to have,
    one at least. large: the model that answers, None where nothing is answered. chunk_words: words in a chunk, None for the
    number of each method. prompts: a file of prompts, or None. max_tokens: length limit of an answer in tokens, None for that of
    `prompts`, else 64. seed: seed of the samples. on_gpu: whether the models run on a GPU. Raises FbragError `usage` for a name,
    a value or a file that cannot be used.
    """
    file = read_prompt_file(prompts) if prompts else None
    if file and file.has_limits and (max_tokens or "forward_tokens" in settings):
        raise FbragError("usage", f"{file.path} has length limits of its own", "leave out --max-tokens and forward-tokens")
    ways: list[tuple[str, str]] = []
    for preset in presets:
        own_method = PRESETS.get(preset, {}).get("method")
        ways += [(preset, name) for name in ([own_method] if own_method else methods)]
    found = []
    for preset, name in ways:
        method = find_method(name)
        smalls = small if method.needs_small else [None]
        own = {each: values for each, values in settings.items() if each in settings_of(method)}
        for values, of_small, retriever in product(product(*own.values()), smalls, retrievers):
            lists = dict(zip(own, values, strict=True))
            fixed = {"method": name, "retriever": retriever, "max_tokens": max_tokens or _ANSWER_TOKENS, "seed": seed}
            chosen = choose_method({**fixed, **lists}, {preset: True}, on_gpu=on_gpu)
            found.append(Configuration(chosen, of_small, large, retriever, chunk_words or method.chunk_words, file))
    names = list(dict.fromkeys(name for _, name in ways))
    for each in given:
        if not any(each in settings_of(find_method(name)) for name in names):
            what = f"{each} means nothing to {', '.join(names)}"
            raise FbragError("usage", what, f"leave out --set {each}, or choose another --method")
    return distinct(found)
