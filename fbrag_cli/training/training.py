"""The base class of all trainings, like `Method` for methods: settings, which become options, and the run."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from fbrag_cli.errors import FbragError
from fbrag_cli.installation import extra

if TYPE_CHECKING:
    from fbrag_cli.training.rows import Material
    from fbrag_cli.training.stages import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Trains the components of a method for a language model, which is not changed. Its fields are settings.

    output: output folder. name: word after `fbrag train`. example: a command line without `fbrag train`. help: text of --help.
    first: options that --help shows besides the common ones. is_parallel: whether it has --jobs.
    """

    output: str

    name: ClassVar[str]
    example: ClassVar[str]
    help: ClassVar[str]
    first: ClassVar[str]
    is_parallel: ClassVar[bool] = False

    def check(self) -> None:
        """Raise FbragError `usage` for conflicting settings, or if a package is missing."""
        if missing := [name for name in ("torch", "transformers", "peft", "gguf") if find_spec(name) is None]:
            raise FbragError("usage", f"not installed: {', '.join(missing)} (needed for training)", extra("train"))

    def check_rows(self, material: Material) -> None:
        """Raise FbragError `usage` if the rows cannot be enough."""

    def run(self, work: Work) -> None:
        """Train the components, and write them to the folder. Resumes a stopped training."""
        raise NotImplementedError
