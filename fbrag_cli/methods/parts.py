"""A folder of trained parts: a record (JSON) that names its other files by their SHA-256. Pickles are never read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import read_regular, sha256_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_RECORD = 1_000_000  # bytes
_LARGEST_TENSORS = 256_000_000
_LARGEST_MODEL = 2_000_000_000  # a scorer, an adapter
_LARGEST_HEADER = 1_000_000  # of the tensors
_ANEW = "copy the folder again, or train it again"


@dataclass(frozen=True, slots=True)
class PartsFormat:
    """The format of a folder.

    title: the method's name, for errors. format: its name in the record. record, tensors: names of files.
    """

    title: str
    format: str
    record: str
    tensors: str

    def read(self, folder: Path, fits: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
        """Return the record of a folder. fits: returns whether the record is complete.

        Raises FbragError: model_missing without one; model_corrupt for another format, or if it does not fit.
        """
        path = folder / self.record
        try:
            about = json.loads(read_regular(path, _LARGEST_RECORD))
        except OSError as error:
            what = f"{folder} has no trained components of {self.title}: {self.record} cannot be read ({error.strerror or error})"
            raise FbragError("model_missing", what, "train them: fbrag train --help") from None
        except (ValueError, RecursionError):
            refuse(path, "it is not JSON")
        if not isinstance(about, dict) or about.get("format") != self.format:
            refuse(path, f"its format is not {self.format}")
        if not fits(about):
            refuse(path, "it lacks what it should name")
        return about

    def check_files(self, folder: Path, files: Mapping[str, str]) -> None:
        """Raise FbragError for a file that is missing (model_missing), or not the one that the record names (model_corrupt)."""
        for name, expected in files.items():
            path = folder / name
            try:
                digest = sha256_of(path, most=_LARGEST_TENSORS if name == self.tensors else _LARGEST_MODEL)
            except OSError as error:
                raise FbragError("model_missing", f"{path} cannot be read: {error.strerror or error}", _ANEW) from None
            if digest != expected:
                refuse(path, f"its SHA-256 is {digest}, and {self.record} names {expected}")

    def described(self, folder: str) -> str:
        """Return a folder's name with a part of its record's SHA-256. As a setting, its content counts, not its path."""
        try:
            return f"{Path(folder).name} {sha256_of(Path(folder) / self.record, most=_LARGEST_RECORD)[:12]}"
        except OSError:
            return folder


def is_files(files: object, allowed: set[str], needed: set[str]) -> bool:
    """Return whether a record's "files" are of allowed names, each with its SHA-256."""
    if not isinstance(files, dict) or not needed <= files.keys() <= allowed:
        return False
    return all(isinstance(digest, str) for digest in files.values())


def is_texts(value: object, *keys: str) -> bool:
    """Return whether a value is an object with a text for each of the keys; without keys, a list of texts."""
    if keys:
        return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in keys)
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def is_number(value: object) -> bool:
    """Return whether a value is a number that a float can hold, and neither NaN nor infinite."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def is_count(value: object) -> bool:
    """Return whether a value is an integer from 1."""
    return type(value) is int and value > 0


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file. Raises FbragError model_corrupt for another file, and for numbers that
    float32 cannot hold."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    try:
        data = read_regular(path, _LARGEST_TENSORS)
        if int.from_bytes(data[:8], "little") > _LARGEST_HEADER:
            raise ValueError(f"its header exceeds {_LARGEST_HEADER // 1_000_000} MB")
        tensors = parse(data)
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        refuse(path, f"it is not a safetensors file ({error})")
    with np.errstate(over="ignore"):
        if not all(np.isfinite(tensor.astype(np.float32)).all() for tensor in tensors.values()):
            refuse(path, "it has invalid (NaN) or too large numbers")
    return tensors


def refuse(path: Path, what: str) -> NoReturn:
    """Raise FbragError model_corrupt for a file."""
    raise FbragError("model_corrupt", f"{path} cannot be used: {what}", _ANEW)
