"""What commands and the warm process say to each other, as JSON: turns, samplings, samples, models, errors.

Requests are `POST /warm/<call>` with one JSON object. A reply is JSON lines: `{"prompt": [done, total]}`, `{"written": [done,
total]}` and `{"text": piece}` as of `Call`, `{}` where nothing has happened for a while, and at the end one of `{"result": …}`,
`{"declined": why}` and `{"error": …}`. Both sides have the same version of fbrag, which `GET /warm/hello` says first.

Each function that reads a record raises ValueError, TypeError, KeyError or AttributeError for what is none.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fbrag_cli.errors import EXIT_CODES, FbragError
from fbrag_cli.generation.generator import EmbeddingRows, Generation, Generations, ModelInfo, Sampling, Turn
from fbrag_cli.generation.placement import Device, Gpus

Json = dict[str, Any]

#: Seconds after which a reply goes on, if only by an empty line: the other side looks then whether it is to stop.
BEAT = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A warm process, as it presents itself.

    version, llama_cpp: of fbrag and of llama-cpp-python. conditions: the settings that change a reply or its place. gpus: those
    that it finds. at_once: number of calls that a model runs at once. pid: its process id.
    """

    version: str
    llama_cpp: str | None
    conditions: Json
    gpus: Gpus
    at_once: int
    pid: int

    @classmethod
    def of(cls, said: Json) -> Hello:
        gpus = Gpus(tuple(Device(**each) for each in said["gpus"]["found"]), bool(said["gpus"]["built_for_gpu"]))
        return cls(**{**said, "gpus": gpus})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A model that a command asks for.

    name, path, sha256: of its file. state: what changes with the file (`ModelFile.state`). large: whether it answers. owner: an
    identifier of the command: its calls share what is read of prompts.
    """

    name: str
    path: Path
    sha256: str | None
    state: list[int]
    large: bool
    owner: str

    @property
    def json(self) -> Json:
        return asdict(self) | {"path": str(self.path)}

    @classmethod
    def of(cls, said: Json) -> Wanted:
        return cls(**{**said, "path": Path(said["path"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """A model that was loaded for a command. threads: number of its CPU threads. problems: what the user should know of it."""

    info: ModelInfo
    threads: int
    problems: tuple[str, ...]

    @classmethod
    def of(cls, said: Json) -> Lent:
        return cls(info=ModelInfo(**said["info"]), threads=int(said["threads"]), problems=tuple(map(str, said["problems"])))


def turns_as_json(turns: Sequence[Turn]) -> list[Json]:
    return [
        {
            "role": turn.role,
            "text": turn.text,
            "rows": [[at, rows.width, b64encode(rows.data).decode()] for at, rows in turn.rows],
            "context_end": turn.context_end,
        }
        for turn in turns
    ]


def turns_of(said: Sequence[Json]) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            each["role"],
            each["text"],
            tuple((at, EmbeddingRows(b64decode(data), width)) for at, width, data in each["rows"]),
            each["context_end"],
        )
        for each in said
    )


def sampling_of(said: Json) -> Sampling:
    return Sampling(**said)


def generations_of(said: Json) -> Generations:
    return Generations(**{**said, "samples": tuple(Generation(**each) for each in said["samples"])})


def error_as_json(error: FbragError) -> Json:
    return {"code": error.code, "message": error.message, "hint": error.hint, "document": error.document}


def error_of(said: Json) -> FbragError:
    code = said["code"] if said["code"] in EXIT_CODES else "internal"
    return FbragError(code, str(said["message"]), said["hint"], document=said["document"])
