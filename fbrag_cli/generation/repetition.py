"""`Repetition` detects that a model is in a loop, and writes the same tokens over and over up to the length limit.

Refrains, lists and rows of zeros also repeat, so a loop counts only when it is longer than these.
"""

from __future__ import annotations

from collections import deque

_LONGEST = 128  # tokens of a period; loops with longer ones end at the length limit
_FEWEST_PERIODS = 4  # refrains and choruses occur three times
_FEWEST_TOKENS = 48
_FEWEST_WITHOUT_LETTERS = 256  # numbers, table rules, matrices of zeros


class Repetition:
    """Counts how many of a sample's last tokens repeat earlier ones. Each token is compared with the last 128."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=_LONGEST)  # last token first
        self._runs: dict[int, int] = {}  # period, ascending -> how many last tokens equal the one a period before
        self._ends = [0]  # length of the text after each number of tokens
        self._text = ""

    def add(self, token: int, text: str) -> None:
        """Append a token. text: text of the sample including this token."""
        self._runs = {period: self._runs.get(period, 0) + 1 for period, past in enumerate(self._recent, 1) if past == token}
        self._recent.appendleft(token)
        self._ends.append(len(text))
        self._text = text

    @property
    def n_fresh(self) -> int:
        """The number of characters before the last tokens that repeat others. `loop` never cuts these."""
        return self._ends[-1 - max(self._runs.values(), default=0)]

    def loop(self) -> int | None:
        """Return the number of characters up to the end of the loop's first period; None if there is no loop."""
        for period, repeated in self._runs.items():
            n_tokens = period + repeated
            if n_tokens >= max(_FEWEST_TOKENS, _FEWEST_PERIODS * period):
                start, end = self._ends[-1 - n_tokens], self._ends[-1 - repeated]
                if n_tokens >= _FEWEST_WITHOUT_LETTERS or any(map(str.isalpha, self._text[start:end])):
                    return end
        return None
