"""The input and the result of a check."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fbrag_cli.settings import Setting
from fbrag_cli.storage.config_file import ConfigFile

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """A line of `fbrag doctor`. fix: a command or an instruction, None where the status is "ok"."""

    name: str
    status: Status
    finding: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of the checks.

    large, small, gpu, threads, key_file: values that `ask` uses without flags. variables: names of the environment variables that
    fbrag reads. cache_limit: limit of the cache in bytes. offline: whether the network must not be used. probe_gpu: whether a
    check may use the driver of the GPU.
    """

    environ: Mapping[str, str]
    config_file: ConfigFile | None
    keys: Mapping[str, Setting]
    variables: Collection[str]
    models_dir: Path
    large: str
    small: str
    cache_limit: int
    gpu: str = "auto"
    threads: int | None = None
    key_file: str | None = None
    offline: bool = False
    probe_gpu: bool = True
