"""Settings of a session: which models on which devices, how documents are read, what the cache may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fbrag_cli.methods.knobs import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """large, small: names, paths or addresses of servers, None for the default pair. key_file: holds the key of the servers."""

    large: str | None = knob(
        None,
        "who answers: a name of 'fbrag models list', a GGUF file, or a server: http://host:port/v1#name",
        names=("-m", "--large"),
        group="Models",
        metavar="MODEL",
    )
    small: str | None = knob(None, "who looks forward", group="Models", metavar="MODEL")
    key_file: str | None = knob(
        None, "holds the key of the servers that are named as models", varies="else FBRAG_KEY", group="Models", metavar="FILE"
    )
    gpu: Literal["auto", "off", "require"] = knob(
        "auto", "auto, off, or require: exit 5 unless all layers are on it", group="Models"
    )
    gpu_layers: str = knob("auto", "of the large model on the GPU: auto, all or a number", group="Models", metavar="N")
    device: str | None = knob(
        None, "GPUs for the models, as doctor names them: CUDA0,CUDA1", varies="all", group="Models", metavar="NAMES"
    )
    small_device: str | None = knob(None, "GPUs for the small model", varies="those of --device", group="Models", metavar="NAMES")
    tensor_split: str | None = knob(
        None, "shares of the GPUs in the large model: 3,1", varies="by their free memory", group="Models", metavar="X,Y,…"
    )
    threads: int | None = knob(
        None,
        "of the CPU",
        varies="the physical cores",
        names=("-t", "--threads"),
        minimum=1,
        maximum=512,
        group="Models",
        metavar="N",
    )
    ctx: int | None = knob(
        None, "at most so many tokens of context", varies="the model's own length", minimum=256, group="Models", metavar="N"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSettings:
    """Which files are read, and how."""

    pages: str | None = knob(None, "pages of a PDF, as 3-9,12", varies="all", group="Document", metavar="PAGES")
    encoding: str | None = knob(None, "of a text file", varies="detected", group="Document", metavar="NAME")
    lang: str | None = knob(None, "of the documents: de, german", varies="found by their words", group="Document", metavar="NAME")
    include: list[str] = knob((), "of a folder, only files like GLOB", varies="all known types", group="Document", metavar="GLOB")
    exclude: list[str] = knob((), "of a folder, no files or folders like GLOB", group="Document", metavar="GLOB")
    strict: bool = knob(False, "a file that cannot be read ends the run", group="Document")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """cache_limit: GB (10^9 bytes)."""

    no_cache: bool = knob(False, "read the documents anew, and cache nothing of them", group="Run")
    again: bool = knob(False, "ask the models anew, and replace what is cached of their replies", group="Run")
    cache_limit: float = knob(
        5.0, "the cache holds at most so many GB", varies="5", minimum=0, maximum=1e9, group="Run", metavar="GB"
    )
