"""Find the name that a misspelled one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LEAST = 3  # characters of a part that stands for the whole name


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`, or else the first that contains it; None without one."""
    from difflib import get_close_matches

    known = {each.casefold(): each for each in reversed([*names])}  # the first of two that differ only in case
    asked = name.casefold()
    if near := get_close_matches(asked, list(known), 1):
        return known[near[0]]
    return next((each for each in reversed(known.values()) if len(asked) >= _LEAST and asked in each.casefold()), None)


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the hint "did you mean X?" for a misspelled name; `otherwise` where no name is like it."""
    near = closest(name, names)
    return f"did you mean {near}?" if near else otherwise
