"""Look into a compound file (OLE), in which Office before 2007, Outlook and encrypted documents keep their streams."""

from __future__ import annotations

from io import BytesIO
from struct import unpack_from
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from olefile import OleFileIO

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#: Streams of Excel 97 to 2003, and of Excel 5 and 95.
WORKBOOKS = ("workbook", "book")

_MAX_BYTES = 200_000_000  # olefile copies its table for each piece of it; no document has so many
_HEAD = 512
_SHIFTS = (9, 12)
_IN_HEADER = 109  # sectors of the table that the header names


def root_names(data: bytes) -> frozenset[str]:
    """Return the names of the entries at the root of a compound file, in lower case. Of another file, none."""
    file = _opened(data)
    return frozenset() if file is None else frozenset(entry.name.lower() for entry in file.root.kids)


def workbook_head(data: bytes) -> bytes:
    """Return the first bytes of the workbook in a compound file; none without one."""
    file = _opened(data)
    name = None if file is None else next((each for each in WORKBOOKS if file.exists(each)), None)
    if file is None or name is None:
        return b""
    try:
        return bytes(file.openstream(name).read(_HEAD))
    except Exception:  # as below
        return b""


def _opened(data: bytes) -> OleFileIO | None:
    from olefile import OleFileIO

    if not data.startswith(OLE) or not _HEAD <= len(data) <= _MAX_BYTES:
        return None
    (shift,), (n_tables,) = unpack_from("<H", data, 30), unpack_from("<I", data, 44)
    size = 1 << shift if shift in _SHIFTS else 0  # bytes of a sector
    if not size or n_tables > _IN_HEADER + 2 * len(data) // (size * size // 4):  # olefile would believe it, and read for hours
        return None
    try:
        return OleFileIO(BytesIO(data))
    except Exception:  # olefile raises half a dozen types for a damaged file
        return None
