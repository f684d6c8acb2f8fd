"""What a person does not see of a document: one rule for all formats, from how its text is drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_MIN_SIZE = 1.0  # points; print that people read has 4 and more
# Of 255 levels of red, green and blue. As large areas, two grays that are 7 levels apart can just be told apart (2.3 in CIELAB's
# lightness); nobody reads thin letters at less than twice that. Contrast does not serve: yellow on white (1.07) is seen.
NEAR = 12
_SPACES = ("srgb", "hsl", "hwb")  # of CSS; lab and its kind are rare
_HEX = re.compile(r"#?((?:[0-9a-f]{3,4}){1,2})", re.IGNORECASE)


class Color(NamedTuple):
    """Levels from 0 to 255."""

    red: int
    green: int
    blue: int

    def is_near(self, other: Color) -> bool:
        """Return whether letters of this color cannot be read on the other one."""
        return all(abs(one - two) <= NEAR for one, two in zip(self, other, strict=True))


WHITE = Color(255, 255, 255)
BLACK = Color(0, 0, 0)
#: How `parse_color` calls a ground of several colors (a picture, a gradient), and its color: no other one is near it.
PATTERN, UNKNOWN_COLOR = "pattern", Color(-1000, -1000, -1000)


class Look(NamedTuple):
    """How a piece of text is drawn.

    size: size of its letters in points; None if unknown. color: its own color; None without one ("automatic"). ground: color of
    what is drawn directly below it: its highlight, cell, shape or page; None if it cannot be determined. on_picture: whether that
    is a picture, a gradient or a pattern. hidden: whether the document says that the text is not shown.
    """

    size: float | None = None
    color: Color | None = None
    ground: Color | None = None
    on_picture: bool = False
    hidden: bool = False


@lru_cache(maxsize=4096)
def is_hidden(look: Look) -> bool:
    """Return whether a person does not see the text: it is said to be hidden, too small, or of the color of its ground. If its
    ground cannot be determined, white text is hidden, for paper is white. Text without any of these signs is seen."""
    if look.hidden or (look.size is not None and look.size < _MIN_SIZE):
        return True
    return look.color is not None and not look.on_picture and look.color.is_near(look.ground or WHITE)


@lru_cache(maxsize=4096)
def parse_color(text: str) -> Color | None:
    """Return a color as documents write it: "FFFFFF", "#fff", or as in CSS, "rgb(255, 255, 255)" or "white". None for "auto",
    "transparent", what can be seen through, and any other text."""
    text = text.strip().lower()
    if found := _HEX.fullmatch(text):
        digits = found[1] if len(found[1]) > 4 else "".join(2 * digit for digit in found[1])
        color = Color(*bytes.fromhex(digits[:6]))
        return color if digits[6:] in ("", "ff") else None
    if text == PATTERN:
        return UNKNOWN_COLOR
    if not text or text == "auto" or len(text) > 100:
        return None
    from tinycss2 import color4

    parsed = color4.parse_color(text)
    if not isinstance(parsed, color4.Color) or parsed.alpha < 1 or parsed.space not in _SPACES:
        return None
    return Color(*(round(255 * min(max(level, 0), 1)) for level in parsed.to("srgb").coordinates))


def ground_of(fills: Iterable[str]) -> Color | None:
    """Return the color that text is on. fills: of what is below it, the nearest first, each as of `parse_color`."""
    return next(filter(None, map(parse_color, fills)), None)
