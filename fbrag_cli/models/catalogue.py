"""The catalogue of models that have a name: size, checksum and sources of each. The data is catalogue.json."""

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
    """A model of the catalogue. file: its name in a store. bytes, sha256: of that file. context: tokens. sources: best first.

    kv_bytes: of the KV cells of a token, in 16 bits; 0 where they are not known.
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
    """The small and the large model, perhaps the same. gpu_only: whether a CPU would take too long with them."""

    small: ModelEntry
    large: ModelEntry
    gpu_only: bool = False

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """Each model once."""
        return (self.small,) if self.small.id == self.large.id else (self.small, self.large)

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(entry.bytes for entry in self.models)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All models by id, in the order of lists. default_small, default_large: ids of the default pair, perhaps the same. pairs:
    those for more memory than the default needs, the one that needs least first."""

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
    models = {each["id"]: _entry(each) for each in data["models"]}
    pairs = tuple(Pair(models[each["small"]], models[each["large"]], each.get("gpu_only", False)) for each in data["pairs"])
    return Catalogue(MappingProxyType(models), data["defaults"]["small"], data["defaults"]["large"], pairs)


def _entry(data: dict[str, Any]) -> ModelEntry:
    return ModelEntry(**data | {"sources": tuple(_source(source) for source in data["sources"])})


def _source(data: dict[str, Any]) -> ModelSource:
    if "hub" in data:
        return HubSource(**data["hub"])
    wheels = data["wheels"]
    return WheelSource(tuple(WheelPart(version=wheels["version"], **part) for part in wheels["parts"]))
