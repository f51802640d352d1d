"""Decodes WALs to Arrow record batches: one row for each cell, in file order.

    column        type            what
    region        string          encoded region name, as in the region's folder
    table         string          "table" or "namespace:table"
    sequence_id   int64           of the entry: log_sequence_number
    write_time    int64           of the entry: milliseconds since the epoch
    cluster_ids   list<string>    UUIDs of the clusters that the entry has been through by replication
    row           binary
    family        binary
    qualifier     binary
    timestamp     int64           of the cell, as the client or the server set it; milliseconds by convention only
    type          string          Put, Delete, DeleteFamilyVersion, DeleteColumn or DeleteFamily; also Minimum and Maximum, which
                                  HBase uses for searches and, if a client puts such a cell, keeps like a Put
    value         binary
    tags          binary          empty, or (uint16 length of type and data, int8 type, data)* as HBase has them
    key_offset    int64           file offset of the cell's entry: the position from which reading begins with it
    next_offset   int64           file offset just after the entry: the position once the entry has been handled

No column has nulls. Entries without cells have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from walferry.base.kernels.read import Ints
from walferry.hbase.wal.columns import BytesColumn, Columns, IntColumn, cell_columns
from walferry.hbase.wal.decoded_keys import ClusterIds, decode_keys
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.reader import read_windows
from walferry.hbase.wal.windows import PartialTail, RandomAccess, UnwrapKey, Window

BATCH_BYTES = 16 << 20
DECODING_WINDOW_BYTES = 4 << 20  # half of shipping's, so that a window and its columns stay in the cache and in malloc's arenas
MAX_BATCH_BYTES = 1 << 30  # with a last row of 256 MiB this is still within Arrow's 32-bit offsets

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


def read_batches(
    file: RandomAccess,
    path: str,
    position: int = 0,
    *,
    batch_bytes: int = BATCH_BYTES,
    window_bytes: int = DECODING_WINDOW_BYTES,
    partial_tail: PartialTail = "error",
    unwrap_key: UnwrapKey | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a closed WAL from `position` on, in batches with SCHEMA.

    Arguments and errors are those of `read_windows`. A batch has at most about `batch_bytes` bytes (up to MAX_BATCH_BYTES), or
    one row.
    """
    if not 0 < batch_bytes <= MAX_BATCH_BYTES:
        raise ValueError(f"a batch may have 1 to {MAX_BATCH_BYTES} bytes, not {batch_bytes}")
    for window in read_windows(file, path, position, window_bytes=window_bytes, partial_tail=partial_tail, unwrap_key=unwrap_key):
        yield from decode_window(window, path, batch_bytes)


def decode_window(window: Window, path: str, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a window as `read_batches` does.

    Raises WalCorruptError once it has yielded the entries before the broken one.
    """
    keys = decode_keys(window.buf, window.index)
    for columns in cell_columns(window.buf, window.index, keys.count, batch_bytes):
        yield _batch(columns, keys.cluster_ids, window)
    if keys.wrong:
        raise WalCorruptError(path, window.entry_offset(keys.count), keys.wrong)


def _batch(columns: Columns, cluster_ids: ClusterIds, window: Window) -> pa.RecordBatch:
    def column_of_bytes(kind: pa.DataType, column: BytesColumn) -> pa.Array:
        buffers = [None, pa.py_buffer(columns.offsets[column]), pa.py_buffer(columns.bytes_of(column))]
        return pa.Array.from_buffers(kind, columns.rows, buffers)

    def column_of_ints(values: Ints) -> pa.Array:
        return pa.Array.from_buffers(pa.int64(), columns.rows, [None, pa.py_buffer(values)])

    entry = columns.ints[IntColumn.ENTRY]
    arrays = [
        column_of_bytes(pa.string(), BytesColumn.REGION),
        column_of_bytes(pa.string(), BytesColumn.TABLE),
        column_of_ints(columns.ints[IntColumn.SEQUENCE_ID]),
        column_of_ints(columns.ints[IntColumn.WRITE_TIME]),
        _cluster_ids_column(cluster_ids, entry),
        column_of_bytes(pa.binary(), BytesColumn.ROW),
        column_of_bytes(pa.binary(), BytesColumn.FAMILY),
        column_of_bytes(pa.binary(), BytesColumn.QUALIFIER),
        column_of_ints(columns.ints[IntColumn.TIMESTAMP]),
        column_of_bytes(pa.string(), BytesColumn.TYPE),
        column_of_bytes(pa.binary(), BytesColumn.VALUE),
        column_of_bytes(pa.binary(), BytesColumn.TAGS),
        column_of_ints(window.positions[entry]),
        column_of_ints(window.next_positions[entry]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _cluster_ids_column(cluster_ids: ClusterIds, entry: Ints) -> pa.Array:
    """The list of ids of each cell's entry."""
    kind = SCHEMA.field("cluster_ids").type
    offsets = np.zeros(len(entry) + 1, dtype=np.int32)
    texts = pa.array([str(uuid) for uuid in cluster_ids.ids], pa.string())
    if cluster_ids.ids:
        counts = np.diff(cluster_ids.first)[entry]
        np.cumsum(counts, out=offsets[1:])
        # Cell i's ids are which[first[entry[i]]], which[first[entry[i]] + 1], …
        within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], counts)
        texts = texts.take(pa.array(cluster_ids.which[np.repeat(cluster_ids.first[entry], counts) + within]))
    return pa.Array.from_buffers(kind, len(entry), [None, pa.py_buffer(offsets)], children=[texts])
