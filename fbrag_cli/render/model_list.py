"""The models of a store as a table for the terminal, and as JSON records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fbrag_cli.models.store import StoredModel
from fbrag_cli.text.printable import byte_size
from fbrag_cli.text.table import aligned

# Memory that a run needs beside the model itself: its context, and everything else.
_ROOM_BYTES = 1.5e9

#: Model name -> its roles, "small" and "large".
Roles = Mapping[str, tuple[str, ...]]


def table(models: Sequence[StoredModel], roles: Roles, memory: int | None) -> Iterator[str]:
    """Yield the lines of the table. memory: bytes of this machine; None leaves out whether a model fits."""
    header = ("NAME", "ROLE", "SIZE", "QUANT", "CONTEXT", "LICENCE", "STATE") + (() if memory is None else ("FITS",))
    return aligned([header, *(_row(model, roles[model.name], memory) for model in models)])


def record(model: StoredModel, roles: Roles, memory: int | None) -> dict[str, Any]:
    """Return the record of a model in `fbrag.models/1`. memory: as for `table`."""
    entry = model.entry
    fields: dict[str, Any] = {
        "name": model.name,
        "roles": roles[model.name],
        "path": str(model.path),
        "bytes": model.bytes,
        "sha256": entry.sha256 if entry else model.sha256,
        "quantization": entry.quantization if entry else None,
        "context": entry.context if entry else None,
        "architecture": entry.architecture if entry else None,
        "parameters": entry.parameters if entry else None,
        "licence": entry.licence if entry else None,
        "state": model.state,
    }
    return fields if memory is None else fields | {"fits": _fits(model, memory)}


def _row(model: StoredModel, roles: Sequence[str], memory: int | None) -> tuple[str, ...]:
    entry = model.entry
    about = (entry.quantization, f"{entry.context}", entry.licence) if entry else ("-", "-", "-")
    row = (model.name, ",".join(roles) or "-", byte_size(model.bytes), *about, model.state)
    return row if memory is None else (*row, "yes" if _fits(model, memory) else "no")


def _fits(model: StoredModel, memory: int) -> bool:
    return model.bytes + _ROOM_BYTES <= memory
