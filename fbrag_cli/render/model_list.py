"""The models of a store as a table for the terminal, and as JSON records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fbrag_cli.models.advice import Advice, bytes_needed, is_slow, pair_bytes
from fbrag_cli.models.catalog import ModelEntry
from fbrag_cli.models.store import StoredModel
from fbrag_cli.text.printable import byte_size
from fbrag_cli.text.table import align_columns

_FITS = ("recommended", "GPU", "CPU", "CPU, slow", "no")  # where a model fits, in the order of the table

#: Model name -> its roles, "small" and "large".
Roles = Mapping[str, tuple[str, ...]]


def table(models: Sequence[StoredModel], roles: Roles, advice: Advice | None) -> Iterator[str]:
    """Yield the lines of the table.

    advice: adds the memory of each model and where it fits, recommended ones first; None for a table of installed models.
    """
    if advice is None:
        whole_header = ("NAME", "ROLE", "SIZE", "QUANT", "CONTEXT", "LICENSE", "STATE")
        return align_columns([whole_header, *(_row(model, roles[model.name]) for model in models)])
    rows = [(_fit(model, advice), model) for model in models]
    rows.sort(key=lambda row: _FITS.index(row[0]))
    header = ("NAME", "ROLE", "SIZE", "MEMORY", "FITS", "STATE", "LICENSE")
    return align_columns([header, *(_short_row(model, roles[model.name], fit) for fit, model in rows)])


def record(model: StoredModel, roles: Roles, advice: Advice | None) -> dict[str, Any]:
    """Return the record of a model in `fbrag.models/1`. advice: as for `table`."""
    entry = model.entry
    fields: dict[str, Any] = {
        "name": model.name,
        "roles": roles[model.name],
        "path": str(model.path),
        "bytes": model.bytes,
        "sha256": entry.sha256 if entry else model.sha256,
        **{each: getattr(entry, each, None) for each in ("quantization", "context", "architecture", "parameters", "license")},
        "state": model.state,
    }
    if advice is None:
        return fields
    need, on_gpu = bytes_needed(model.bytes, entry), advice.machine.fits_gpu(model.bytes)
    fits = {
        "memory_bytes": need,
        "fits": on_gpu or advice.machine.fits(need),
        "fits_gpu": on_gpu,
        "slow": _is_slow(model, advice),
    }
    about = {each: getattr(entry, each, None) or None for each in ("active_parameters", "replaced_by")}
    return fields | fits | {"recommended": advice.roles(model.name), **about}


def advice_record(advice: Advice) -> dict[str, Any]:
    """Return the keys of `fbrag.models/1` next to the models."""
    return {
        "machine": {"memory_bytes": advice.machine.memory, "gpu_bytes": advice.machine.gpu_memory},
        "recommended": {
            "small": advice.pair.small.id,
            "large": advice.pair.large.id,
            "bytes": advice.pair.bytes,
            "memory_bytes": pair_bytes(advice.pair),
        },
    }


def _row(model: StoredModel, roles: Sequence[str]) -> tuple[str, ...]:
    entry = model.entry
    about = (entry.quantization, f"{entry.context}", _license(entry)) if entry else ("-", "-", "-")
    return (model.name, _role(roles), byte_size(model.bytes), *about, model.state)


def _short_row(model: StoredModel, roles: Sequence[str], fit: str) -> tuple[str, ...]:
    license, memory = _license(model.entry) if model.entry else "-", byte_size(bytes_needed(model.bytes, model.entry))
    return (model.name, _role(roles), byte_size(model.bytes), memory, fit, model.state, license)


def _role(roles: Sequence[str]) -> str:
    return "both" if len(roles) > 1 else "".join(roles) or "-"


def _fit(model: StoredModel, advice: Advice) -> str:
    """Return one of `_FITS`."""
    if advice.roles(model.name):
        return "recommended"
    if advice.machine.fits_gpu(model.bytes):
        return "GPU"
    if not advice.machine.fits(bytes_needed(model.bytes, model.entry)):
        return "no"
    return "CPU, slow" if _is_slow(model, advice) else "CPU"


def _is_slow(model: StoredModel, advice: Advice) -> bool:
    """Return whether a question takes too long where this model looks forward and answers.

    It runs on the GPU if it fits there, else on the CPU.
    """
    active = model.entry.active_bytes if model.entry else model.bytes
    machine = advice.machine if advice.machine.fits_gpu(model.bytes) else replace(advice.machine, gpu_memory=0)
    return is_slow(active, active, machine)


def _license(entry: ModelEntry) -> str:
    return entry.license.removesuffix(" Community")
