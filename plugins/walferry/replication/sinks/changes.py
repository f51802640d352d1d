"""Defines the columns of a table of changes, and puts the cells of WALs and of a first copy into them.

    column        type            what
    row           binary
    family        binary
    qualifier     binary
    timestamp     long            of the cell, as the client or the server set it; milliseconds by convention only
    type          string          Put, Delete, DeleteFamilyVersion, DeleteColumn, DeleteFamily, Minimum or Maximum
    value         binary
    tags          binary          as HBase stores them; empty without tags
    region        string          encoded region name
    sequence_id   long            of the entry: it grows with each entry of a region, also when regions move, split and merge
    write_time    timestamptz     of the entry; null if it is not between the years 1970 and 9999
    wal_group     string          the WALs of one server that follow each other
    wal           string          name of the file
    offset        long            of the entry in the file, in bytes
    cell          long            number of the cell in its entry, from 0 on
    cluster_ids   list<string>    UUIDs of the clusters that the entry has been through by replication

A cell's wal, offset and cell name it among all cells that a cluster ever writes. Rows are sorted by row within a file, and files
are partitioned by the day of write_time, in UTC.

A cell of a first copy comes from an HFile. So nothing is known of its entry: write_time, wal_group, wal, offset and cell are
null, cluster_ids is empty, and sequence_id is the largest one of the HFile's edits. So it is not smaller than the cell's own, and
of two cells with one key, the one that was written later still has the larger one: a store's files follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from walferry.base.kernels.types import Ints
from walferry.hbase.wal.arrow import BATCH_BYTES, IntColumn, decode_cells
from walferry.hbase.wal.decoded_keys import decode_keys
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, table_name

LATEST_MS = 253_402_300_799_999  # the last millisecond of the year 9999
DAY_MS = 86_400_000
NO_DAY = -1  # the day of an entry without a write time

SCHEMA = pa.schema(
    [
        pa.field("row", pa.binary(), nullable=False),
        pa.field("family", pa.binary(), nullable=False),
        pa.field("qualifier", pa.binary(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("tags", pa.binary(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("sequence_id", pa.int64(), nullable=False),
        pa.field("write_time", pa.timestamp("us", "UTC")),
        pa.field("wal_group", pa.string()),
        pa.field("wal", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("cell", pa.int64()),
        pa.field("cluster_ids", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False),
    ]
)


@dataclass(frozen=True)
class Wal:
    """The WAL that is read. `path` is the file's URL, for errors."""

    group: str
    name: str
    path: str


@dataclass(frozen=True)
class Changes:
    """Changes of one table ("table" or "namespace:table") with SCHEMA, and the day of each one since 1970, or NO_DAY."""

    table: str
    rows: pa.RecordBatch
    days: Ints

    def only(self, wanted: npt.NDArray[np.bool_]) -> Changes:
        """Return the changes that are wanted."""
        return self if wanted.all() else replace(self, rows=self.rows.filter(pa.array(wanted)), days=self.days[wanted])


def tables_in(batch: WalBatch, kept: KeptEdits, path: str) -> dict[str, int]:
    """Return the tables of the cells that the filters kept, and the first entry of each one. Raises WalCorruptError for the first
    key that makes no sense.

    Of a batch that has passed this, `changes_of` raises nothing: it can be written piece by piece.
    """
    wanted = kept.cells > 0
    chosen = batch.chosen(wanted)
    keys = decode_keys(chosen.buf, chosen.index)
    if keys.wrong:
        raise WalCorruptError(path, chosen.entry_offset(keys.count), keys.wrong)
    entries = np.flatnonzero(wanted)
    tables, first = np.unique(kept.table_of[entries], return_index=True)
    return {
        table_name(batch, int(kept.first_of[table])).decode(): int(entries[at]) for table, at in zip(tables, first, strict=True)
    }


def days_in(batch: WalBatch, kept: KeptEdits) -> int:
    """Return on how many days the entries were written of which the filters kept cells."""
    return len(np.unique(_days(batch.index.write_time[kept.cells > 0])))


def changes_of(batch: WalBatch, kept: KeptEdits, wal: Wal, batch_bytes: int = BATCH_BYTES) -> Iterator[Changes]:
    """Yield the cells of a WAL batch that the filters kept, table by table. Raises WalCorruptError: see `tables_in`."""
    entries = np.flatnonzero(kept.cells > 0)
    if not entries.size:
        return
    chosen = batch.chosen(kept.cells > 0)
    table_of = kept.table_of[entries]
    for rows, columns in decode_cells(chosen, wal.path, batch_bytes):
        wanted = _is_kept(kept, columns.ints[IntColumn.START])
        tables = table_of[columns.ints[IntColumn.ENTRY]]
        days = _days(columns.ints[IntColumn.WRITE_TIME])
        found = _as_changes(rows, columns.ints[IntColumn.WRITE_TIME], wal)
        for table in np.unique(tables[wanted]):
            name = table_name(batch, int(kept.first_of[table])).decode()
            yield Changes(name, found, days).only(wanted & (tables == table))


def _is_kept(kept: KeptEdits, starts: Ints) -> npt.NDArray[np.bool_]:
    """Return for each cell, by its position in the buffer, whether it lies within one of the spans that are kept."""
    used = int(kept.span_first[-1])
    begins, ends = kept.span_start[:used], kept.span_end[:used]  # ascending, and apart from each other
    before = np.searchsorted(begins, starts, side="right") - 1
    return (before >= 0) & (starts < ends[before])


def _days(write_time: Ints) -> Ints:
    return np.where(_has_time(write_time), write_time // DAY_MS, NO_DAY)


def _has_time(write_time: Ints) -> npt.NDArray[np.bool_]:
    return (write_time >= 0) & (write_time <= LATEST_MS)


def times_of(milliseconds: Ints) -> pa.Array:
    """Return times as lakes have them; null for those that are not between the years 1970 and 9999."""
    known = _has_time(milliseconds)
    return pa.array(np.where(known, milliseconds, 0) * 1000, mask=~known).cast(SCHEMA.field("write_time").type)


def _as_changes(rows: pa.RecordBatch, write_time: Ints, wal: Wal) -> pa.RecordBatch:
    """Return decoded cells in the columns of SCHEMA."""
    count, times = rows.num_rows, times_of(write_time)
    made = {"write_time": times, "wal_group": pa.repeat(wal.group, count), "wal": pa.repeat(wal.name, count)}
    made["offset"] = rows.column("key_offset")
    return pa.RecordBatch.from_arrays([made[name] if name in made else rows.column(name) for name in SCHEMA.names], schema=SCHEMA)


def copied_changes(table: str, region: str, columns: Mapping[str, pa.Array], sequence_id: int) -> Changes:
    """Return cells of an HFile, in the columns of hfiles/arrow.py, as changes of a table. `sequence_id` is the file's."""
    count = len(columns["row"])
    no_ids = pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string()))
    made = {
        **columns,
        "region": pa.repeat(region, count),
        "sequence_id": pa.repeat(pa.scalar(sequence_id, pa.int64()), count),
        "cluster_ids": no_ids.cast(SCHEMA.field("cluster_ids").type),
    }
    rows = [made[each.name] if each.name in made else pa.nulls(count, each.type) for each in SCHEMA]
    return Changes(table, pa.RecordBatch.from_arrays(rows, schema=SCHEMA), np.full(count, NO_DAY, np.int64))
