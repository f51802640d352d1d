"""Puts decoded cells into Arrow's columns, with one row for each cell.

row, family, qualifier, value    binary
timestamp                        int64     as the client or the server set it; milliseconds by convention only
type                             string    Put, Delete, …, as in wal/arrow.py
tags                             binary    as HBase stores them; empty without tags
"""

from __future__ import annotations

import enum

import numpy as np
import pyarrow as pa

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInt32Table, OutInts
from walferry.hbase.hfiles.cells import family_of, qualifier_of, row_of, tags_of, timestamp_of, type_of, value_len_of, value_start
from walferry.hbase.wal.arrow import put
from walferry.hbase.wal.cells import CellType

_NAMES = {int(kind): kind.hbase_name for kind in CellType}
_TYPES = pa.array([_NAMES.get(code, "") for code in range(256)], pa.string())


class BytesColumn(enum.IntEnum):
    """The columns of bytes."""

    ROW = 0
    FAMILY = 1
    QUALIFIER = 2
    VALUE = 3
    TAGS = 4


def columns_of(data: Bytes, starts: Ints, *, tags: bool) -> dict[str, pa.Array]:
    """Return the columns of the cells that begin at `starts` (decoding.py), by their names. `tags`: whether tags follow each one.

    All cells together have less than 2 GiB.
    """
    count = len(starts)
    sizes = np.zeros(len(BytesColumn), np.int64)
    measure_cells(data, starts, tags, sizes)
    ends = np.cumsum(sizes)
    offsets = np.zeros((len(BytesColumn), count + 1), np.int32)
    times, kinds = np.empty(count, np.int64), np.empty(count, np.int64)
    out: Bytes = np.empty(int(ends[-1]), np.uint8)
    copy_cells(data, starts, tags, ends - sizes, offsets, out, times, kinds)
    found = {
        each.name.lower(): pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets[each]), pa.py_buffer(out[ends[each] - sizes[each] : ends[each]])]
        )
        for each in BytesColumn
    }
    return {**found, "timestamp": pa.array(times), "type": _TYPES.take(pa.array(kinds))}


@unmanaged
def measure_cells(data: Bytes, starts: Ints, tags: bool, sizes: OutInts) -> None:
    """Add the bytes of all cells to the sizes of the columns."""
    for i in range(len(starts)):
        pos = starts[i]
        sizes[BytesColumn.ROW] += row_of(data, pos)[1]
        sizes[BytesColumn.FAMILY] += family_of(data, pos)[1]
        sizes[BytesColumn.QUALIFIER] += qualifier_of(data, pos)[1]
        sizes[BytesColumn.VALUE] += value_len_of(data, pos)
        if tags:
            sizes[BytesColumn.TAGS] += tags_of(data, pos)[1]


@unmanaged
def copy_cells(
    data: Bytes, starts: Ints, tags: bool, begins: Ints, offsets: OutInt32Table, out: OutBytes, times: OutInts, kinds: OutInts
) -> None:
    """Copy the cells' bytes to their columns, which begin in `out` at `begins`, and write their timestamps and types."""
    for i in range(len(starts)):
        pos = starts[i]
        row, row_len = row_of(data, pos)
        family, family_len = family_of(data, pos)
        qualifier, qualifier_len = qualifier_of(data, pos)
        tag, tags_len = tags_of(data, pos) if tags else (pos, 0)
        put(data, row, row_len, BytesColumn.ROW, i, begins, offsets, out)
        put(data, family, family_len, BytesColumn.FAMILY, i, begins, offsets, out)
        put(data, qualifier, qualifier_len, BytesColumn.QUALIFIER, i, begins, offsets, out)
        put(data, value_start(data, pos), value_len_of(data, pos), BytesColumn.VALUE, i, begins, offsets, out)
        put(data, tag, tags_len, BytesColumn.TAGS, i, begins, offsets, out)
        times[i] = timestamp_of(data, pos)
        kinds[i] = type_of(data, pos)
