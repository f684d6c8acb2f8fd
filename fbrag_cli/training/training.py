"""The base class of all trainings, like `Method` for methods: settings, which become options; and the inputs and the folder of
their stages.

Each stage writes its component atomically. Stopped runs resume.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.installation import extra
from fbrag_cli.progress import Event, Listener, stage
from fbrag_cli.storage.files import not_writable, read_small, sha256_of, whole_file
from fbrag_cli.storage.rows import Row, RowFile, open_rows
from fbrag_cli.text.languages import detect
from fbrag_cli.text.printable import minutes
from fbrag_cli.version import version as fbrag_version

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fbrag_cli.methods.parts import PartsFormat
    from fbrag_cli.session.session import Session
    from fbrag_cli.training.rows import Material

Item = TypeVar("Item")
RowKey = TypeVar("RowKey", bound=Hashable)

_ANOTHER = "use another -o FOLDER"
#: Number of items, or seconds, after which the remaining time is reported.
_TIMED, _LATEST = 16, 60.0


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


# -- its stages ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Work:
    """The inputs of the stages.

    note: receives messages for the user. path: output folder. restart: whether to start over. at_once: number of replies that a
    model writes in shared batches, None for the fastest.
    """

    session: Session
    listener: Listener
    note: Callable[[str], None]
    path: Path
    material: Material
    restart: bool = False
    at_once: int | None = 1

    @property
    def language_model(self) -> dict[str, str]:
        """The name of the language model and the SHA-256 of its file; for a server, its URL and the name of its model."""
        (_, name), models = self.session.names(), self.session.models
        if (digest := models.digest(name)) is None:
            name, digest = map(str, models.identity(name)[:2])
        return {"name": name, "sha256": digest}

    def progress(self, items: Iterable[Item], unit: str, done: int, total: int) -> Iterator[Item]:
        """Yield the items, and report their number. Report once how long the rest will take.

        done: number of items from earlier runs. total: number of all items.
        """
        started, is_said = perf_counter(), False
        with stage("train", self.listener.progress):
            for n, item in enumerate(items, 1):
                yield item
                self.listener.progress(Event("train", "progress", done + n, total, unit))
                left, seconds = total - done - n, perf_counter() - started
                if not is_said and (n == _TIMED or seconds > _LATEST):
                    is_said, rest = True, seconds / n * left
                    if left > 2 * n and rest > _LATEST:
                        self.note(f"about {minutes(rest)} left ({left:,} {unit}, {seconds / n:.1f} s each)")

    def is_made(self, folder: Folder, stage: str, inputs: Mapping[str, Any], checkpoint: Path) -> bool:
        """Return whether an earlier run has finished a stage with these inputs. With `restart`, delete its checkpoint instead."""
        if self.restart:
            checkpoint.unlink(missing_ok=True)
            return False
        if made := folder.is_made(stage, inputs):
            self.note(f"{stage}: already done")
        return made


def languages_of(texts: Sequence[str]) -> list[str]:
    """Return the main language of the texts (ISO 639-1) in a list, which is empty if it is unknown."""
    return sorted({detect(" ".join(texts[:: max(1, len(texts) // 200)]))} - {""})


# -- the folder ----------------------------------------------------------------------------------------------------------------


class Folder:
    """Reads and writes a folder of trained components. about: content of its record, empty for a new folder.

    Methods that write raise FbragError `output` if they fail.
    """

    def __init__(self, path: Path, kind: PartsFormat) -> None:
        self.path, self.kind = path, kind
        self._record, self._tensors = path / kind.record, path / kind.tensors
        try:
            self.about: dict[str, Any] = json.loads(read_small(self._record))
        except FileNotFoundError:
            self.about = {}
        except (OSError, ValueError, RecursionError) as error:
            raise FbragError("usage", f"{self._record} cannot be read: {error}", _ANOTHER) from None
        if not isinstance(self.about, dict):
            raise FbragError("usage", f"{self._record} is not a record of trained components", _ANOTHER)

    def is_made(self, stage: str, inputs: Mapping[str, Any]) -> bool:
        """Return whether a stage was finished with these inputs, and its files are unchanged."""
        made, files = self.about.get("training", {}).get(stage, {}), self.about.get("files", {})
        if made.get("inputs") != inputs:
            return False
        paths = {self.path / name: files[name] for name in made.get("files", ())}
        return all(path.is_file() and sha256_of(path) == digest for path, digest in paths.items())

    def put(self, stage: str, inputs: Mapping[str, Any], report: Mapping[str, Any], *names: str, **settings: Any) -> None:
        """Record a finished stage. names: names of its files. settings: top-level entries of the record, such as "detector"."""
        training = {**self.about.get("training", {}), stage: {"inputs": dict(inputs), "files": [*names], **report}}
        versions = {name: version(name) for name in ("llama-cpp-python", "numpy")} | {"fbrag": fbrag_version()}
        with writing(self.path):
            files = {**self.about.get("files", {}), **{name: sha256_of(self.path / name) for name in names}}
            made = {"files": files, "training": training, "versions": versions}
            self.about = {"format": self.kind.format, **self.about, **settings, **made}
            with whole_file(self._record) as part:
                part.write_text(json.dumps(self.about, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def put_tensors(self, prefix: str, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Replace the tensors whose names begin with `prefix`. The others are kept."""
        import numpy as np
        from safetensors.numpy import load_file, save

        others = load_file(self._tensors) if self._tensors.exists() else {}
        kept = {name: tensor for name, tensor in others.items() if not name.startswith(prefix)}
        with writing(self.path), whole_file(self._tensors) as part:
            part.write_bytes(save({**kept, **{name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}}))

    def drop(self, *stages: str) -> None:
        """Delete the tensors of stages, and remove these from the record, which the next `put` writes. Settings are named like
        stages."""
        with writing(self.path):
            self._tensors.unlink(missing_ok=True)
        kept = {name: value for name, value in self.about.items() if name not in stages}
        for name, left_out in (("files", (self.kind.tensors,)), ("training", stages)):
            kept[name] = {key: value for key, value in self.about.get(name, {}).items() if key not in left_out}
        self.about = kept

    @contextmanager
    def rows(
        self, name: str, head: Mapping[str, Any], key_of: Callable[[Row], RowKey], *, restart: bool = False
    ) -> Iterator[tuple[RowFile, dict[RowKey, Row]]]:
        """Context manager: open a row file to resume it, and yield it with the rows of earlier runs by key.

        head: first row of the file, with `schema`, `kind` "run", everything on which the other rows depend and, if they depend on
        data files, `data`: the files' SHA-256 by name. Data files may later be added or dropped, because a row depends only on
        the file of its question; the head is rewritten if there are new files. restart: start with an empty file.

        Raises FbragError `usage` for the file of another run, or of other rows.
        """
        path, another = self.path / name, f"{_ANOTHER}, or --restart to overwrite it"
        with open_rows(path, head["schema"], restart=restart) as file:
            heads = [row for row in file.rows if row.get("kind") == "run"] or file.rows[:1]
            try:
                data = {name: digest for each in heads for name, digest in each.get("data", {}).items()}
                differing = [what for each in heads for what in _differing(each, head)]
                before: dict[RowKey, Row] = {key_of(row): row for row in file.rows if row not in heads}
            except (AttributeError, LookupError, TypeError):
                raise FbragError("usage", f"{path} is not a file of such rows", another) from None
            if differing:
                raise FbragError("usage", f"{path} was written by another run ({'; '.join(differing)})", another)
            if not heads or head.get("data", {}).keys() - data.keys():
                file.write(head)
            yield file, before

    def head_of(self, name: str) -> Row:
        """Return the first row of a file; an empty one if there is no complete row."""
        try:
            with (self.path / name).open("rb") as file:
                row = json.loads(file.readline())
        except (OSError, ValueError, RecursionError):
            return {}
        return row if isinstance(row, dict) else {}


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Context manager: create the folder if it is missing, and turn an OSError into FbragError `output`."""
    try:
        folder.mkdir(exist_ok=True)
        yield
    except OSError as error:
        raise not_writable(folder, error, "output", _ANOTHER) from None


def _differing(before: Row, head: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences to the head of an earlier run, in words."""
    for name, value in head.items():
        if name != "data" and before.get(name) != value:
            yield f"{name} {before.get(name)}, now {value}"
    for name, digest in before.get("data", {}).items():
        if head.get("data", {}).get(name, digest) != digest:
            yield f"{name} has changed"
