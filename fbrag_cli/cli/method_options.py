"""The options of the methods: those that all have, and the settings of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from fbrag_cli.cli.option import Option, looking, option, options_of
from fbrag_cli.cli.options import Layer, Options
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import DEFAULT, METHODS, all_settings, choose_method, chosen, find_method, names
from fbrag_cli.query import DEFAULT_RETRIEVER

_NAMES = tuple(sorted(names(), key=lambda name: name != DEFAULT))  # the default first
_OTHERS = ", ".join(f"{each.chunk_words} for {each.name}" for each in METHODS if each.chunk_words != Method.chunk_words)

#: The help of --chunk-words and --retriever, which `fbrag eval` has too.
CHUNK_WORDS = f"target words per chunk (default: {Method.chunk_words}; {_OTHERS})"
RETRIEVER = "how to rank chunks: bm25, or an embedding model (a GGUF file or a Hugging Face name) (default: bm25)"


class MethodOptions(Options):
    """The options that every method has, and all settings of the methods. Raises FbragError as `registry.chosen`."""

    group = "Method"

    method: str = option(
        DEFAULT,
        f"answering method (default: {DEFAULT}): {', '.join(each for each in _NAMES if each != DEFAULT)}",
        choices=_NAMES,
        metavar="NAME",
        varies="",
    )
    fast: bool = option(False, "draw no forward samples, about 0.8 of the time on a CPU: the same as -k 0")
    thorough: bool = option(False, "read more, about twice the time on a CPU: the same as -k 5 --select 8 (on a GPU --select 20)")
    chunk_words: int | None = option(None, CHUNK_WORDS, minimum=1)
    retriever: str = option(DEFAULT_RETRIEVER, RETRIEVER, metavar="NAME", varies="")
    borrowed: ClassVar[dict[str, Option]] = looking(all_settings(), "Method")

    def __init__(self, *layers: Layer) -> None:
        super().__init__(*layers)
        self._layers = layers
        self.method = chosen(*layers, typed=_typed).kind.name

    @property
    def words(self) -> int:
        """Words of a chunk: those that the user names, else those of the method."""
        return self.chunk_words or find_method(self.method).chunk_words

    def chosen(self, preset: str = "", *, on_gpu: bool) -> Method:
        """Return the method, with the defaults of this machine where the user gives no value. Raises FbragError `usage`.

        preset: one that a chat has set, with a slash; it counts more than the command line. "" for none.
        """

        def typed(name: str) -> str:
            return f"/{name}" if name == preset else _typed(name)

        layers: list[Layer] = [{preset: True}] if preset else []
        return choose_method(*self._layers, *layers, on_gpu=on_gpu, typed=typed)


def _typed(name: str) -> str:
    """Return the option of a name, as a user types it."""
    setting = options_of(MethodOptions).get(name)
    return setting.typed if setting else f"--{name}"


class ComparedOptions(Options):
    """The settings of the methods that an evaluation compares: each takes a list of values, by --set.

    lists: values by name. given: the names that the command line has.
    """

    borrowed: ClassVar[dict[str, Option]] = {
        name: replace(each, expert=True, separator=",") for name, each in MethodOptions.borrowed.items() if each.compared
    }

    def __init__(self, *layers: Layer) -> None:
        of_layers = [{name: values for name, values in layer.items() if name in self.borrowed} for layer in layers]
        self.lists: dict[str, list[Any]] = {name: values for layer in of_layers for name, values in layer.items()}
        self.given = [*of_layers[-1]]
