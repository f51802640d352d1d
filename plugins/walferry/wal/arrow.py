"""WALs as Arrow record batches: one row a cell, in file order.

    column        type            what
    region        string          encoded region name, as in the region's folder
    table         string          "table" or "namespace:table"
    sequence_id   int64           of the entry: log_sequence_number
    write_time    int64           of the entry: milliseconds since the epoch
    cluster_ids   list<string>    clusters that the entry has been through by replication: UUIDs
    row           binary
    family        binary
    qualifier     binary
    timestamp     int64           of the cell, as the client or the server set it; milliseconds by convention only
    type          string          Put, Delete, DeleteFamilyVersion, DeleteColumn or DeleteFamily
    value         binary
    tags          binary          empty, or (uint16 length of type and data, int8 type, data)* as HBase has them
    key_offset    int64           file offset of the cell's entry: the position from which reading begins with it
    next_offset   int64           file offset just after the entry: the position once it has been dealt with

No column has nulls. Entries without cells have no row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walferry.wal.cells import CellIndex, Parts, gather, index_cells
from walferry.wal.errors import WalCorruptError
from walferry.wal.keys import ClusterIds, parse_keys
from walferry.wal.reader import WINDOW_BYTES, PartialTail, RandomAccess, Window, read_windows
from walferry.wal.scan import Bytes, Ints

BATCH_BYTES = 16 << 20
MAX_BATCH_BYTES = 1 << 30  # with a last row of 256 MiB still within Arrow's 32-bit offsets

SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("region", pa.string()),
            ("table", pa.string()),
            ("sequence_id", pa.int64()),
            ("write_time", pa.int64()),
            ("cluster_ids", pa.list_(pa.field("element", pa.string(), nullable=False))),
            ("row", pa.binary()),
            ("family", pa.binary()),
            ("qualifier", pa.binary()),
            ("timestamp", pa.int64()),
            ("type", pa.string()),
            ("value", pa.binary()),
            ("tags", pa.binary()),
            ("key_offset", pa.int64()),
            ("next_offset", pa.int64()),
        )
    ]
)
TYPE_NAMES = {4: "Put", 8: "Delete", 10: "DeleteFamilyVersion", 12: "DeleteColumn", 14: "DeleteFamily"}

_FIXED_BYTES = 5 * 8 + 8 * 4 + 10  # of a row: int64 columns, offsets, the name of the type
_ID_BYTES = 40
_NAMES = np.frombuffer("".join(TYPE_NAMES.values()).encode(), dtype=np.uint8)
_NAME_LEN = np.array([len(TYPE_NAMES.get(code, "")) for code in range(16)], dtype=np.int64)
_NAME_START = np.cumsum(_NAME_LEN) - _NAME_LEN


def read_batches(
    file: RandomAccess,
    path: str,
    position: int = 0,
    *,
    batch_bytes: int = BATCH_BYTES,
    window_bytes: int = WINDOW_BYTES,
    partial_tail: PartialTail = "error",
) -> Iterator[pa.RecordBatch]:
    """The cells of a closed WAL from `position` on, in batches with SCHEMA; arguments and errors as of `read_windows`.

    A batch has about `batch_bytes` bytes at most (up to MAX_BATCH_BYTES), or one row.
    """
    if not 0 < batch_bytes <= MAX_BATCH_BYTES:
        raise ValueError(f"a batch may have 1 to {MAX_BATCH_BYTES} bytes, not {batch_bytes}")
    for window in read_windows(file, path, position, window_bytes=window_bytes, partial_tail=partial_tail):
        yield from decode_window(window, path, batch_bytes)


def decode_window(window: Window, path: str, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """The cells of a window, as `read_batches` gives them. Raises WalCorruptError, after the entries before the broken one."""
    keys = parse_keys(window.buf, window.index)
    cells = index_cells(window.buf, window.index, keys.count)
    for first, last in _slices(_row_bytes(window, cells, keys.cluster_ids), batch_bytes):
        yield _batch(window, _cells_between(cells, first, last), keys.cluster_ids)
    if keys.wrong:
        raise WalCorruptError(path, int(window.positions[keys.count]), keys.wrong)


def _row_bytes(window: Window, cells: CellIndex, cluster_ids: ClusterIds) -> Ints:
    """What each row will take in a batch."""
    count = len(cluster_ids.first) - 1
    of_entry = window.index.region_len[:count] + window.index.table_len[:count] + _ID_BYTES * np.diff(cluster_ids.first)
    parts = (cells.row, cells.family, cells.qualifier, cells.value, cells.tags)
    size: Ints = of_entry[cells.entry] + _FIXED_BYTES
    for part in parts:
        size += part.length
    return size


def _slices(sizes: Ints, limit: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of `limit` bytes at most, or of one row."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield first, last
        first = last


def _cells_between(cells: CellIndex, first: int, last: int) -> CellIndex:
    def cut(parts: Parts) -> Parts:
        return Parts(parts.start[first:last], parts.length[first:last])

    return CellIndex(
        cells.entry[first:last],
        cut(cells.row),
        cut(cells.family),
        cut(cells.qualifier),
        cells.timestamp[first:last],
        cells.type[first:last],
        cut(cells.value),
        cut(cells.tags),
    )


def _batch(window: Window, cells: CellIndex, cluster_ids: ClusterIds) -> pa.RecordBatch:
    buf, index, entry = window.buf, window.index, cells.entry
    columns = [
        _bytes_column(pa.string(), buf, Parts(index.region_start[entry], index.region_len[entry])),
        _bytes_column(pa.string(), buf, Parts(index.table_start[entry], index.table_len[entry])),
        _ints_column(index.sequence_id[entry]),
        _ints_column(index.write_time[entry]),
        _cluster_ids_column(cluster_ids, entry),
        _bytes_column(pa.binary(), buf, cells.row),
        _bytes_column(pa.binary(), buf, cells.family),
        _bytes_column(pa.binary(), buf, cells.qualifier),
        _ints_column(cells.timestamp),
        _bytes_column(pa.string(), _NAMES, Parts(_NAME_START[cells.type], _NAME_LEN[cells.type])),
        _bytes_column(pa.binary(), buf, cells.value),
        _bytes_column(pa.binary(), buf, cells.tags),
        _ints_column(window.positions[entry]),
        _ints_column(window.next_positions[entry]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _bytes_column(kind: pa.DataType, buf: Bytes, parts: Parts) -> pa.Array:
    offsets, data = gather(buf, parts)
    return pa.Array.from_buffers(kind, len(parts.start), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _ints_column(values: Ints) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _cluster_ids_column(cluster_ids: ClusterIds, entry: Ints) -> pa.Array:
    """The list of ids of each cell's entry."""
    counts = np.diff(cluster_ids.first)[entry]
    offsets = np.zeros(len(entry) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    # Cell i's ids are which[first[entry]], which[first[entry] + 1], …
    within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], counts)
    which: NDArray[np.int64] = cluster_ids.which[np.repeat(cluster_ids.first[entry], counts) + within]
    texts = pa.array([str(uuid) for uuid in cluster_ids.ids], pa.string()).take(pa.array(which, pa.int64()))
    kind = SCHEMA.field("cluster_ids").type
    return pa.Array.from_buffers(kind, len(entry), [None, pa.py_buffer(offsets)], children=[texts])
