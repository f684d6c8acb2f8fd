"""The models of a store as a table for the terminal, and as JSON records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fbrag_cli.models.advice import Advice, bytes_needed, pair_bytes
from fbrag_cli.models.store import StoredModel
from fbrag_cli.text.printable import byte_size
from fbrag_cli.text.table import aligned

#: Model name -> its roles, "small" and "large".
Roles = Mapping[str, tuple[str, ...]]


def table(models: Sequence[StoredModel], roles: Roles, advice: Advice | None) -> Iterator[str]:
    """Yield the lines of the table. advice: None leaves out what fits."""
    header = ("NAME", "ROLE", "SIZE", "QUANT", "CONTEXT", "LICENCE", "STATE")
    more = () if advice is None else ("FITS", "SUGGESTED")
    return aligned([(*header, *more), *(_row(model, roles[model.name], advice) for model in models)])


def record(model: StoredModel, roles: Roles, advice: Advice | None) -> dict[str, Any]:
    """Return the record of a model in `fbrag.models/1`. advice: as for `table`."""
    entry = model.entry
    fields: dict[str, Any] = {
        "name": model.name,
        "roles": roles[model.name],
        "path": str(model.path),
        "bytes": model.bytes,
        "sha256": entry.sha256 if entry else model.sha256,
        **{each: getattr(entry, each, None) for each in ("quantization", "context", "architecture", "parameters", "licence")},
        "state": model.state,
    }
    if advice is None:
        return fields
    need = bytes_needed(model.bytes, entry)
    fits = {"memory_bytes": need, "fits": advice.machine.fits(need), "fits_gpu": advice.machine.fits_gpu(need)}
    return fields | fits | {"suggested": advice.roles(model.name)}


def advice_record(advice: Advice) -> dict[str, Any]:
    """Return the keys of `fbrag.models/1` beside the models."""
    return {
        "machine": {"memory_bytes": advice.machine.memory, "gpu_bytes": advice.machine.gpu_memory},
        "suggested": {
            "small": advice.pair.small.id,
            "large": advice.pair.large.id,
            "bytes": advice.pair.bytes,
            "memory_bytes": pair_bytes(advice.pair),
        },
    }


def _row(model: StoredModel, roles: Sequence[str], advice: Advice | None) -> tuple[str, ...]:
    entry = model.entry
    about = (entry.quantization, f"{entry.context}", entry.licence) if entry else ("-", "-", "-")
    row = (model.name, ",".join(roles) or "-", byte_size(model.bytes), *about, model.state)
    if advice is None:
        return row
    need = bytes_needed(model.bytes, entry)
    fits = "gpu" if advice.machine.fits_gpu(need) else "yes" if advice.machine.fits(need) else "no"
    return (*row, fits, ",".join(advice.roles(model.name)) or "-")
