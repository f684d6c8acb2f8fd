"""The two streams of every command: stdout for the answer or the data, stderr for everything else."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TextIO

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import columns_of
from fbrag_cli.text.terminal import BOLD, DIM, ERROR, wrap

ColorMode = Literal["auto", "always", "never"]

_MOST = 1000  # characters per message
_POLL_SECONDS = 0.1  # between two checks for Ctrl-C while a question waits for its answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The global options that concern messages, and the cancellation. `main` makes one for each command.

    verbosity: -2 (not even errors), -1 (errors only), 0, 1 (decisions and timings), 2 (llama.cpp's own log). yes: answer yes to
    every prompt. config: the file given with --config, or "none".
    """

    verbosity: int = 0
    color: ColorMode = "auto"
    bars: bool = True
    yes: bool = False
    offline: bool = False
    cancellation: Cancellation = field(default_factory=Cancellation)
    config: str | None = None

    def colored(self, stream: TextIO) -> bool:
        """Return whether `stream` gets color: from --color, else NO_COLOR, else FORCE_COLOR, else whether it is a terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        return stream.isatty() and os.environ.get("TERM") != "dumb"

    def shows_bars(self) -> bool:
        return self.bars and self.verbosity >= 0 and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def shows_preview(self) -> bool:
        """Return whether to show a dimmed preview on the terminal until the output replaces it."""
        return self.shows_bars() and self.verbosity < 2 and self.colored(sys.stderr) and sys.stdout.isatty()

    def info(self, text: str, *, level: int = 0, dim: bool = False) -> None:
        """Print one line on stderr, dim if stderr gets color; level 1 needs -v, level 2 -vv."""
        if self.verbosity >= level:
            self._print("", one_line(text), DIM if dim else "")

    def report(self, event: Event) -> None:
        """Print an event that is a sentence for the user; ignore others."""
        if say := {"note": self.info, "warning": self.warning, "hint": self.hint}.get(event.kind):
            say(event.text)

    def ask(self, question: str) -> str:
        """Print a question on stderr, and return the line that the user types; "" if the input ended.

        The read begins when a line is there: Ctrl-C between the question and a read would wait for Enter.
        """
        print(wrap(one_line(question), columns_of(sys.stderr)), end=" ", file=sys.stderr, flush=True)
        while os.name != "nt" and not select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
            pass
        return sys.stdin.readline()

    def chosen(self, question: str, choices: Mapping[str, str], default: str) -> str | None:
        """Ask the user for a key of `choices` (key -> its meaning), and return it.

        Enter selects the default. None: the input ended.
        """
        columns = columns_of(sys.stderr)
        print(wrap(one_line(question), columns), file=sys.stderr)
        for key, meaning in choices.items():
            print(wrap(f"  {key}  {one_line(meaning)}", columns, "     "), file=sys.stderr)
        keys = "/".join(f"[{key}]" if key == default else key for key in choices)
        while True:
            if not (line := self.ask(f"{keys}?")):
                print(file=sys.stderr)
                return None
            if (answer := line.strip().lower() or default) in choices:
                return answer

    def confirms(self, what: str) -> bool:
        """Ask the user whether to do `what`; with -y the answer is yes. Raises FbragError `usage` if there is no terminal."""
        if self.yes:
            return True
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise FbragError("usage", f"confirmation needed to {what}", "pass -y to confirm")
        return self.ask(f"{what}? [y/N]").strip().lower() in ("y", "yes")

    def warning(self, text: str) -> None:
        if self.verbosity >= 0:
            self._print("warning", _shortened(one_line(text)), BOLD)

    def hint(self, text: str) -> None:
        if self.verbosity >= 0:
            self._print("hint", _shortened(one_line(text)), BOLD)

    def error(self, error: FbragError) -> None:
        """Print `error: what and where`, and on a second line `hint: what to do`."""
        if self.verbosity >= -1:
            self._print("error", _shortened(one_line(error.message)), ERROR)
            if error.hint:
                self._print("hint", _shortened(one_line(error.hint)), BOLD)

    def _print(self, label: str, text: str, style: str) -> None:
        """Print a line on stderr, wrapped between words on a terminal. A hint is not wrapped, so that its command can be pasted.

        style: of the label; without a label, of the whole line.
        """
        said = wrap(f"{label}: {text}" if label else text, None if label == "hint" else columns_of(sys.stderr))
        if style and self.colored(sys.stderr):
            end = len(label) or len(said)
            said = f"\x1b[{style}m{said[:end]}\x1b[0m{said[end:]}"
        print(said, file=sys.stderr, flush=True)


def _shortened(line: str) -> str:
    """Return a line, without its middle if it is long (such as a message that repeats an argument of 100 kB)."""
    return line if len(line) <= _MOST else f"{line[: _MOST // 2]} … {line[-_MOST // 2 :]}"
