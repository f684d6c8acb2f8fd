"""How a benchmark asks: with the choices of a question, and with prompts of a benchmark or a paper instead of ours, from a file
that has one template for a data set, or one for each task.

Two forms of JSON are read. LongBench's dataset2prompt.json: {"musique": "… {context} … {input} …", …}. And with templates for
each task and limits: {"prompts": {"musique": {"answer": …, "self_route": …, "forward": …}}, "max_new_tokens": {"musique": 32},
"forward_extra_tokens": 64}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from string import Formatter, ascii_uppercase
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Message
from fbrag_cli.methods.fb_rag.baselines import SelfRoute
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.prompts import BETWEEN
from fbrag_cli.storage.files import read_small
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.suggest import closest
from fbrag_cli.trace import Trace

TASKS = ("answer", "self_route", "forward")
_FIELDS = ("context", "input", "all_classes")


@dataclass(frozen=True, slots=True)
class Templates:
    """Prompts instead of ours, None for ours: texts with `{context}`, and `{input}` for the question. The choices follow the
    question, a line each: `{all_classes}`, and a line break before it, are left out. `{{` is a brace.

    Raises ValueError for a template without a context, with other fields, or with a single brace.
    """

    answer: str | None = None
    self_route: str | None = None
    forward: str | None = None

    def __post_init__(self) -> None:
        for template in (self.answer, self.self_route, self.forward):
            if template is None:
                continue
            fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
            if unknown := [field for field in fields if field not in _FIELDS]:
                raise ValueError(f"{{{unknown[0]}}} is not one of {', '.join(f'{{{field}}}' for field in _FIELDS)}")
            if "context" not in fields:
                raise ValueError("a prompt without {context}")


@dataclass(frozen=True, slots=True)
class Task:
    """The prompts and limits of one data set. max_tokens, forward_tokens: of the answer and of a forward sample, where the file
    has them."""

    templates: Templates = Templates()
    max_tokens: int | None = None
    forward_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class PromptFile:
    """The prompts of a file. tasks: by data set. chosen: the data set whose prompts count for all, where the user named one.
    label: identifies the file by name and content.
    """

    path: str
    label: str
    tasks: Mapping[str, Task]
    chosen: str | None = None

    def of(self, dataset: str | None = None) -> Task:
        """Return the prompts for a data set (LongBench-E's has the prompt of the whole), or the only ones.

        Raises FbragError `usage`.
        """
        name = self.chosen or dataset or ""
        for task in (name, name.removesuffix("_e")):
            if task in self.tasks:
                return self.tasks[task]
        if dataset is None and not self.chosen and len(self.tasks) == 1:
            return next(iter(self.tasks.values()))
        near = closest(name, self.tasks) or next(iter(self.tasks))
        lacking = f"no prompt for {one_line(name)}" if name else f"prompts for {len(self.tasks)} data sets"
        names = ", ".join(map(one_line, self.tasks))
        hint = f"name one: {self.path}:{one_line(near)}"
        raise FbragError("usage", f"{self.path} has {lacking}; it has {names}", hint)

    @property
    def has_limits(self) -> bool:
        return any(task.max_tokens for task in self.tasks.values())


def read_prompt_file(value: str) -> PromptFile:
    """Read the file that `value` names, as "FILE" or "FILE:DATA SET". Raises FbragError `usage`."""
    path, chosen = value, None
    if not os.path.exists(value) and ":" in value:  # a name may be too long for a file
        path, _, chosen = value.rpartition(":")
    try:
        data = read_small(Path(path))
        parsed = json.loads(data)
    except OSError as error:
        raise FbragError("usage", f"prompts {path}: {error.strerror}", "name a JSON file of prompts") from None
    except (ValueError, RecursionError) as error:
        raise FbragError("usage", f"prompts {path} is not JSON: {one_line(str(error))}", "name a JSON file of prompts") from None
    label = f"{Path(path).name} {sha256(data).hexdigest()[:8]}"
    try:
        tasks = _tasks(parsed)
    except ValueError as error:
        hint = 'its form is LongBench\'s: {"musique": "… {context} … {input} …"}'
        raise FbragError("usage", f"prompts {path}: {one_line(str(error))}", hint) from None
    file = PromptFile(path, label, tasks)
    if chosen is not None:
        file.of(chosen)
        file = replace(file, chosen=chosen, label=f"{file.label} {chosen}")
    return file


def _tasks(found: Any) -> dict[str, Task]:
    if not isinstance(found, dict):
        raise ValueError("not an object")
    prompts, limits, extra = found, {}, 0
    if isinstance(found.get("prompts"), dict):
        prompts, limits = found["prompts"], _object(found, "max_new_tokens")
        extra = _count(found.get("forward_extra_tokens", 0), "forward_extra_tokens")
    tasks = {}
    for name, prompt in prompts.items():
        by_task = {"answer": prompt} if isinstance(prompt, str) else prompt
        if not isinstance(by_task, dict) or not by_task or not all(isinstance(text, str) for text in by_task.values()):
            raise ValueError(f"{name} is neither a text nor an object of texts")
        if unknown := set(by_task) - set(TASKS):
            raise ValueError(f"{name}: {sorted(unknown)[0]!r} is not one of {', '.join(TASKS)}")
        try:
            templates = Templates(**by_task)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        most = _count(limits[name], f"max_new_tokens, {name}") if name in limits else None
        tasks[name] = Task(templates, most, None if most is None else most + extra)
    if not tasks:
        raise ValueError("it has no prompts")
    return tasks


def _object(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is not a number of tokens")
    return value


# -- a method that asks so ---------------------------------------------------------------------------------------------------


def asking(method: Method, task: Task, choices: tuple[str, ...] = ()) -> Method:
    """Return the method with the prompts and the limits of a task, and with the choices of a question in its prompts.

    Retrieval does not see the choices. A template has a context: a prompt of the method that has none stays ours.
    """
    limits = {"max_tokens": task.max_tokens, "forward_tokens": task.forward_tokens}
    names = {each.name for each in fields(method)}
    given: dict[str, Any] = {name: n for name, n in limits.items() if n and name in names}
    if not choices and task.templates == Templates():
        return replace(method, **given)
    values = {each.name: getattr(method, each.name) for each in fields(method)} | given
    if isinstance(method, FBRag) and method.order == "auto" and (task.templates.forward or task.templates.answer):
        values["order"] = "document"  # the two prompts begin otherwise, so no reading is saved
    return _asking(type(method))(**values, templates=task.templates, choices=choices)  # type: ignore[call-arg]


@cache
def _asking(kind: type[Method]) -> type[Method]:
    own = [("templates", Templates), ("choices", tuple[str, ...])]
    return make_dataclass(kind.__name__, own, bases=(_Asking, kind), frozen=True, slots=True, kw_only=True)


class _Asking(Method):
    """The prompts of a method by the templates, and with the choices."""

    __slots__ = ()
    templates: Templates
    choices: tuple[str, ...]

    def forward_messages(self, question: str, texts: Sequence[str], language: str) -> tuple[Message, ...]:
        """Return the prompt of Stage II of FB-RAG."""
        if self.templates.forward:
            return (filled(self.templates.forward, texts, self._lettered(question)),)
        return super().forward_messages(self._lettered(question), texts, language)  # type: ignore[misc, no-any-return]

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        template = self.templates.self_route if isinstance(self, SelfRoute) else self.templates.answer
        if template and (passages := self.passages(trace)):
            return (filled(template, passages, self._lettered(trace.question)),)
        return super().messages(self._with_choices(trace))

    def support_messages(self, trace: Trace, answer: str) -> tuple[Message, ...]:
        return super().support_messages(self._with_choices(trace), answer)

    def fallback(self, trace: Trace) -> tuple[Method, Trace] | None:
        if not (asked := super().fallback(trace)):
            return None
        return asking(asked[0], Task(self.templates), self.choices), asked[1]

    def _with_choices(self, trace: Trace) -> Trace:
        return replace(trace, query=replace(trace.query, text=self._lettered(trace.question)))

    def _lettered(self, question: str) -> str:
        """Return the question with the choices, a line each."""
        lettered = zip(ascii_uppercase, self.choices, strict=False)
        return "\n".join([question, *(f"{letter}. {choice}" for letter, choice in lettered)])


def filled(template: str, texts: Sequence[str], question: str) -> Message:
    """Return the message of a template. texts: those of its context; only the first `{context}` is shared by other prompts."""
    values = {"context": BETWEEN.join(texts), "input": question, "all_classes": ""}
    read, asked = list[str](), ""
    for literal, field, _, _ in Formatter().parse(template):
        words = literal.removesuffix("\n") if field == "all_classes" else literal
        if field == "context" and not read:
            read, asked = [asked + words, values[field]], ""
        else:
            asked += words + (values[field] if field else "")
    return Message.about(read, asked)
