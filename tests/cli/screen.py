"""A terminal of a test: what a person sees of the characters that a command has written, and a command on a pseudo-terminal."""

from __future__ import annotations

import codecs
import os
import re
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fbrag_cli.text.table import width_of

_REASON = "Windows has no pseudo-terminals"
fcntl, pty, termios = (pytest.importorskip(name, reason=_REASON) for name in ("fcntl", "pty", "termios"))

_PIECE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\]8;;([!-~]*)\x1b\\|\x1b.?|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(\[[?\d;]*|\][!-~]*\x1b?)?\Z")


class Screen:
    """A terminal of `columns` and `rows` that scrolls and wraps. It knows CR, LF, CSI A (up), CSI J (erase below), CSI m, what a
    bar of rich writes besides (CSI K, the cursor hidden and shown), and the links of OSC 8. Anything else that is no character is
    an error: a real terminal might do anything with it.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._cells: list[list[tuple[str, str]]] = [[]]  # characters, each with its style
        self._row = self._column = 0
        self._waiting = ""
        self.raw = ""
        self._style = ""
        self.links: dict[str, str] = {}
        self._link = ""

    def feed(self, text: str) -> None:
        self.raw += text
        text = self._waiting + text
        self._waiting = found.group() if (found := _UNFINISHED.search(text)) else ""
        text = text.removesuffix(self._waiting)
        for found in _PIECE.finditer(text):
            number, command, link = found.groups()
            if link is not None:
                self._link = link
                self.links.setdefault(link, "")
                continue
            if command == "A":
                top = max(0, len(self._cells) - self._rows)
                self._row = max(top, self._row - int(number or 1))
            elif command == "J":
                del self._cells[self._row + 1 :]
                del self._cells[self._row][self._column :]
            elif command == "K":
                del self._cells[self._row][0 if number == "2" else self._column :]
            elif command in ("h", "l"):
                assert number == "?25"
            elif command == "m":
                self._style = number.removeprefix("0")
            else:
                self._put(found.group())

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        else:
            assert character.isprintable(), f"{character!r} on the terminal"
            width = width_of(character)
            if self._column + width > self._columns:
                self._down()
                self._column = 0
            if self._link:
                self.links[self._link] += character
            row = self._cells[self._row]
            row += [(" ", "")] * (self._column + width - len(row))
            row[self._column : self._column + width] = [(character, self._style), *[("", "")] * (width - 1)]
            self._column += width

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._cells):
            self._cells.append([])

    def lines(self) -> list[str]:
        """The lines that are seen, with those that have scrolled out, without spaces at their ends."""
        found = ["".join(character for character, _ in row).rstrip() for row in self._cells]
        while found and not found[-1]:
            found.pop()
        return found

    def styles_of(self, text: str) -> set[str]:
        """The styles (SGR codes, "" for none) of the first place where `text` stands on one line. An error where it does not."""
        rows = [[cell for cell in row if cell[0]] for row in self._cells]  # without the second halves of wide characters
        said, row = next((said, row) for row in rows if text in (said := "".join(character for character, _ in row)))
        start = said.index(text)
        return {style for character, style in row[start : start + len(text)] if not character.isspace()}


def open_terminal(columns: int, rows: int) -> tuple[int, int]:
    """Open a pseudo-terminal. Return the descriptors of the test's side and of the command's."""
    master, slave = pty.openpty()
    resize(slave, columns, rows)
    return master, slave


def resize(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def on_screen(
    columns: int,
    rows: int,
    command: list[str],
    environment: dict[str, str],
    folder: Path,
    look: Callable[[Screen, subprocess.Popen[bytes], int], object] = lambda screen, process, terminal: None,
    *,
    program: Sequence[str] = ("-m", "fbrag_cli"),
) -> tuple[Screen, int]:
    """Run a command of fbrag with stdin, stdout and stderr on a terminal. look: called after each piece, with the process and the
    terminal's descriptor. program: arguments of Python that run fbrag. Return the screen and the exit code."""
    master, slave = open_terminal(columns, rows)
    screen, decoder = Screen(columns, rows), codecs.getincrementaldecoder("utf-8")()
    arguments = [sys.executable, *program, *command]
    environment = {"TERM": "xterm", **environment}
    with subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder) as process:
        os.close(slave)
        try:
            while piece := read(master):
                screen.feed(decoder.decode(piece))
                look(screen, process, master)
            process.wait(60)
        finally:
            process.kill()
    os.close(master)
    return screen, process.returncode


def read(descriptor: int) -> bytes:
    """What a command has written to its terminal since the last call; nothing once it has closed it."""
    assert select.select([descriptor], [], [], 300)[0], "nothing was printed for 300 s: the command waits for something"
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux: the other side is closed
        return b""
