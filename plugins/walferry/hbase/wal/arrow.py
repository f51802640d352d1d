"""Decodes WALs to Arrow record batches with one row for each cell, in file order.

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
    tags          binary          empty, or (uint16 length of type and data, int8 type, data)* as HBase stores them
    key_offset    int64           file offset of the cell's entry: the position from which reading begins with it
    next_offset   int64           file offset just after the entry: the position once the entry has been handled
    cell          int64           number of the cell in its entry, from 0 on: with key_offset it names the cell within the file

No column contains nulls. An entry without cells has no row.

The cells of indexed entries are copied into columns in Arrow's layout: the bytes of all cells one after the other, and the int32
offsets of the cells in them, plus one for the end. The entries come from `scan_entries`, which has checked every length.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import read_int64, read_uint8
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInt32s, OutInt32Table, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.wal.cells import KEY_TAIL, CellType, cell_end, family_of, row_of, tags_start, value_start
from walferry.hbase.wal.decoded_keys import ClusterIds, decode_keys
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.scan import EntryIndex
from walferry.hbase.wal.wal_batches import PartialTail, RandomAccess, UnwrapKey, WalBatch

BATCH_BYTES = 16 << 20
DECODING_WAL_BATCH_BYTES = 4 << 20  # half of shipping's: a WAL batch and its columns stay in the cache and in malloc's arenas
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
            ("cell", pa.int64()),
        )
    ]
)


def read_batches(
    file: RandomAccess,
    path: str,
    position: int = 0,
    *,
    batch_bytes: int = BATCH_BYTES,
    wal_batch_bytes: int = DECODING_WAL_BATCH_BYTES,
    partial_tail: PartialTail = "error",
    unwrap_key: UnwrapKey | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a closed WAL from `position` on, in batches with SCHEMA.

    Takes the arguments and raises the errors of `read_wal_batches`. A batch contains at most about `batch_bytes` bytes (up to
    MAX_BATCH_BYTES), or one row.
    """
    if not 0 < batch_bytes <= MAX_BATCH_BYTES:
        raise ValueError(f"a batch may have 1 to {MAX_BATCH_BYTES} bytes, not {batch_bytes}")
    for wal_batch in read_wal_batches(
        file, path, position, wal_batch_bytes=wal_batch_bytes, partial_tail=partial_tail, unwrap_key=unwrap_key
    ):
        yield from decode_wal_batch(wal_batch, path, batch_bytes)


def decode_wal_batch(wal_batch: WalBatch, path: str, batch_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a WAL batch as `read_batches` does.

    Raises WalCorruptError once it has yielded the entries before the broken one.
    """
    for found, _ in decode_cells(wal_batch, path, batch_bytes):
        yield found


def decode_cells(wal_batch: WalBatch, path: str, batch_bytes: int = BATCH_BYTES) -> Iterator[tuple[pa.RecordBatch, Columns]]:
    """Yield what `decode_wal_batch` does, and where in the WAL batch the cells are."""
    keys = decode_keys(wal_batch.buf, wal_batch.index)
    for columns in cell_columns(wal_batch.buf, wal_batch.index, keys.count, batch_bytes):
        yield _batch(columns, keys.cluster_ids, wal_batch), columns
    if keys.wrong:
        raise WalCorruptError(path, wal_batch.entry_offset(keys.count), keys.wrong)


def _batch(columns: Columns, cluster_ids: ClusterIds, wal_batch: WalBatch) -> pa.RecordBatch:
    def column(name: str, *buffers: Any) -> pa.Array:
        return pa.Array.from_buffers(SCHEMA.field(name).type, columns.rows, [None, *map(pa.py_buffer, buffers)])

    entry = columns.ints[IntColumn.ENTRY]
    ints = {each.name.lower(): columns.ints[each] for each in IntColumn if each not in (IntColumn.ENTRY, IntColumn.START)}
    ints |= {"key_offset": wal_batch.positions[entry], "next_offset": wal_batch.next_positions[entry]}
    arrays = {name: column(name, values) for name, values in ints.items()}
    for each in BytesColumn:
        name = each.name.lower()
        arrays[name] = column(name, columns.offsets[each], columns.bytes_of(each))
    arrays["cluster_ids"] = _cluster_ids_column(cluster_ids, entry)
    return pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def _cluster_ids_column(cluster_ids: ClusterIds, entry: Ints) -> pa.Array:
    """Return a column with the cluster ids of each cell's entry."""
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


class BytesColumn(enum.IntEnum):
    """The columns of bytes, by their names in SCHEMA."""

    REGION = 0
    TABLE = 1
    ROW = 2
    FAMILY = 3
    QUALIFIER = 4
    TYPE = 5
    VALUE = 6
    TAGS = 7


class IntColumn(enum.IntEnum):
    """The columns of integers, by their names in SCHEMA, each cell's entry, and its position in the WAL batch's buffer."""

    ENTRY = 0
    SEQUENCE_ID = 1
    WRITE_TIME = 2
    TIMESTAMP = 3
    CELL = 4
    START = 5


CLUSTER_ID_BYTES: Final = 40  # 36 of text, 4 of offset
# The bytes that a row takes in addition to its cell's bytes: its offsets in the columns (including the list of cluster ids), its
# integers, and its two file offsets.
FIXED_BYTES: Final[int] = 4 * (len(BytesColumn) + 1) + 8 * (len(IntColumn) + 1)

_NAMES = np.frombuffer("".join(kind.hbase_name for kind in CellType).encode(), dtype=np.uint8)
_NAME_LEN = np.zeros(256, dtype=np.int64)
_NAME_LEN[list(CellType)] = [len(kind.hbase_name) for kind in CellType]
_NAME_START = np.cumsum(_NAME_LEN) - _NAME_LEN
_Three = tuple[Ints, Ints, Ints]
_Four = tuple[Ints, Ints, Ints, Ints]

_ALIGNMENT = 64  # what Arrow recommends for buffers


@dataclass(frozen=True)
class Columns:
    """Some cells of a WAL batch, in file order."""

    rows: int
    offsets: NDArray[np.int32]  # [BytesColumn, row], with one row more than there are cells
    data: Bytes  # all columns of bytes
    starts: Ints  # of each BytesColumn in `data`
    sizes: Ints  # of each BytesColumn in `data`
    ints: Ints  # [IntColumn, row]

    def bytes_of(self, column: BytesColumn) -> Bytes:
        """Return the bytes of all cells in one column."""
        return self.data[self.starts[column] : self.starts[column] + self.sizes[column]]


def cell_columns(buf: Bytes, entries: EntryIndex, count: int, limit: int) -> Iterator[Columns]:
    """Yield the cells of the first `count` entries in `buf`, in batches of at most `limit` bytes, or of one cell."""
    cells = (entries.cells_start[:count], entries.cell_count[:count], entries.cells_end[:count])
    keys = (entries.entry_start, entries.sequence_id, entries.write_time, entries.cluster_id_count)
    names = (entries.region_start, entries.region_len, entries.table_start, entries.table_len)
    cursor = np.zeros(3, dtype=np.int64)
    sizes = np.empty(len(BytesColumn), dtype=np.int64)
    while rows := measure(buf, cells, keys, names, cursor, limit, sizes):
        aligned = (sizes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        starts = np.cumsum(aligned) - aligned
        offsets = np.empty((len(BytesColumn), rows + 1), dtype=np.int32)
        data = np.empty(int(aligned.sum()), dtype=np.uint8)
        ints = np.empty((len(IntColumn), rows), dtype=np.int64)
        fill(buf, cells, keys, names, cursor, rows, (_NAME_START, _NAME_LEN), _NAMES, starts, offsets, data, ints)
        yield Columns(rows, offsets, data, starts, sizes.copy(), ints)


@inlined
def lengths_of(buf: Bytes, pos: int) -> tuple[int, int, int, int, int]:
    """Return the lengths of row, family, qualifier, value and tags of the cell at `pos`."""
    _, row_len = row_of(buf, pos)
    family, family_len = family_of(buf, pos)
    value, tags = value_start(buf, pos), tags_start(buf, pos)
    return row_len, family_len, value - KEY_TAIL - family - family_len, tags - value, max(cell_end(buf, pos) - tags - 2, 0)


@unmanaged
def measure(buf: Bytes, cells: _Three, keys: _Four, names: _Four, cursor: Ints, limit: int, sizes: OutInts) -> int:
    """Return how many cells from `cursor` on fit into `limit` bytes, at least one if any is left. `sizes` gets their bytes."""
    cells_start, cell_count, _ = cells
    _, region_len, _, table_len = names
    sizes[:] = 0
    rows, total = 0, 0
    for entry in range(cursor[0], cells_start.size):
        first = cursor[1] if entry == cursor[0] else 0
        pos = cursor[2] if first > 0 else cells_start[entry]
        shared = region_len[entry] + table_len[entry] + FIXED_BYTES + CLUSTER_ID_BYTES * keys[3][entry]
        for _ in range(first, cell_count[entry]):
            row_len, family_len, qualifier_len, val_len, tags_len = lengths_of(buf, pos)
            name_len = _NAME_LEN[read_uint8(buf, value_start(buf, pos) - 1)]
            size = shared + row_len + family_len + qualifier_len + val_len + tags_len + name_len
            if rows > 0 and total + size > limit:
                return rows
            rows += 1
            total += size
            sizes[BytesColumn.REGION] += region_len[entry]
            sizes[BytesColumn.TABLE] += table_len[entry]
            sizes[BytesColumn.ROW] += row_len
            sizes[BytesColumn.FAMILY] += family_len
            sizes[BytesColumn.QUALIFIER] += qualifier_len
            sizes[BytesColumn.TYPE] += name_len
            sizes[BytesColumn.VALUE] += val_len
            sizes[BytesColumn.TAGS] += tags_len
            pos = cell_end(buf, pos)
    return rows


@inlined
def put(buf: Bytes, start: int, length: int, column: int, row: int, starts: Ints, offsets: OutInt32s, data: OutBytes) -> None:
    """Append `buf[start:start + length]` to a column of bytes."""
    at = offsets[column, row]
    offsets[column, row + 1] = at + length
    copy_bytes(data, starts[column] + at, buf, start, length)


@unmanaged
def fill(
    buf: Bytes, cells: _Three, keys: _Four, names: _Four, cursor: OutInts, rows: int,
    types: tuple[Ints, Ints], type_names: Bytes, starts: Ints, offsets: OutInt32Table, data: OutBytes, ints: OutIntTable,
) -> None:  # fmt: skip
    """Write `rows` cells from `cursor` on to the columns, and move `cursor` (entry, cell in it, its position) after them."""
    cells_start, cell_count, _ = cells
    _, sequence_id, write_time, _ = keys
    region_start, region_len, table_start, table_len = names
    offsets[:, 0] = 0
    entry, cell = cursor[0], cursor[1]
    pos = cursor[2] if cell > 0 else cells_start[entry]
    for row in range(rows):
        while cell == cell_count[entry]:
            entry, cell = entry + 1, 0
            pos = cells_start[entry]
        value = value_start(buf, pos)
        family, family_len = family_of(buf, pos)
        start, row_len = row_of(buf, pos)
        _, _, qualifier_len, val_len, tags_len = lengths_of(buf, pos)
        code = read_uint8(buf, value - 1)
        put(buf, region_start[entry], region_len[entry], BytesColumn.REGION, row, starts, offsets, data)
        put(buf, table_start[entry], table_len[entry], BytesColumn.TABLE, row, starts, offsets, data)
        put(buf, start, row_len, BytesColumn.ROW, row, starts, offsets, data)
        put(buf, family, family_len, BytesColumn.FAMILY, row, starts, offsets, data)
        put(buf, family + family_len, qualifier_len, BytesColumn.QUALIFIER, row, starts, offsets, data)
        put(type_names, types[0][code], types[1][code], BytesColumn.TYPE, row, starts, offsets, data)
        put(buf, value, val_len, BytesColumn.VALUE, row, starts, offsets, data)
        put(buf, value + val_len + 2, tags_len, BytesColumn.TAGS, row, starts, offsets, data)
        ints[IntColumn.ENTRY, row] = entry
        ints[IntColumn.SEQUENCE_ID, row] = sequence_id[entry]
        ints[IntColumn.WRITE_TIME, row] = write_time[entry]
        ints[IntColumn.TIMESTAMP, row] = read_int64(buf, value - KEY_TAIL)
        ints[IntColumn.CELL, row] = cell
        ints[IntColumn.START, row] = pos
        pos, cell = cell_end(buf, pos), cell + 1
    cursor[0], cursor[1], cursor[2] = entry, cell, pos
