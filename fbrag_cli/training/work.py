"""What the stages of `fbrag train` work with, and how they report. Each stage goes on where an earlier run was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener, stage
from fbrag_cli.session.session import DEFAULT, Choice, Session
from fbrag_cli.text.languages import detect

#: Rows or seconds, whichever come first, after which the time for the others is said.
_TIMED, _LATEST = 16, 60.0

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Work:
    """note: receives what the user should know. restart: whether what was made before is made anew."""

    session: Session
    listener: Listener
    note: Callable[[str], None]
    restart: bool = False

    def model(self, role: str, choice: Choice = DEFAULT) -> dict[str, str]:
        """Return the model in a role ("small", "large"): its name and the SHA-256 of its file; of a server, which has none to
        read, its address and the name of its model."""
        name, models = self.session.names(choice)[role == "large"], self.session.models
        if (digest := models.digest(name)) is None:
            name, digest = map(str, models.identity(name)[:2])
        return {"name": name, "sha256": digest}

    def counted(self, each: Iterable[Made], unit: str, done: int, total: int) -> Iterator[Made]:
        """Yield what is made or worked on, report its number, and say after some of it how long the rest will take."""
        started, told = perf_counter(), False
        with stage("train", self.listener.progress):
            for n, one in enumerate(each, 1):
                yield one
                self.listener.progress(Event("train", "progress", done + n, total, unit))
                left, seconds = total - done - n, perf_counter() - started
                if not told and (n == _TIMED or seconds > _LATEST):
                    told, rest = True, seconds / n * left
                    if left > 2 * n and rest > _LATEST:
                        self.note(f"about {hours(rest)} left: {left:,} {unit}, {seconds / n:.1f} s each")


def enough(make: Callable[[], Made]) -> Made:
    """Return what `make` returns. Too few rows, a ValueError, are FbragError `usage`."""
    try:
        return make()
    except ValueError as error:
        raise FbragError("usage", str(error), "give more questions: more rows, or a higher --limit") from None


def languages_of(texts: Sequence[str]) -> list[str]:
    """Return the language (ISO 639-1) of most of the texts, as a list; empty where it is unknown."""
    return sorted({detect(" ".join(texts[:: max(1, len(texts) // 200)]))} - {""})


def hours(seconds: float) -> str:
    """Return a time in words: "3.2 h", "12 min"."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{max(1, round(seconds / 60))} min"
