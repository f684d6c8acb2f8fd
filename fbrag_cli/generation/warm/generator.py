"""The generator for a model that the warm process has loaded: each call runs there, on the same code as in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import QUIET, Call, Generations, Sampling, Turn
from fbrag_cli.generation.warm.connection import GoneError, lines
from fbrag_cli.generation.warm.wire import Json, Lent, Wanted, error_of, generations_of, turns_as_json

T = TypeVar("T")


class DeclinedError(Exception):
    """The warm process does not lend a model: why, in words."""


class WarmGenerator:
    """The `Generator` for a model of the warm process. Calls may come from several threads; each has a connection of its own.

    socket: of the process. wanted: the model. Making a generator lets the process load it, which `cancellation` can stop. Raises
    GoneError, DeclinedError, and what loading it raises.

    Calls raise as those of `LlamaGenerator`, and FbragError `warm_failed` where the process ends in the middle of one.
    """

    continues_turns = True

    def __init__(self, socket: Path, wanted: Wanted, cancellation: Cancellation) -> None:
        self._socket, self._wanted = socket, wanted
        lent = _read(self._asked("load", {}, Call(cancellation=cancellation)), Lent.of)
        self.info = replace(lent.info, name=wanted.name, sha256=wanted.sha256)
        self.threads, self.problems = lent.threads, lent.problems

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = QUIET) -> Generations:
        asked = {"turns": turns_as_json(turns), "n": n, "sampling": asdict(sampling)}
        return self._replied("generate", asked, generations_of, call)

    def choose(self, turns: Sequence[Turn], choices: Sequence[str], call: Call = QUIET) -> tuple[float, ...]:
        asked = {"turns": turns_as_json(turns), "choices": [*choices]}
        return self._replied("choose", asked, lambda said: tuple(map(float, said)), call)

    def written(self, turns: Sequence[Turn]) -> str:
        return self._replied("written", {"turns": turns_as_json(turns)}, str)

    def count_tokens(self, text: str) -> int:
        return self._replied("count_tokens", {"text": text}, int)

    def _replied(self, what: str, asked: Json, read: Callable[[Any], T], call: Call = QUIET) -> T:
        """Return what `read` makes of the result of a call. Raises FbragError."""
        try:
            return _read(self._asked(what, asked, call), read)
        except GoneError as error:
            why = f"the warm process of fbrag serve went away in the middle of a call ({error})"
        except DeclinedError as error:
            why = f"the warm process of fbrag serve lends {self.info.name} no longer: {error}"
        raise FbragError("warm_failed", why, "ask again; --warm false loads the models in this process")

    def _asked(self, what: str, asked: Json, call: Call) -> Any:
        """Return the result of a call, and pass its progress on. Raises GoneError, DeclinedError and the error of the call."""
        replies = lines(self._socket, what, {"model": self._wanted.json, **asked}, call.cancellation or Cancellation())
        with closing(replies):
            for said in replies:
                if "result" in said:
                    return said["result"]
                if "error" in said:
                    raise _read(said["error"], error_of)
                if "declined" in said:
                    raise DeclinedError(said["declined"])
                _pass_on(said, call)
        raise AssertionError  # the lines end with a GoneError


def _read(said: Any, read: Callable[[Any], T]) -> T:
    """Return what `read` makes of a record. Raises GoneError for one that is none."""
    try:
        return read(said)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise GoneError("its reply cannot be read") from error


def _pass_on(said: Json, call: Call) -> None:
    if "text" in said and call.on_text:
        call.on_text(said["text"])
    if "prompt" in said and call.on_prompt:
        call.on_prompt(*said["prompt"])
    if "written" in said and call.on_written:
        call.on_written(*said["written"])
