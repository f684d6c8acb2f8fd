"""Prompts of a benchmark or a paper instead of ours, from a file: one template a data set, or one for each task.

Two forms of JSON are read. LongBench's dataset2prompt.json: {"musique": "… {context} … {input} …", …}. And with templates for
each task and limits: {"prompts": {"musique": {"answer": …, "self_route": …, "forward": …}}, "max_new_tokens": {"musique": 32},
"forward_extra_tokens": 64}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.prompts import TASKS, Templates
from fbrag_cli.storage.files import read_small
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.suggest import closest

AnyMethod = TypeVar("AnyMethod", bound=Method)


@dataclass(frozen=True, slots=True)
class Task:
    """The prompts and limits of one data set. max_tokens, forward_tokens: of the answer and of a forward sample, where the file
    has them."""

    templates: Templates
    max_tokens: int | None = None
    forward_tokens: int | None = None

    def applied(self, method: AnyMethod) -> AnyMethod:
        """Return the method with these prompts, and with the limits among its settings."""
        limits = {"max_tokens": self.max_tokens, "forward_tokens": self.forward_tokens}
        names = {each.name for each in fields(method)}
        given: dict[str, Any] = {name: n for name, n in limits.items() if n and name in names}
        return replace(method, templates=self.templates, **given)


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
        for each in (name, name.removesuffix("_e")):
            if each in self.tasks:
                return self.tasks[each]
        if dataset is None and not self.chosen and len(self.tasks) == 1:
            return next(iter(self.tasks.values()))
        near = closest(name, self.tasks) or next(iter(self.tasks))
        what = f"no prompt for {one_line(name)}" if name else f"prompts for {len(self.tasks)} data sets"
        names = ", ".join(map(one_line, self.tasks))
        hint = f"name one: {self.path}:{one_line(near)}"
        raise FbragError("usage", f"{self.path} has {what}; it has {names}", hint)

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
        found = json.loads(data)
    except OSError as error:
        raise FbragError("usage", f"prompts {path}: {error.strerror}", "name a JSON file of prompts") from None
    except (ValueError, RecursionError) as error:
        raise FbragError("usage", f"prompts {path} is not JSON: {one_line(str(error))}", "name a JSON file of prompts") from None
    label = f"{Path(path).name} {sha256(data).hexdigest()[:8]}"
    try:
        tasks = _tasks(found, label)
    except ValueError as error:
        hint = 'its form is LongBench\'s: {"musique": "… {context} … {input} …"}'
        raise FbragError("usage", f"prompts {path}: {one_line(str(error))}", hint) from None
    file = PromptFile(path, label, tasks)
    if chosen is not None:
        file.of(chosen)
        file = replace(file, chosen=chosen, label=f"{file.label} {chosen}")
    return file


def _tasks(found: Any, label: str) -> dict[str, Task]:
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
            templates = Templates(**by_task, name=f"{label}, {name}")
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
