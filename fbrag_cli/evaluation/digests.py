"""What a result row was made of beside its configuration: a run that goes on refuses rows of other questions and models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.storage.rows import Row

#: What to do where an output holds rows of something else.
ANOTHER = "name another -o FILE, or add --restart"


class Digests:
    """identity: returns what identifies a model's file, or a server, by the model's name."""

    def __init__(self, identity: Callable[[str], Sequence[object]]) -> None:
        self._identity, self._models = identity, dict[str, str]()

    def of(self, example: Example, models: Mapping[str, str]) -> dict[str, str]:
        """Return 12 hex digits of the example and of each model. models: names by role, "small" and "large"."""
        return {"example": _digest(repr(example)), **{role: self._of(models[role]) for role in models}}

    def check(self, row: Row, example: Example, models: Mapping[str, str], output: Path) -> None:
        """Raise FbragError `usage` where a row of `output` was made of something else. A row without digests is an older one."""
        before, now = row.get("digests") or {}, self.of(example, models)
        for name, digest in now.items():
            if before.get(name, digest) != digest:
                what = f"{example.id} of {example.dataset}" if name == "example" else f"the {name} model {models[name]}"
                raise FbragError("usage", f"{what} has changed since {output} got rows of it", ANOTHER)

    def _of(self, model: str) -> str:
        if model not in self._models:
            self._models[model] = _digest(repr(self._identity(model)))
        return self._models[model]


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
