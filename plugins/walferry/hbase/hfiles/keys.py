"""Makes keys of cells for a file's index, bloom filters and information. Kernels do not use this module.

    key = int16 rowLen, row, int8 famLen, family, qualifier, int64 timestamp, int8 type

Source: HBase's HFileWriterImpl.getMidpoint, PrivateCellUtil.createFirstOnRow and createFirstOnRowCol.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from walferry.base.kernels.types import Bytes
from walferry.hbase.hfiles.cells import LENGTHS
from walferry.hbase.wal.cells import KEY_TAIL

_FIRST = struct.pack(">qB", (1 << 63) - 1, 255)  # timestamp and type that sort before all others


@dataclass(frozen=True)
class Key:
    """The key of a cell."""

    data: bytes

    @classmethod
    def at(cls, buf: Bytes, pos: int) -> Key:
        """Return the key of the cell at `pos`."""
        start = pos + LENGTHS
        return cls(buf[start : start + int.from_bytes(buf[pos : pos + 4].tobytes(), signed=True)].tobytes())

    @property
    def row(self) -> bytes:
        """The row."""
        return self.data[2 : 2 + int.from_bytes(self.data[:2])]

    @property
    def family(self) -> bytes:
        """The family."""
        start = 3 + len(self.row)
        return self.data[start : start + self.data[start - 1]]

    @property
    def qualifier(self) -> bytes:
        """The qualifier."""
        return self.data[3 + len(self.row) + len(self.family) : -KEY_TAIL]


def first_key(row: bytes, family: bytes = b"", qualifier: bytes = b"") -> bytes:
    """Return the key that sorts before the keys of all cells of a row, or of one of its columns."""
    return len(row).to_bytes(2) + row + bytes([len(family)]) + family + qualifier + _FIRST


def key_between(before: Key | None, first: Key) -> bytes:
    """Return a short key that sorts after `before` and not after `first`. The two have one family and differ."""
    if before is None:
        return first.data
    if (row := _between(before.row, first.row)) is not None:
        return first_key(row)
    if (qualifier := _between(before.qualifier, first.qualifier)) is not None:
        return first_key(first.row, first.family, qualifier)
    return first.data


def _between(left: bytes, right: bytes) -> bytes | None:
    """Return the shortest bytes that sort after `left` and not after `right`, or None if the two are equal."""
    common = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    if common == len(left):
        return None if common == len(right) else left + b"\0"
    return left[:common] + bytes([left[common] + 1])
