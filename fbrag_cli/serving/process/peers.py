"""Whose process is at the other end of a connection over loopback. Linux says it; other systems do not."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ROOT = 0
_NO_INODE = "0"

Address = tuple[str, int]


def are_told() -> bool:
    """Return whether this system says whose process a peer is."""
    return os.access(_TABLES[0], os.R_OK)


def is_same_user(client: Address, server: Address) -> bool:
    """Return whether the process at the client's end of a connection is this user's, or the administrator's. False where it has
    closed its end: whose that was is no longer known. True where the system does not say it."""
    if not are_told():
        return True
    ends = {(local, remote) for local, remote in zip(_written(client), _written(server), strict=True)}
    owners = {owner for local, remote, owner in _connections() if (local, remote) in ends}
    return bool(owners) and owners <= {os.geteuid(), _ROOT}


def _connections() -> Iterator[tuple[str, str, int]]:
    """Yield the two ends of each TCP connection, as the kernel writes them, and the user of the first one. An end that no process
    holds any longer, whose user is written as 0, is left out."""
    for table in filter(os.path.exists, _TABLES):  # a system may be without IPv6
        with open(table, encoding="ascii") as lines:
            next(lines, None)
            for line in lines:
                words = line.split()
                if words[9] != _NO_INODE:
                    yield words[1], words[2], int(words[7])


def _written(address: Address) -> list[str]:
    """Return how the kernel writes an address: as it is, and where it is one of IPv4, as IPv6 maps it."""
    host, port = address
    number = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped:
        number = number.ipv4_mapped
    mapped = ipaddress.ip_address(f"::ffff:{number}") if number.version == 4 else number
    return [f"{_words(each.packed)}:{port:04X}" for each in (number, mapped)]


def _words(packed: bytes) -> str:
    """Return the bytes of an address in hexadecimal, each word of four in the order of this machine."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
