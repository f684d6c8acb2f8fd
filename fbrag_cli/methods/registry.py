"""One module for each system of the papers: a question and a corpus become a `Trace`.

Each has two functions, so that what needs no large model runs without one:
`select(question, corpus, retriever, small, settings, progress) -> Trace`: which chunks, and why; no answer yet.
`answer(trace, large, progress) -> Trace`: the answer of the large model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, get_args

from fbrag_cli.corpus import Corpus
from fbrag_cli.generation.generator import Generator
from fbrag_cli.progress import Progress
from fbrag_cli.retrieval import Retriever
from fbrag_cli.trace import MethodSettings, Trace

Name = Literal["fb-rag", "order-preserving", "vanilla", "long-context", "self-route"]
NAMES: tuple[Name, ...] = get_args(Name)

#: Those whose `select` asks the small model.
LOOK_FORWARD = ("fb-rag",)

Select = Callable[[str, Corpus, Retriever, "Generator | None", MethodSettings, Progress], Trace]
Answer = Callable[[Trace, Generator, Progress], Trace]


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    select: Select
    answer: Answer

    @property
    def looks_forward(self) -> bool:
        return self.name in LOOK_FORWARD


def find_method(name: str) -> Method:
    """The method of this name. Its module is imported now. Raises KeyError."""
    if name not in NAMES:
        raise KeyError(name)
    module = import_module(f"fbrag_cli.methods.{name.replace('-', '_')}")
    return Method(name, module.select, module.answer)
