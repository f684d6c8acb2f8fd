"""Find the name that a misspelled one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`; None if none is like it."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), 1)), None)


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the hint "did you mean X?" for a misspelled name; `otherwise` where no name is like it."""
    near = closest(name, names)
    return f"did you mean {near}?" if near else otherwise
