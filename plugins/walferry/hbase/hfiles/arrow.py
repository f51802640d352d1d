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
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.hfiles.cells import family_of, qualifier_of, row_of, tags_of, timestamp_of, type_of, value_len_of, value_start
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
    offsets = np.zeros((len(BytesColumn), count + 1), np.int32)
    times, kinds = np.empty(count, np.int64), np.empty(count, np.int64)
    measure_cells(data, starts, tags, offsets, times, kinds)
    sizes = offsets[:, -1].astype(np.int64)
    ends = np.cumsum(sizes)
    out: Bytes = np.empty(int(ends[-1]), np.uint8)
    copy_columns(data, starts, tags, ends - sizes, offsets, out)
    found = {
        each.name.lower(): pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets[each]), pa.py_buffer(out[ends[each] - sizes[each] : ends[each]])]
        )
        for each in BytesColumn
    }
    return {**found, "timestamp": pa.array(times), "type": _TYPES.take(pa.array(kinds))}


@unmanaged
def measure_cells(data: Bytes, starts: Ints, tags: bool, offsets: OutInt32Table, times: OutInts, kinds: OutInts) -> None:
    """Write where each cell's bytes end in each column, and the cells' timestamps and types."""
    for i in range(len(starts)):
        pos = starts[i]
        _, row_len = row_of(data, pos)
        _, family_len = family_of(data, pos)
        _, qualifier_len = qualifier_of(data, pos)
        tags_len = 0
        if tags:
            _, tags_len = tags_of(data, pos)
        offsets[BytesColumn.ROW, i + 1] = offsets[BytesColumn.ROW, i] + row_len
        offsets[BytesColumn.FAMILY, i + 1] = offsets[BytesColumn.FAMILY, i] + family_len
        offsets[BytesColumn.QUALIFIER, i + 1] = offsets[BytesColumn.QUALIFIER, i] + qualifier_len
        offsets[BytesColumn.VALUE, i + 1] = offsets[BytesColumn.VALUE, i] + value_len_of(data, pos)
        offsets[BytesColumn.TAGS, i + 1] = offsets[BytesColumn.TAGS, i] + tags_len
        times[i] = timestamp_of(data, pos)
        kinds[i] = type_of(data, pos)


@unmanaged
def copy_columns(data: Bytes, starts: Ints, tags: bool, begins: Ints, offsets: OutInt32Table, out: OutBytes) -> None:
    """Copy the cells' bytes to their columns, which begin in `out` at `begins`."""
    for i in range(len(starts)):
        pos = starts[i]
        row, row_len = row_of(data, pos)
        family, family_len = family_of(data, pos)
        qualifier, qualifier_len = qualifier_of(data, pos)
        value = value_start(data, pos)
        copy_bytes(out, begins[BytesColumn.ROW] + offsets[BytesColumn.ROW, i], data, row, row_len)
        copy_bytes(out, begins[BytesColumn.FAMILY] + offsets[BytesColumn.FAMILY, i], data, family, family_len)
        copy_bytes(out, begins[BytesColumn.QUALIFIER] + offsets[BytesColumn.QUALIFIER, i], data, qualifier, qualifier_len)
        copy_bytes(out, begins[BytesColumn.VALUE] + offsets[BytesColumn.VALUE, i], data, value, value_len_of(data, pos))
        if tags:
            start, tags_len = tags_of(data, pos)
            copy_bytes(out, begins[BytesColumn.TAGS] + offsets[BytesColumn.TAGS, i], data, start, tags_len)
