"""The catalog of named models, with their sizes, checksums and sources. The data is catalog.json."""

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
    """A model of the catalog.

    file: name of its file in a store. bytes, sha256: size and SHA-256 (hex) of that file. context: longest context in tokens.
    parameters, active_parameters: number of its parameters ("35B"), and of those that read a token ("3B"); "" for all.
    sources: places to fetch it from, the best first. kv_bytes: bytes of KV cells for a token, in 16 bits, of the layers that have
    cells; 0 where unknown. state_bytes: bytes of the state that the other layers keep for a sequence, however long it is.
    replaced_by: id of a newer model that lists show in its place, "" for none.
    """

    id: str
    file: str
    bytes: int
    sha256: str
    quantization: str
    context: int
    architecture: str
    parameters: str
    license: str
    sources: tuple[ModelSource, ...]
    kv_bytes: int = 0
    state_bytes: int = 0
    active_parameters: str = ""
    replaced_by: str = ""

    @property
    def active_bytes(self) -> int:
        """The bytes of the weights that one token is read with: all, or the active experts' share."""
        if not self.active_parameters:
            return self.bytes
        return round(self.bytes * float(self.active_parameters[:-1]) / float(self.parameters[:-1]))


@dataclass(frozen=True, slots=True)
class Pair:
    """A small and a large model, perhaps the same. only: kind of machine that they are meant for, "cpu" or "gpu"; "" for both."""

    small: ModelEntry
    large: ModelEntry
    only: str = ""

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """The models, each once."""
        return (self.small,) if self.small.id == self.large.id else (self.small, self.large)

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(entry.bytes for entry in self.models)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All models by id, in the order of lists.

    default_small, default_large: ids of the default pair, perhaps the same. pairs: pairs that need more memory than the default,
    the one that needs least first: the last one that fits a machine suits it best.
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
def load_catalog() -> Catalog:
    """Return the catalog of the package."""
    data = json.loads(Path(__file__).with_name("catalog.json").read_text(encoding="utf-8"))
    entries = [ModelEntry(**each | {"sources": tuple(map(_source, each["sources"]))}) for each in data["models"]]
    models = {entry.id: entry for entry in entries}
    pairs = tuple(Pair(models[each["small"]], models[each["large"]], each.get("only", "")) for each in data["pairs"])
    return Catalog(MappingProxyType(models), data["defaults"]["small"], data["defaults"]["large"], pairs)


def _source(data: dict[str, Any]) -> ModelSource:
    if "hub" in data:
        return HubSource(**data["hub"])
    wheels = data["wheels"]
    return WheelSource(tuple(WheelPart(version=wheels["version"], **part) for part in wheels["parts"]))
