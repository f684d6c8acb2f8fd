"""A folder of trained parts as it is being made: a stage puts its part in whole, or leaves the folder as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli import __version__
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.parts import Kind
from fbrag_cli.storage.files import not_writable, read_small, sha256_of, whole_file

Tensors = Mapping[str, NDArray[Any]]

_ANOTHER = "choose another -o FOLDER"


class Folder:
    """Reads and writes the files of a folder. about: the content of its record, empty in a new folder.

    What writes raises FbragError `output` where it cannot.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path, self.kind = path, kind
        self._record, self._tensors = path / kind.record, path / kind.tensors
        try:
            self.about: dict[str, Any] = json.loads(read_small(self._record))
        except FileNotFoundError:
            self.about = {}
        except (OSError, ValueError, RecursionError) as error:
            raise FbragError("usage", f"{self._record} cannot be read: {error}", _ANOTHER) from None
        if not isinstance(self.about, dict):
            raise FbragError("usage", f"{self._record} is no record of trained parts", _ANOTHER)

    def is_made(self, stage: str, inputs: Mapping[str, Any]) -> bool:
        """Return whether a stage was finished with these inputs, and its file is the one that it wrote."""
        told = self.about.get("training", {}).get(stage, {})
        files = self.about.get("files", {})
        return bool(told.get("inputs") == inputs and all(self._is_there(name, files[name]) for name in told.get("files", ())))

    def put(self, stage: str, inputs: Mapping[str, Any], report: Mapping[str, Any], *names: str, **settings: Any) -> None:
        """Record a finished stage. names: of its files. settings: top-level entries of the record, as "detector"."""
        training = {**self.about.get("training", {}), stage: {"inputs": dict(inputs), "files": [*names], **report}}
        with self._writing():
            files = {**self.about.get("files", {}), **{name: sha256_of(self.path / name) for name in names}}
        versions = {name: version(name) for name in ("llama-cpp-python", "numpy")} | {"fbrag": __version__}
        self.about = {
            "format": self.kind.format,
            **self.about,
            **settings,
            "files": files,
            "training": training,
            "versions": versions,
        }
        with self._writing(), whole_file(self._record) as part:
            part.write_text(json.dumps(self.about, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def put_tensors(self, prefix: str, tensors: Tensors) -> None:
        """Write tensors whose names begin with `prefix`, in place of those that are there. The others stay."""
        from safetensors.numpy import load_file, save

        others = load_file(self._tensors) if self._tensors.exists() else {}
        kept = {name: tensor for name, tensor in others.items() if not name.startswith(prefix)}
        with self._writing(), whole_file(self._tensors) as part:
            part.write_bytes(save({**kept, **{name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}}))

    def drop(self, *stages: str) -> None:
        """Delete the tensors, and take stages out of the record, which the next `put` writes. Settings go by a stage's name."""
        with self._writing():
            self._tensors.unlink(missing_ok=True)
        kept = {name: value for name, value in self.about.items() if name not in stages}
        for name, left_out in (("files", (self.kind.tensors,)), ("training", stages)):
            kept[name] = {key: value for key, value in self.about.get(name, {}).items() if key not in left_out}
        self.about = kept

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.path.mkdir(exist_ok=True)
            yield
        except OSError as error:
            raise not_writable(self.path, error, "output", _ANOTHER) from None

    def _is_there(self, name: str, digest: str) -> bool:
        path = self.path / name
        return path.is_file() and sha256_of(path) == digest
