"""Configurations: the columns of an evaluation. Each is a method with its settings, its models and its retriever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.labels import key
from fbrag_cli.methods.choosing import PLAIN, PRESETS, method_with, preset_settings
from fbrag_cli.methods.knobs import Setting, settings_of
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.prompt_file import PromptFile, read_prompt_file
from fbrag_cli.methods.registry import all_settings, find_method
from fbrag_cli.query import ModelNames

_ANSWER_TOKENS = 64  # of most benchmarks
_HELP = "fbrag eval --help"


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
    retriever: str = "bm25"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What an evaluation compares. Lists are texts, with commas between the values.

    methods, presets, small, retrievers: lists of names. settings: lists of values, by the names of settings. large: the model
    that answers, None where nothing is answered. chunk_words: words in a chunk, None for the number of each method. prompts: a
    file of prompts, or None. max_tokens: length limit of an answer in tokens, None for that of `prompts`, else 64. seed: seed of
    the samples.
    """

    methods: str
    presets: str
    small: str
    retrievers: str
    large: str | None
    settings: Mapping[str, str]
    chunk_words: int | None
    prompts: str | None
    max_tokens: int | None
    seed: int

    def configurations(self, *, on_gpu: bool) -> list[Configuration]:
        """Return every combination of the lists that a method reads, with the settings of each preset.

        on_gpu: whether the models run on a GPU. Raises FbragError `usage` for a name, a value or a file that cannot be used.
        """
        prompts = read_prompt_file(self.prompts) if self.prompts else None
        if prompts and prompts.has_limits and (self.max_tokens or "forward_tokens" in self.settings):
            what = f"{prompts.path} has length limits of its own"
            raise FbragError("usage", what, "leave out --max-tokens and --forward-tokens")
        fixed = {"max_tokens": self.max_tokens or _ANSWER_TOKENS, "seed": self.seed}
        found = []
        for preset, name in self._ways():
            method = find_method(name)
            words = self.chunk_words or method.chunk_words
            smalls = _split(self.small) if method.needs_small else [None]
            lists = {each: listed_values(all_settings()[each], text) for each, text in self.settings.items()}
            own = {each: values for each, values in lists.items() if each in settings_of(method)}
            for values, small, retriever in product(product(*own.values()), smalls, _split(self.retrievers)):
                given = {**fixed, **dict(zip(own, values, strict=True)), **preset_settings(preset, retriever)}
                chosen = method_with(method, given, on_gpu=on_gpu)
                found.append(Configuration(chosen, small, self.large, retriever, words, prompts))
        return distinct(found)

    def _ways(self) -> Iterator[tuple[str, str]]:
        """Yield each preset with each method, or with its own. Raises FbragError `usage` for an unknown preset."""
        for preset in _split(self.presets):
            if preset not in (PLAIN, *PRESETS):
                what = f"--preset {self.presets}: {preset!r} is none of {', '.join((PLAIN, *PRESETS))}"
                raise FbragError("usage", what, _HELP)
            own = PRESETS.get(preset, {}).get("method")
            yield from ((preset, method) for method in ([own] if own else _split(self.methods)))


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",")))


def listed_values(setting: Setting, text: str) -> list[Any]:
    """Parse a list of values such as "3,5,10". Raises FbragError `usage`."""
    return list(dict.fromkeys(_value(setting, part, text) for part in _split(text)))


def _value(setting: Setting, part: str, text: str) -> Any:
    if (value := setting.parsed(part)) is None:
        raise FbragError("usage", f"{setting.option} {text}: {part!r} is not {setting.expects}", _HELP)
    return value
