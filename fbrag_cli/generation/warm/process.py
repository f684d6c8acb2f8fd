"""The warm process (`fbrag serve`) as a command of the same user finds it: whether it runs, and lends what is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli import __version__
from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.build import installed
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:  # what speaks HTTP is loaded where a process is there
    from fbrag_cli.generation.warm.generator import WarmGenerator
    from fbrag_cli.generation.warm.wire import Hello, Json, Wanted

_START_SECONDS = 10.0
_MORE_SECONDS = 1.0  # where the process that was started has ended: another one, started at the same time, listens soon
_POLL_SECONDS = 0.02
_HERE = "the models are loaded in this process"


@dataclass(kw_only=True)
class WarmProcess:
    """The warm process that listens on `socket`, where one does. For several threads.

    conditions: the settings that change a reply or its place; the process has to have the same. say: receives a sentence, once,
    where its models are not used. start: starts the process, and returns a function that returns whether that process lives, or
    None where it cannot start; None: none is started.
    """

    socket: Path
    conditions: Json
    say: Callable[[str], object]
    start: Callable[[], Callable[[], bool] | None] | None = None
    owner: str = field(default_factory=lambda: os.urandom(8).hex())
    _hello: Hello | None = None
    _is_starting: Callable[[], bool] | None = None
    _said: set[str] = field(default_factory=set)
    _refused: bool = False

    def hello(self) -> Hello | None:
        """Return how the process presents itself; None where none runs that has the same versions and settings."""
        if self._hello or self._refused:
            return self._hello
        if not os.path.lexists(self.socket):
            return self._absent("no warm process runs")
        from fbrag_cli.generation.warm.connection import GoneError, is_trusted, reply
        from fbrag_cli.generation.warm.wire import Hello

        try:
            said = Hello.of(reply(self.socket, "GET", "/warm/hello")) if is_trusted(self.socket) else None
            why = self._difference(said) if said else f"{self.socket} is not of this user alone"
        except GoneError as error:
            if self._is_starting or isinstance(error.__cause__, ConnectionRefusedError):
                return self._absent("the warm process was killed, and only its socket is there")
            why = f"the warm process does not answer ({error})"
        except (ValueError, TypeError, KeyError, AttributeError):
            why = "the warm process has another version of fbrag"
        if why:
            self._refused = True
            self.tell(why)
        else:
            self._hello = said
        return self._hello

    def begin(self) -> bool:
        """Start it, once, where none runs and that is asked for. Return whether it is there, or starts."""
        if not self.hello() and not self._refused and self.start:
            self._is_starting, self.start = self.start(), None
        return bool(self._hello or self._is_starting)

    def awaited(self, cancellation: Cancellation, at_once: int) -> bool:
        """Return whether it is there and runs as many calls at once. One that starts has some seconds for it.

        Raises the error of a requested stop.
        """
        end = time.monotonic() + _START_SECONDS
        while not (there := self.hello()) and self._is_starting and not self._refused:
            if not self._is_starting():
                end, self._is_starting = min(end, time.monotonic() + _MORE_SECONDS), lambda: True
            if time.monotonic() > end:
                self.tell("the warm process did not start")
                self._is_starting = None
            cancellation.raise_if_requested()
            time.sleep(_POLL_SECONDS)
        if there and there.at_once < at_once:
            self.tell(f"the warm process runs {counted(there.at_once, 'call')} at once, and {at_once} are asked for")
            return False
        return there is not None

    def model(self, wanted: Wanted, cancellation: Cancellation) -> WarmGenerator | None:
        """Return a model of the process, which loads it if need be; None where it does not lend it.

        Raises what loading the model raises, and the error of a requested stop.
        """
        from fbrag_cli.generation.warm.connection import GoneError
        from fbrag_cli.generation.warm.generator import DeclinedError, WarmGenerator

        try:
            return WarmGenerator(self.socket, wanted, cancellation)
        except GoneError:
            self._hello = None
            self.tell("the warm process went away")
        except DeclinedError as error:
            self.tell(f"the warm process does not lend {wanted.name}: {error}")
        return None

    def _difference(self, said: Hello) -> str:
        """Return what keeps this command from using the process, "" for nothing."""
        ours = {"fbrag": __version__, "llama-cpp-python": installed()}
        for program, version in {"fbrag": said.version, "llama-cpp-python": said.llama_cpp}.items():
            if version != ours[program]:
                return f"the warm process has {program} {version}, and this is {ours[program]}"
        others = [name for name in self.conditions | said.conditions if self.conditions.get(name) != said.conditions.get(name)]
        return f"the warm process has other settings ({', '.join(others)})" if others else ""

    def _absent(self, why: str) -> Hello | None:
        """Say that none is there, unless one is to be started."""
        if not (self.start or self._is_starting):
            self.tell(why)
        return None

    def tell(self, why: str) -> None:
        """Say why its models are not used, each reason once."""
        if why not in self._said:
            self._said.add(why)
            self.say(f"{why}: {_HERE}")
