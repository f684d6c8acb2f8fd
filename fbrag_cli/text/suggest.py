"""Finds the name closest to a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable

_LEAST = 3  # minimum characters of a part that identifies a name


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most similar to `name`, else the first that contains it; None if there is none."""
    from difflib import get_close_matches

    known = {each.casefold(): each for each in reversed([*names])}  # if two differ only in case, the first counts
    asked = name.casefold()
    if near := get_close_matches(asked, list(known), 1):
        return known[near[0]]
    return next((each for each in reversed(known.values()) if len(asked) >= _LEAST and asked in each.casefold()), None)


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the hint "did you mean X?" for a misspelled name; `otherwise` if no name is similar."""
    near = closest(name, names)
    return f"did you mean {near}?" if near else otherwise
