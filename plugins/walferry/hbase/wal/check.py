"""Checks every length of an entry's cells before anything relies on it.

A cell that HBase's own reader refuses (KeyValueUtil.checkKeyValueBytes) is a problem. A sink checks nothing, and once a peer
cluster's WAL contains such a cell, its RegionServers can neither replicate nor recover that WAL.
"""

from __future__ import annotations

from typing import Final

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import INCOMPLETE, read_int32, read_uint8, read_uint16
from walferry.base.kernels.types import Bytes
from walferry.hbase.wal.cells import CELL_LENGTHS, KEY_TAIL, MAX_FAMILY, MAX_ROW, MAX_TAGS, MIN_CELL, MIN_KEY, MIN_TAG, CellType
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, Problem

# One bit for each type but MAXIMUM.
_TYPES: Final[int] = sum(1 << kind for kind in CellType if kind is not CellType.MAXIMUM)


@inlined
def tags_fit(buf: Bytes, pos: int, end: int) -> bool:
    """Return whether `buf[pos:end]` is a series of whole tags."""
    while end - pos >= MIN_TAG:
        length = read_uint16(buf, pos)
        if length < 1 or length > end - pos - 2:
            return False
        pos += 2 + length
    return pos == end


@inlined
def is_type(code: int) -> bool:
    """Return whether a cell may have the type `code`."""
    return code == CellType.MAXIMUM or (code <= CellType.DELETE_FAMILY and _TYPES >> code & 1 == 1)


@inlined
def check_cell(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Check the cell at `pos`. Returns (position, status).

    If the status is Problem.NONE, the position is the one after the cell. If it is another Problem, the position is the fault's
    offset. If it is INCOMPLETE, the position is the smallest end of the range with which the check can go on.
    """
    if end - pos < CELL_LENGTHS:
        return pos + MIN_CELL, INCOMPLETE
    kv_len, key_len, val_len = read_int32(buf, pos), read_int32(buf, pos + 4), read_int32(buf, pos + 8)
    tags_part = kv_len - 8 - key_len - val_len  # 0, or 2 + tagsLen
    if key_len < MIN_KEY or val_len < 0 or kv_len > MAX_ENTRY_BYTES or tags_part < 0 or tags_part > 2 + MAX_TAGS:
        return pos, Problem.BAD_CELL_LENGTHS
    after = pos + 4 + kv_len
    tags = after - tags_part
    if tags_part > 0 and (tags_part < 2 or (tags <= end - 2 and read_uint16(buf, tags) != tags_part - 2)):
        return pos, Problem.BAD_TAGS
    if after > end:
        return after, INCOMPLETE
    key = pos + CELL_LENGTHS
    row_len = read_uint16(buf, key)
    if row_len > key_len - MIN_KEY or row_len > MAX_ROW:
        return key, Problem.BAD_CELL_KEY
    fam_len = read_uint8(buf, key + 2 + row_len)
    if fam_len > MAX_FAMILY or fam_len > key_len - MIN_KEY - row_len:
        return key + 2 + row_len, Problem.BAD_CELL_KEY
    if not is_type(read_uint8(buf, key + key_len - 1)):
        return key + key_len - 1, Problem.BAD_CELL_TYPE
    if read_uint8(buf, key + key_len - KEY_TAIL) > 0x7F:
        return key + key_len - KEY_TAIL, Problem.BAD_TIMESTAMP
    if tags_part > 2 and not tags_fit(buf, tags + 2, after):
        return tags, Problem.BAD_TAGS
    return after, Problem.NONE


@inlined
def check_cells(buf: Bytes, start: int, end: int, count: int, limit: int) -> tuple[int, int]:
    """Check `count` cells from `start` on, which must end by `limit`. Returns the same as `check_cell`."""
    pos = start
    for left in range(count, 0, -1):
        if left * MIN_CELL > limit - pos:
            return pos, Problem.BAD_CELL_COUNT if left == count else Problem.ENTRY_TOO_LONG
        after, status = check_cell(buf, pos, end)
        if status == INCOMPLETE and after > limit:
            return pos, Problem.ENTRY_TOO_LONG
        if status != Problem.NONE:
            return after, status
        pos = after
    return pos, Problem.NONE
