"""Takes cells apart: the layout of a cell in uncompressed WALs and in the cell blocks of HBase's RPC.

    cell = int32 kvLen, int32 keyLen, int32 valLen, key, value [, uint16 tagsLen, tags]     kvLen counts the bytes after it
    key  = int16 rowLen, row, int8 famLen, family, qualifier, int64 timestamp, int8 type    keyLen bytes
    tags = { uint16 length, int8 type, data }*                                              length counts type and data

Integers are big-endian. `check_cell` (hbase/wal/check.py) checks the lengths once, when a WAL batch is scanned. Everything here
relies on that check and does not repeat it.

Source: HBase's KeyValue, KeyValueUtil, TagType (branch-2.6).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import read_int32, read_uint8, read_uint16
from walferry.base.kernels.types import Bytes, OutBytes
from walferry.base.kernels.write import put_int

CELL_LENGTHS: Final = 12  # bytes of kvLen, keyLen and valLen
KEY_TAIL: Final = 9  # bytes of timestamp and type
MIN_KEY: Final = 12  # rowLen, famLen, timestamp, type
MIN_CELL: Final = CELL_LENGTHS + MIN_KEY
MAX_ROW: Final = 0x7FFF
MAX_FAMILY: Final = 127
MAX_TAGS: Final = 0x7FFF
MIN_TAG: Final = 3  # its length and its type

# The family of the cells in which RegionServers record their own events, and the qualifier of bulk loads (WALEdit.java).
META_FAMILY: Final[bytes] = b"METAFAMILY"
BULK_LOAD: Final[bytes] = b"HBASE::BULK_LOAD"


class CellType(enum.IntEnum):
    """The types of HBase's KeyValue.Type.

    HBase uses MINIMUM and MAXIMUM for searches. It also accepts them in a client's put, and its sink writes them like a Put.
    """

    MINIMUM = 0
    PUT = 4
    DELETE = 8
    DELETE_FAMILY_VERSION = 10
    DELETE_COLUMN = 12
    DELETE_FAMILY = 14
    MAXIMUM = 255

    @property
    def hbase_name(self) -> str:
        """The name in HBase's enum, e.g. DeleteColumn."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TagType(enum.IntEnum):
    """The types of tags that Walferry looks at (TagType.java)."""

    VISIBILITY = 2
    VISIBILITY_FORMAT = 4
    VISIBILITY_EXPRESSION = 7
    TTL = 8


@inlined
def cell_end(buf: Bytes, pos: int) -> int:
    """Return the position after the cell at `pos`."""
    return pos + 4 + read_int32(buf, pos)


@inlined
def row_of(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return (start, length) of the row of the cell at `pos`."""
    return pos + CELL_LENGTHS + 2, read_uint16(buf, pos + CELL_LENGTHS)


@inlined
def family_of(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return (start, length) of the family of the cell at `pos`."""
    row, row_len = row_of(buf, pos)
    return row + row_len + 1, read_uint8(buf, row + row_len)


@inlined
def value_start(buf: Bytes, pos: int) -> int:
    """Return where the value of the cell at `pos` begins, which is where its key ends."""
    return pos + CELL_LENGTHS + read_int32(buf, pos + 4)


@inlined
def tags_start(buf: Bytes, pos: int) -> int:
    """Return where the value of the cell at `pos` ends. The length of the tags follows if the cell does not end there."""
    return value_start(buf, pos) + read_int32(buf, pos + 8)


@inlined
def has_tag(buf: Bytes, pos: int, kind: int) -> bool:
    """Return whether the cell at `pos` has a tag of type `kind`."""
    tag, end = tags_start(buf, pos) + 2, cell_end(buf, pos)
    while tag + MIN_TAG <= end:
        if read_uint8(buf, tag + 2) == kind:
            return True
        tag += 2 + read_uint16(buf, tag)
    return False


@inlined
def put_lengths(out: OutBytes, at: int, key_len: int, val_len: int, tags_len: int) -> int:
    """Write kvLen, keyLen and valLen of a cell to `out[at:]`. Returns the position after them."""
    at = put_int(out, at, CELL_LENGTHS - 4 + key_len + val_len + (2 + tags_len if tags_len > 0 else 0), 4)
    return put_int(out, put_int(out, at, key_len, 4), val_len, 4)


_LENGTHS = struct.Struct(">iii")


@dataclass(frozen=True)
class Cell:
    """One cell's bytes, for the few cells that Python code handles instead of kernels."""

    data: bytes

    @property
    def _key_end(self) -> int:
        return CELL_LENGTHS + int.from_bytes(self.data[4:8])

    @property
    def _value_end(self) -> int:
        return self._key_end + int.from_bytes(self.data[8:12])

    @property
    def row(self) -> bytes:
        """The row."""
        start = CELL_LENGTHS + 2
        return self.data[start : start + int.from_bytes(self.data[CELL_LENGTHS:start])]

    @property
    def column(self) -> tuple[bytes, bytes]:
        """The family and the qualifier."""
        family = CELL_LENGTHS + 3 + len(self.row)
        qualifier = family + self.data[family - 1]
        return self.data[family:qualifier], self.data[qualifier : self._key_end - KEY_TAIL]

    @property
    def type(self) -> int:
        """The type's code, one of CellType."""
        return self.data[self._key_end - 1]

    @property
    def timestamp(self) -> int:
        """The timestamp in milliseconds."""
        return int.from_bytes(self.data[self._key_end - KEY_TAIL : self._key_end - 1], signed=True)

    @property
    def value(self) -> bytes:
        """The value."""
        return self.data[self._key_end : self._value_end]

    @property
    def tags(self) -> bytes:
        """The tags without the total length before them; empty if the cell has no tags."""
        return self.data[self._value_end + 2 :]

    def with_value(self, value: bytes) -> Cell:
        """Return this cell with another value."""
        return self._with(value, self.data[self._value_end :])

    def with_tags(self, tags: bytes) -> Cell:
        """Return this cell with other tags."""
        return self._with(self.value, len(tags).to_bytes(2) + tags if tags else b"")

    def _with(self, value: bytes, after: bytes) -> Cell:
        key = self.data[CELL_LENGTHS : self._key_end]
        lengths = _LENGTHS.pack(CELL_LENGTHS - 4 + len(key) + len(value) + len(after), len(key), len(value))
        return Cell(lengths + key + value + after)


def split_cells(data: bytes) -> Iterator[Cell]:
    """Yield the cells that `data` consists of."""
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        yield Cell(data[at:end])
        at = end


def split_tags(tags: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (type, data, all bytes) of each tag in a cell's tags."""
    at = 0
    while at < len(tags):
        end = at + 2 + int.from_bytes(tags[at : at + 2])
        yield tags[at + 2], tags[at + 3 : end], tags[at:end]
        at = end


def encode_tag(kind: TagType, data: bytes) -> bytes:
    """Return one tag's bytes."""
    return (1 + len(data)).to_bytes(2) + bytes([kind]) + data
