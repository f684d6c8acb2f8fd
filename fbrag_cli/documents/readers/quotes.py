"""Quote the text that the comments of a document are on, and write the comments."""

from __future__ import annotations

_MAX_QUOTED = 120  # characters
_MAX_PIECES = 100  # of text that are looked at for a quote
_MAX_PIECE = 1000  # characters; hostile documents have thousands of comments on one long text


class Quotes:
    """The text that each comment is on, of a document that is read in its order."""

    def __init__(self) -> None:
        self._said: list[str] = []  # while a comment is open
        self._starts: dict[str, int] = {}  # in `_said`, of each open comment

    def __len__(self) -> int:
        """Return the number of pieces of text so far, for `cut`."""
        return len(self._said)

    def say(self, text: str) -> None:
        """Add a piece of text that is shown, or " " between two of them."""
        if self._starts:
            self._said.append(text[:_MAX_PIECE])

    def cut(self, length: int) -> None:
        """Forget the pieces after the first `length` ones."""
        del self._said[length:]

    def begin(self, key: str) -> None:
        """Begin the text that comment `key` is on."""
        self._starts[key] = len(self._said)

    def end(self, key: str) -> str | None:
        """End that text and return it, shortened; None if it has not begun."""
        start = self._starts.pop(key, None)
        if start is None:
            return None
        text = " ".join("".join(self._said[start : start + _MAX_PIECES])[:_MAX_PIECE].split())
        if not self._starts:
            self._said.clear()
        return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def comment(author: str, quote: str, text: str) -> str:
    """Return a comment, as "Comment by Ann Lee on “the price”: too high". author, quote: "" if unknown."""
    by = f" by {author}" if author else ""
    on = f" on “{quote}”" if quote else ""
    return f"Comment{by}{on}: {text}"
