"""The base of all trainings, as `Method` is that of all methods: settings that make the options, and the way to run it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from fbrag_cli.errors import FbragError
from fbrag_cli.installation import extra
from fbrag_cli.settings import knob

if TYPE_CHECKING:
    from fbrag_cli.training.rows import Material
    from fbrag_cli.training.stages import Work


def option(default: Any, help: str, **about: Any) -> Any:
    """A field that is an option of one training, and of no environment variable. about: fields of `Setting`."""
    return knob(default, help, group="Training", variables=(), **about)


def folder(default: str) -> Any:
    """A field that names the folder of what is made."""
    return knob(default, "folder of what is made", flags=("-o", "--output"), group="Output", metavar="FOLDER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Trains the small parts of a method for a language model, which stays as it is. Its fields are settings.

    output: folder of what is made. name: word after `fbrag train`. example: a command line without `fbrag train`. help: text of
    --help. first: options that --help shows, beside those of all trainings. is_parallel: whether it takes --parallel.
    """

    output: str

    name: ClassVar[str]
    example: ClassVar[str]
    help: ClassVar[str]
    first: ClassVar[str]
    is_parallel: ClassVar[bool] = False

    def check(self) -> None:
        """Raise FbragError `usage` for settings that exclude each other, or where a package is missing."""
        if missing := [name for name in ("torch", "transformers", "peft", "gguf") if find_spec(name) is None]:
            raise FbragError("usage", f"training needs {', '.join(missing)}", extra("train"))

    def check_rows(self, material: Material) -> None:
        """Raise FbragError `usage` where the rows cannot be enough."""

    def run(self, work: Work) -> None:
        """Train the parts, and write them to the folder. A training that was stopped goes on."""
        raise NotImplementedError
