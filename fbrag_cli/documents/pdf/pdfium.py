"""PDFium's functions, which take and return addresses as plain numbers: ctypes calls them in half of the time that pypdfium2's
take, and a page needs tens of thousands of calls."""

from __future__ import annotations

from ctypes import CFUNCTYPE, addressof, c_void_p, cast, sizeof
from typing import Any

from pypdfium2 import raw


class _Functions:
    """The functions of `raw` by their name. What they write to is given by its address."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(raw, name)
        types = (c_void_p if hasattr(each, "contents") else each for each in (function.restype, *function.argtypes))
        plain = CFUNCTYPE(*types)(cast(function, c_void_p).value or 0)
        setattr(self, name, plain)  # from now on it is found without this method
        return plain


pdfium = _Functions()


def address(handle: Any) -> int:
    """Return the address of what a handle of pypdfium2 points to."""
    return addressof(handle.contents)


def addresses(numbers: Any) -> list[int]:
    """Return the address of each number of an array of ctypes."""
    start, size = addressof(numbers), sizeof(numbers)
    return [*range(start, start + size, size // len(numbers))]
