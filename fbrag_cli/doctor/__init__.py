"""What can be wrong with an installation, looked at one by one. Each check is a finding and, unless all is well, its fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fbrag_cli.storage.config_file import ConfigFile
from fbrag_cli.storage.config_key import Keys

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `fbrag doctor`. fix: what to do, best a command; None where the status is "ok"."""

    name: str
    status: Status
    finding: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What the checks look at. large, small, gpu, threads: as `ask` would use them without flags.

    variables: names of the environment that fbrag reads. colored: whether stdout gets colour. offline: no network at all.
    probe_gpu: whether the driver may be touched.
    """

    environ: Mapping[str, str]
    config_file: ConfigFile | None
    keys: Keys
    variables: Sequence[str]
    models_dir: Path
    large: str
    small: str
    cache_limit: int
    gpu: str = "auto"
    threads: int | None = None
    colored: bool = False
    offline: bool = False
    probe_gpu: bool = True


def checks(situation: Situation) -> Iterator[Check]:
    """All checks, each as soon as it is done."""
    from fbrag_cli.doctor import installation, models, surroundings

    yield installation.python()
    yield from installation.llama(situation)
    yield from models.models(situation)
    yield models.disk(situation)
    yield surroundings.cache(situation)
    yield surroundings.config(situation)
    yield surroundings.environment(situation)
    yield surroundings.terminal(situation)
    yield from surroundings.network(situation)
