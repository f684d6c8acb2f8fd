"""The catalogue of named models, with their sizes, checksums and sources. The data is catalogue.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fbrag_cli.models.hub import HubSource
from fbrag_cli.models.part import ModelSource
from fbrag_cli.models.wheels import WheelPart, WheelSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the catalogue.

    file: name of its file in a store. bytes, sha256: size and SHA-256 (hex) of that file. context: longest context in tokens.
    sources: places to fetch it from, the best first. kv_bytes: bytes of KV cells for a token, in 16 bits; 0 where unknown.
    """

    id: str
    file: str
    bytes: int
    sha256: str
    quantization: str
    context: int
    architecture: str
    parameters: str
    licence: str
    sources: tuple[ModelSource, ...]
    kv_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A small and a large model, perhaps the same. gpu_only: whether they are too slow on a CPU."""

    small: ModelEntry
    large: ModelEntry
    gpu_only: bool = False

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """The models, each once."""
        return (self.small,) if self.small.id == self.large.id else (self.small, self.large)

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(entry.bytes for entry in self.models)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All models by id, in the order of lists.

    default_small, default_large: ids of the default pair, perhaps the same. pairs: pairs that need more memory than the default,
    the one that needs least first.
    """

    models: Mapping[str, ModelEntry]
    default_small: str
    default_large: str
    pairs: tuple[Pair, ...] = ()

    @property
    def default(self) -> Pair:
        return Pair(self.models[self.default_small], self.models[self.default_large])

    def find(self, name: str) -> ModelEntry | None:
        """Return the entry with this id (in any letter case) or file name, None if there is none."""
        return next((entry for entry in self.models.values() if name.casefold() == entry.id or name == entry.file), None)


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue of the package."""
    data = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    entries = [ModelEntry(**each | {"sources": tuple(map(_source, each["sources"]))}) for each in data["models"]]
    models = {entry.id: entry for entry in entries}
    pairs = tuple(Pair(models[each["small"]], models[each["large"]], each.get("gpu_only", False)) for each in data["pairs"])
    return Catalogue(MappingProxyType(models), data["defaults"]["small"], data["defaults"]["large"], pairs)


def _source(data: dict[str, Any]) -> ModelSource:
    if "hub" in data:
        return HubSource(**data["hub"])
    wheels = data["wheels"]
    return WheelSource(tuple(WheelPart(version=wheels["version"], **part) for part in wheels["parts"]))
