"""The options of the methods: those that all have, and the settings of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from fbrag_cli.cli.options import Layer, Options
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import DEFAULT, METHODS, all_settings, choose_method, find_method, names, resolved
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.settings import Setting, knob

_NAMES = tuple(sorted(names(), key=lambda name: name != DEFAULT))  # the default first
_OTHERS = ", ".join(f"{each.chunk_words} for {each.name}" for each in METHODS if each.chunk_words != Method.chunk_words)

#: The help of --chunk-words and --retriever, which `fbrag eval` has too.
CHUNK_WORDS = f"about how many words a chunk has ({Method.chunk_words}; {_OTHERS})"
RETRIEVER = "what ranks the chunks: bm25, or an embedding model: a GGUF file, a name of the hub (bm25)"


class MethodOptions(Options):
    """The options that every method has, and all settings of the methods. Raises FbragError as `registry.resolved`."""

    group = "Method"

    method: str = knob(DEFAULT, f"way to answer: {', '.join(_NAMES)}", choices=_NAMES, metavar="NAME", varies="")
    fast: bool = knob(False, "retrieve by the question alone, answer without a check: one model call, 0.6 of the time")
    thorough: bool = knob(False, "answer from 10 chunks (as on a GPU): more evidence, 1.6 times as long")
    chunk_words: int | None = knob(None, CHUNK_WORDS, minimum=1)
    retriever: str = knob(DEFAULT_RETRIEVER, RETRIEVER, metavar="NAME", varies="")
    prompts: str | None = knob(
        None, "file with a benchmark's prompts: JSON; FILE:NAME where it has several", metavar="FILE", expert=True, varies="ours"
    )
    borrowed: ClassVar[dict[str, Setting]] = all_settings()

    def __init__(self, *layers: Layer) -> None:
        super().__init__(*layers)
        self._layers = layers
        self.method = resolved(*layers)["method"]

    @property
    def words(self) -> int:
        """Words of a chunk: those that the user names, else those of the method."""
        return self.chunk_words or find_method(self.method).chunk_words

    def chosen(self, *, on_gpu: bool) -> Method:
        """Return the method, with the defaults of this machine where the user gives no value. Raises FbragError `usage`."""
        return choose_method(*self._layers, on_gpu=on_gpu)


class ComparedOptions(Options):
    """The settings of the methods that an evaluation compares: each takes a list of values, by --set.

    lists: values by name. given: the names that the command line has.
    """

    borrowed: ClassVar[dict[str, Setting]] = {
        name: replace(each, expert=True, separator=",") for name, each in all_settings().items() if each.compared
    }

    def __init__(self, *layers: Layer) -> None:
        of_layers = [{name: values for name, values in layer.items() if name in self.borrowed} for layer in layers]
        self.lists: dict[str, list[Any]] = {name: values for layer in of_layers for name, values in layer.items()}
        self.given = [*of_layers[-1]]
