"""Whether the last entry of a file was cut off, or only seems to be because its lengths are damaged.

A file that was not closed is what its writer had written at some moment, up to some byte: at most one entry of it is unfinished,
the last. So where an entry claims more than there is of the file, and another entry begins within, the claim is wrong. The other
one is known by its WALKey, which is not compressed or encrypted as a whole:

    varint keyLen, keyLen bytes of fields, first those that are required, 1 (0x0a) to 4, all well-formed
    region = 32 hexadecimal digits | decimal digits            table = letters, digits, "_", "-", ".", ":"
             or, compressed, 0xff, varint length, these | uint16 index that the dictionary has

An entry that was cut off may hold messages of somebody's that look like keys, so the names are looked at too, there must be a
number of cells, and in a file whose cells are as they are the first of them must be one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import INCOMPLETE, Bytes, Ints, read_uint8, read_uint16, read_varint
from walferry.wal.codecs.dictionaries import REGION, SIZE, TABLE, Dictionaries, field_end
from walferry.wal.scan import CELL_COUNT, FIELDS, REGION_LEN, REGION_START, TABLE_LEN, TABLE_START, parse_key, walk_cell

MAX_PLAUSIBLE_KEY: Final = 64 << 10  # bytes; a key has some hundred, or thousands if a table has very many families
MAX_KEY_VARINT: Final = 3
OVERLAP: Final = MAX_PLAUSIBLE_KEY + MAX_KEY_VARINT  # of two ranges of a file, so that every key lies in one
NONE: Final = -1
_REGION_FIELD: Final = 0x0A
_LITERAL: Final = 0xFF
_REGION_CHARS: Final = 32
_DECIMAL_CHARS: Final = 10  # of the names that regions had before they were hashes, as hbase:meta's still is


@dataclass(frozen=True)
class Keys:
    """What is known of a file's WALKeys: how many regions and tables its dictionaries have by now, if it is compressed."""

    compressed: bool = False
    regions: int = 0
    tables: int = 0
    plain_cells: bool = False  # neither compressed nor encrypted

    @classmethod
    def of(cls, dictionaries: Dictionaries) -> Keys:
        """Of a compressed file."""
        sizes = dictionaries.lists[SIZE]
        return cls(compressed=True, regions=int(sizes[REGION]), tables=int(sizes[TABLE]))


def find_entry(buf: Bytes, start: int, keys: Keys) -> int:
    """Offset in `buf`, `start` or behind it, at which an entry with its whole WALKey begins; NONE if there is none."""
    view = buf.view()
    view.flags.writeable = False  # as scan_entries does
    scratch = np.empty((FIELDS, 1), np.int64)
    return int(_find_entry(view, start, keys.compressed, keys.regions, keys.tables, keys.plain_cells, scratch))


@inlined
def _name(buf: Bytes, start: int, length: int, compressed: bool, known: int) -> tuple[int, int]:
    """(start, length) of the name in a field; a length of 0 for an index that the dictionary has, of NONE for what is no name."""
    if not compressed:
        return start, length
    end = start + length
    if field_end(buf, start, end) != end:
        return start, NONE
    if read_uint8(buf, start) != _LITERAL:
        return start, 0 if read_uint16(buf, start) < known else NONE
    name_len, name = read_varint(buf, start + 1, end)
    return name, name_len or NONE


@inlined
def _is_region(buf: Bytes, start: int, length: int) -> bool:
    if length != _REGION_CHARS and not 0 < length <= _DECIMAL_CHARS:
        return False
    for i in range(start, start + length):
        char = read_uint8(buf, i)
        digit = 48 <= char <= 57
        if not (digit or (length == _REGION_CHARS and 97 <= char <= 102)):
            return False
    return True


@inlined
def _is_table(buf: Bytes, start: int, length: int) -> bool:
    if length <= 0:
        return False
    for i in range(start, start + length):
        char = read_uint8(buf, i)
        alphanumeric = 48 <= char <= 57 or 65 <= char <= 90 or 97 <= char <= 122 or char >= 128  # letters of other scripts too
        if not (alphanumeric or char == 45 or char == 46 or char == 58 or char == 95):
            return False
    return True


@unmanaged
def _find_entry(
    buf: Bytes, start: int, compressed: bool, regions: int, tables: int, plain_cells: bool, scratch: Ints
) -> int:
    end = len(buf)
    for key in range(start + 1, end):
        if read_uint8(buf, key) != _REGION_FIELD:
            continue
        for pos in range(max(start, key - MAX_KEY_VARINT), key):
            key_len, after = read_varint(buf, pos, key)
            if after != key or not 0 < key_len <= min(MAX_PLAUSIBLE_KEY, end - key):
                continue
            if parse_key(buf, key, key + key_len, scratch, 0) != 0 or scratch[CELL_COUNT, 0] == 0:
                continue
            region, region_len = _name(buf, scratch[REGION_START, 0], scratch[REGION_LEN, 0], compressed, regions)
            table, table_len = _name(buf, scratch[TABLE_START, 0], scratch[TABLE_LEN, 0], compressed, tables)
            named = (compressed and region_len == 0) or _is_region(buf, region, region_len)
            named = named and ((compressed and table_len == 0) or _is_table(buf, table, table_len))
            if named and plain_cells:
                _, status = walk_cell(buf, key + key_len, end)
                named = status == 0 or status == INCOMPLETE
            if named:
                return pos
    return NONE
