"""The models of a store as a table for the terminal, and as JSON records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fbrag_cli.models.advice import Advice, bytes_needed, pair_bytes
from fbrag_cli.models.catalogue import ModelEntry
from fbrag_cli.models.store import StoredModel
from fbrag_cli.text.printable import byte_size
from fbrag_cli.text.table import aligned

_FITS = ("suggested", "gpu", "yes", "no")  # whether a model fits, in the order of the table

#: Model name -> its roles, "small" and "large".
Roles = Mapping[str, tuple[str, ...]]


def table(models: Sequence[StoredModel], roles: Roles, advice: Advice | None) -> Iterator[str]:
    """Yield the lines of the table. advice: adds what fits, what is suggested first; None for a table of what is here."""
    if advice is None:
        whole_header = ("NAME", "ROLE", "SIZE", "QUANT", "CONTEXT", "LICENCE", "STATE")
        return aligned([whole_header, *(_row(model, roles[model.name]) for model in models)])
    rows = [(_fit(model, advice), model) for model in models]
    rows.sort(key=lambda row: _FITS.index(row[0]))
    header = ("NAME", "ROLE", "SIZE", "FITS", "STATE", "LICENCE")
    return aligned([header, *(_short_row(model, roles[model.name], fit) for fit, model in rows)])


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


def _row(model: StoredModel, roles: Sequence[str]) -> tuple[str, ...]:
    entry = model.entry
    about = (entry.quantization, f"{entry.context}", _licence(entry)) if entry else ("-", "-", "-")
    return (model.name, ",".join(roles) or "-", byte_size(model.bytes), *about, model.state)


def _short_row(model: StoredModel, roles: Sequence[str], fit: str) -> tuple[str, ...]:
    licence = _licence(model.entry) if model.entry else "-"
    return (model.name, ",".join(roles) or "-", byte_size(model.bytes), fit, model.state, licence)


def _fit(model: StoredModel, advice: Advice) -> str:
    """Return one of `_FITS`."""
    need = bytes_needed(model.bytes, model.entry)
    if advice.roles(model.name):
        return "suggested"
    return "gpu" if advice.machine.fits_gpu(need) else "yes" if advice.machine.fits(need) else "no"


def _licence(entry: ModelEntry) -> str:
    return entry.licence.removesuffix(" Community")
