"""One sample while a server writes it, piece by piece."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fbrag_cli.generation.generator import Finish, Generation
from fbrag_cli.generation.repetition import Repetition
from fbrag_cli.generation.thought import COMMON, Marks, Thoughts, tag

_MOST_CHARACTERS = 100  # a token, on the average: what is longer ignores the limit
_WORDS = re.compile(r"\s*\S+|\s+")
_CLOSED = re.compile(r"^</((?:seed:)?think)>[ \t]*$", re.MULTILINE)  # on a line of its own


@dataclass(slots=True)
class StreamedSample:
    """A sample from a server.

    opening: words with which the reply was to begin; they are no part of it where the server repeats them. thought_tokens: number
    of tokens of a thought, beyond `max_tokens`. opened: the marks of a thought in which the reply begins, where the server opens
    one and does not say so; it is set where a reply shows that.

    n_reasons: number of pieces that the server itself parts from the reply as reasoning. n_tokens, n_reasoned: number of all
    tokens, and of those of thoughts, None where the server does not give it. n_sent: number of characters that `news` has
    returned. n_read: number of tokens of the prompt that the server has read, as far as it says so.
    """

    seed: int
    max_tokens: int
    opening: str = ""
    thought_tokens: int = 0
    opened: Marks | None = None
    text: str = ""
    finish: Finish | None = None
    n_reasons: int = 0
    n_tokens: int | None = None
    n_reasoned: int | None = None
    n_sent: int = 0
    n_read: int = -1
    _n_pieces: int = 0
    _thoughts: Thoughts = field(init=False)
    _ended: bool = False  # by the server
    _held: str | None = ""  # what may become the opening; None once that is decided
    _ids: dict[str, int] = field(default_factory=dict)
    _repetition: Repetition = field(default_factory=Repetition)

    def __post_init__(self) -> None:
        self._thoughts = Thoughts(COMMON, self.opened)

    def add(self, piece: str) -> None:
        """Append a piece, which is mostly a token. What repeats itself, or exceeds the limit, ends the sample."""
        if self.finish or not piece:
            return
        self._n_pieces += 1
        self._say(self._thoughts.add(piece))
        self._keep_limit()

    def think(self) -> None:
        """Count a piece of reasoning, which is no part of the reply."""
        self.n_reasons += 1
        self._keep_limit()

    def end(self, reason: str) -> None:
        """End the sample, for the reason that the server gives."""
        if self.finish:
            return
        finish: Finish = "length" if reason in ("length", "max_tokens") else "stop"
        self._say(self._thoughts.end(answered=self.opened is not None and finish == "stop"))
        self._take(self._held or "")
        self._ended = True
        self.finish = self.finish or finish
        if closed := _CLOSED.search(self.text):  # a thought that the server opened itself
            self._thoughts.n_pieces = round(self._n_pieces * closed.end() / len(self.text))
            shown, answer = len(self.text), self.text[closed.end() :].lstrip()
            self.opened, self.text = tag(closed[1]), answer
            self.n_sent = max(0, self.n_sent - (shown - len(answer)))  # the rest of the answer is still to be shown

    def restart(self) -> None:
        """Drop what a broken reply held."""
        self.text, self._held, self._n_pieces, self.n_reasons, self.n_tokens, self.n_reasoned = "", "", 0, 0, None, None
        self.n_read = -1
        self._repetition = Repetition()
        self._thoughts = Thoughts(COMMON, self.opened)

    @property
    def n_pieces(self) -> int:
        """The number of pieces of the reply."""
        return self._n_pieces - self._thoughts.n_pieces

    @property
    def n_thoughts(self) -> int:
        """The number of pieces of thoughts."""
        return self.n_reasons + self._thoughts.n_pieces

    @property
    def begun(self) -> bool:
        return bool(self._n_pieces or self.n_reasons or self.finish)

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
        n_tokens = self.n_pieces + self.n_thoughts if self.n_tokens is None else self.n_tokens
        n_thought = self.n_thoughts if self.n_reasoned is None else self.n_reasoned
        return Generation(self.text, n_tokens, self.finish or "stop", self.seed, min(n_thought, n_tokens))

    def _keep_limit(self) -> None:
        """End a sample that exceeds a limit: a server that keeps to it ends the sample itself."""
        if self.finish is None and (self.n_pieces > self.max_tokens or self.n_thoughts > self.max_tokens + self.thought_tokens):
            self.finish = "length"

    def _say(self, piece: str) -> None:
        """Append what is no thought. The words with which the reply was to begin are left out."""
        if self._held is not None and piece:
            self._held += piece
            head = self._held.lstrip()
            if len(head) < len(self.opening) and self.opening.startswith(head):
                return
            piece = head[len(self.opening) :] if self.opening and head.startswith(self.opening) else self._held
            self._held = None
        self._take(piece)

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
