"""The values that a setting accepts, from whatever front they come."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool"

_WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True) | dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
_NUMBER = re.compile("[0-9]{1,9}")
_PHRASES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The values that a setting accepts.

    kind: bool, int, float or str. choices: the accepted words, () for any. words: those that a text may be beside a whole number,
    () for any text. A file may have such a text as a bare number, and the choices "true" and "false" as bare words.
    """

    kind: type
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    words: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        """A description of the accepted values, for a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        phrase = f"{', '.join(self.words)} or a number" if self.words else _PHRASES[self.kind]
        if self.minimum is not None and self.maximum is not None:
            return f"{phrase} from {self.minimum:g} to {self.maximum:g}"
        return phrase if self.minimum is None else f"{phrase}, at least {self.minimum:g}"

    def checked(self, value: object) -> Value | None:
        """Return `value` as the option takes it, or None if it is not accepted."""
        if self.kind is str and self.words and type(value) in (int, float):
            value = str(value)
        if self.choices and type(value) is bool:
            value = str(value).lower()
        if self.kind is float and type(value) is int:
            try:
                value = float(value)
            except OverflowError:  # hundreds of digits
                return None
        if type(value) is not self.kind or (self.choices and value not in self.choices):
            return None
        assert isinstance(value, (str, int, float))
        if isinstance(value, str):
            return value if self._is_accepted(value) else None
        return value if self._is_within(value) else None

    def parsed(self, text: str) -> Value | None:
        """Return the value that `text` of a variable or a command line stands for, or None."""
        try:
            value: object = _WORDS.get(text.strip().lower()) if self.kind is bool else self.kind(text)
        except ValueError:
            return None
        return self.checked(value)

    def _is_accepted(self, text: str) -> bool:
        return not self.words or text in self.words or (bool(_NUMBER.fullmatch(text)) and self._is_within(int(text)))

    def _is_within(self, number: float) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        return abs(number) != math.inf and low <= number <= (math.inf if self.maximum is None else self.maximum)
