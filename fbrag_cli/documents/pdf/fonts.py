"""Cache the fonts of a document: pypdf parses them again on every page.

A Chinese font has thousands of letters, and parsing it on each page takes most of the time. pypdf offers no place for a cache, so
its function is replaced while pages are read. If a later pypdf has no function of this name, nothing is replaced.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MAX_FONTS = 64  # a hostile file has a new one on each page


class FontCache:
    """The most recently used fonts of one document."""

    def __init__(self) -> None:
        # The resource is stored with its font: while it lives, no other object has its id.
        self._fonts: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make pypdf use this cache within the block."""
        try:
            from pypdf.generic._font import Font

            parse = Font.from_font_resource
        except (ImportError, AttributeError):
            yield
            return

        def parse_once(resource: Any) -> Any:
            if (cached := self._fonts.get(id(resource))) is None:
                cached = self._fonts[id(resource)] = resource, parse(resource)
                if len(self._fonts) > _MAX_FONTS:
                    self._fonts.popitem(last=False)
            self._fonts.move_to_end(id(resource))
            return cached[1]

        original = Font.__dict__["from_font_resource"]
        Font.from_font_resource = staticmethod(parse_once)  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            Font.from_font_resource = original  # type: ignore[method-assign]
