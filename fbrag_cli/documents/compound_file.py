"""Read the directory of a compound file (OLE): Office before 2007, Outlook and encrypted documents keep their streams in one."""

from __future__ import annotations

import struct

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

_MAX_ENTRIES = 20_000
_LAST_SECTOR = 0xFFFFFFFA  # higher numbers mark free sectors and ends of chains
_SHIFTS = (9, 12)
_ENTRY = struct.Struct("<64sHBBIII36xIQ")
#: Streams of Excel 97 to 2003, and of Excel 5 and 95.
WORKBOOKS = ("workbook", "book")

_SHORT = 64  # bytes of a sector of short streams
_STREAM = 2
_ROOT = 5


def root_names(data: bytes) -> dict[str, bytes]:
    """Return the entries at the root of a compound file: the name of each, in lower case, and how its stream begins.

    The beginning is that of a workbook alone: 512 bytes, or at most 64 of a short stream. Of a damaged file, the entries that are
    found; of another file, none.
    """
    if not data.startswith(OLE):
        return {}
    try:
        return dict(_Directory(data).children())
    except (struct.error, IndexError):
        return {}


class _Directory:
    def __init__(self, data: bytes) -> None:
        self._data = data
        (shift,) = struct.unpack_from("<H", data, 30)
        first, self._cutoff = struct.unpack_from("<I4xI", data, 48)
        self._size = 1 << (shift if shift in _SHIFTS else _SHIFTS[0])  # bytes of a sector
        self._tables = [number for number in struct.unpack_from("<109I", data, 76) if number < _LAST_SECTOR]
        self._read_more_tables(struct.unpack_from("<I", data, 68)[0])
        self._entries = self._read_entries(first)

    def _at(self, sector: int) -> int:
        return (sector + 1) * self._size

    def _read_more_tables(self, sector: int) -> None:
        """Read the chain of sectors that name more sectors of the table, which a file of over 7 MB has."""
        for _ in range(len(self._data) // self._size):
            if sector >= _LAST_SECTOR:
                return
            *numbers, sector = struct.unpack_from(f"<{self._size // 4}I", self._data, self._at(sector))
            self._tables += (number for number in numbers if number < _LAST_SECTOR)

    def _after(self, sector: int) -> int:
        """Return the sector that follows `sector` in its chain."""
        table, place = divmod(sector, self._size // 4)
        following: int = struct.unpack_from("<I", self._data, self._at(self._tables[table]) + 4 * place)[0]
        return following

    def _read_entries(self, sector: int) -> list[tuple[bytes, int, int, int, int, int, int, int, int]]:
        entries: list[tuple[bytes, int, int, int, int, int, int, int, int]] = []
        while sector < _LAST_SECTOR and len(entries) < _MAX_ENTRIES:
            place = self._at(sector)
            whole = (len(self._data[place : place + self._size]) // _ENTRY.size) * _ENTRY.size
            if not whole:  # beyond the end of the file, where a chain may form a circle
                break
            entries += _ENTRY.iter_unpack(self._data[place : place + whole])
            sector = self._after(sector)
        return entries

    def children(self) -> list[tuple[str, bytes]]:
        """Return the names below the root and the beginnings of their streams. They form a binary tree of siblings."""
        left = [entry[6] for entry in self._entries[:1] if entry[2] == _ROOT]
        found, seen = [], set[int]()
        while left:
            number = left.pop()
            if number >= len(self._entries) or number in seen:
                continue
            seen.add(number)
            letters, length, kind, _, before, after, _, sector, size = self._entries[number]
            name = letters[: max(0, length - 2)].decode("utf-16-le", "replace").lower()
            found.append((name, self._head(sector, size) if name in WORKBOOKS and kind == _STREAM else b""))
            left += (before, after)
        return found

    def _head(self, sector: int, size: int) -> bytes:
        """Return the beginning of a stream. Short ones lie in the root's stream, in sectors of 64 bytes."""
        if size >= self._cutoff:
            return self._data[self._at(sector) : self._at(sector) + 512]
        place, within = divmod(sector * _SHORT, self._size)
        start = self._entries[0][7]
        for _ in range(min(place, len(self._data) // self._size)):
            if start >= _LAST_SECTOR:
                return b""
            start = self._after(start)
        return self._data[self._at(start) + within : self._at(start) + within + min(size, _SHORT)]
