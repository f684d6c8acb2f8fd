"""One sample while a server writes it, piece by piece."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fbrag_cli.generation.generator import Finish, Generation
from fbrag_cli.generation.repetition import Repetition

_MOST_CHARACTERS = 100  # a token, on the average: what is longer ignores the limit
_WORDS = re.compile(r"\s*\S+|\s+")


@dataclass(slots=True)
class StreamedSample:
    """A sample from a server.

    opening: words with which the reply was to begin; they are no part of it where the server repeats them. n_pieces, n_thoughts:
    number of pieces of the reply and of reasoning. n_tokens: number of tokens, None where the server does not give it. n_sent:
    number of characters that `news` has returned. n_read: number of tokens of the prompt that the server has read, as far as it
    says so.
    """

    seed: int
    max_tokens: int
    opening: str = ""
    text: str = ""
    finish: Finish | None = None
    n_pieces: int = 0
    n_thoughts: int = 0
    n_tokens: int | None = None
    n_sent: int = 0
    n_read: int = -1
    _ended: bool = False  # by the server
    _held: str | None = ""  # what may become the opening; None once that is decided
    _ids: dict[str, int] = field(default_factory=dict)
    _repetition: Repetition = field(default_factory=Repetition)

    def add(self, piece: str) -> None:
        """Append a piece, which is mostly a token. What repeats itself, or exceeds the limit, ends the sample."""
        if self.finish or not piece:
            return
        self.n_pieces += 1
        if self._held is not None:
            self._held += piece
            head = self._held.lstrip()
            if len(head) < len(self.opening) and self.opening.startswith(head):
                return
            piece = head[len(self.opening) :] if self.opening and head.startswith(self.opening) else self._held
            self._held = None
        self._take(piece)
        if self.finish is None and self.n_pieces > self.max_tokens:  # a server that keeps to the limit ends the sample itself
            self.finish = "length"

    def think(self) -> None:
        """Count a piece of reasoning, which is no part of the reply."""
        self.n_thoughts += 1
        if self.finish is None and self.n_thoughts > self.max_tokens:
            self.finish = "length"

    def end(self, reason: str) -> None:
        """End the sample, for the reason that the server gives."""
        if self.finish is None:
            self._take(self._held or "")
            self._ended = True
            self.finish = self.finish or ("length" if reason in ("length", "max_tokens") else "stop")

    def restart(self) -> None:
        """Drop what a broken reply held."""
        self.text, self._held, self.n_pieces, self.n_thoughts, self.n_tokens = "", "", 0, 0, None
        self.n_read = -1
        self._repetition = Repetition()

    @property
    def begun(self) -> bool:
        return bool(self.n_pieces or self.n_thoughts or self.finish)

    @property
    def cut(self) -> bool:
        """Whether this side ended the sample, so that nothing more of it is read."""
        return self.finish is not None and not self._ended

    def news(self) -> str:
        """Return the text that is certain and was not returned before."""
        certain = len(self.text) if self.finish else self._repetition.n_fresh
        piece = self.text[self.n_sent : certain]
        self.n_sent += len(piece)
        return piece

    def generation(self) -> Generation:
        n_tokens = self.n_pieces if self.n_tokens is None else self.n_tokens
        return Generation(self.text, n_tokens, self.finish or "stop", self.seed)

    def _take(self, text: str) -> None:
        room = _MOST_CHARACTERS * self.max_tokens - len(self.text)
        for word in _WORDS.findall(text[:room]):  # a whole reply comes in one piece
            self.text += word
            self._repetition.add(self._ids.setdefault(word, len(self._ids)), self.text)
            if (end := self._repetition.loop()) is not None:
                self.text, self.finish = self.text[:end], "repeat"
                return
        if len(text) > room:
            self.finish = "length"
