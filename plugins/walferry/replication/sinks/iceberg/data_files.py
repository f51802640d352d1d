"""Writes changes as Parquet files of a table: sorted by row, a file for each day, with the figures that Iceberg keeps of a file.

A task holds changes until they fill its memory, and then writes those of the table that has the most. Files get random names, so
a task that runs twice writes other files, and the driver commits those of one of the two.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import write_file
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, WriteTask
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record as Partition

from walferry.base.kernels.types import Ints
from walferry.base.records import Record
from walferry.replication.peers.column_mappings import ColumnMapping
from walferry.replication.sinks.changes import NO_DAY, SCHEMA, Changes
from walferry.replication.sinks.iceberg.typed_columns import TypedColumns, fields_of, row_bytes

MEMORY_BYTES = 256 << 20  # of changes that a task holds; sorting takes as much again for one table
FILE_BYTES = 128 << 20  # of changes in memory, which become a file of a quarter to a half of that
ROW_BOUND_BYTES = 16  # of a file's first and last row, in a table of changes: a manifest has those of all files

OF_FILES = ("s3.", "gcs.", "adls.", "hf.", "hdfs.", "client.", "py-io-impl")
OWN = "walferry."  # begins the names of properties that tasks do not need
_BOUNDS = ("lower_bounds", "upper_bounds")
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


@dataclass(frozen=True)
class Target:
    """A table as a task needs it. `metadata` is Iceberg's, as JSON, without the table's history."""

    metadata: str
    properties: Mapping[str, str] = field(repr=False)  # of the file system, of which some are secrets
    mapping: ColumnMapping | None = None  # of its typed columns, which the table has

    @classmethod
    def of(cls, table: Table, mapping: ColumnMapping | None = None) -> Target:
        """Return what tasks need to write files of a table."""
        bare: dict[str, Any] = {
            "properties": {name: text for name, text in table.properties.items() if not name.startswith(OWN)},
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
            "statistics": [],
            "schemas": [table.schema()],
        }
        return cls(table.metadata.model_copy(update=bare).model_dump_json(), _of_files(table.io.properties), mapping)


def _of_files(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the file system among a catalog's, without the catalog's own address and secrets."""
    return {name: value for name, value in properties.items() if name.startswith(OF_FILES)}


@dataclass(frozen=True)
class ChangeFile(Record):
    """A file that a task has written, and that nobody sees yet. Keys of the mappings are the ids of columns."""

    table: str
    path: str
    day: int | None  # since 1970; None: entries without a write time, and tables that are not partitioned
    rows: int
    size: int  # bytes
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # Base64
    splits: tuple[int, ...] = ()
    unread: int = 0  # rows of which a typed column could not be read

    @classmethod
    def of(cls, table: str, file: DataFile, columns: Collection[int]) -> ChangeFile:
        """Return what the driver has to know of a file, with figures of these columns: an answer has 1 MiB at most."""
        return cls(
            table, file.file_path, file.partition[0] if len(file.partition) else None, file.record_count, file.file_size_in_bytes,
            {name: {str(key): value for key, value in getattr(file, name).items() if key in columns} for name in _COUNTS},
            {
                name: {str(key): base64.b64encode(value).decode() for key, value in getattr(file, name).items() if key in columns}
                for name in _BOUNDS  # whoever has a column's bounds believes that its counts are there, too
            },
            tuple(file.split_offsets or ()),
        )  # fmt: skip

    def bounded(self, column: int, first: bytes, last: bytes | None) -> ChangeFile:
        """Return the file with other bounds of a column; `last` None: it has no upper bound."""
        ends = dict(zip(_BOUNDS, (first, last), strict=True))
        others = {name: {key: text for key, text in self.bounds[name].items() if key != str(column)} for name in _BOUNDS}
        mine = {name: {str(column): base64.b64encode(end).decode()} if end is not None else {} for name, end in ends.items()}
        return replace(self, bounds={name: others[name] | mine[name] for name in _BOUNDS})

    def data_file(self, spec: PartitionSpec) -> DataFile:
        """Return the file in Iceberg's form, of a table that is partitioned by day or not at all."""
        counts: dict[str, Any] = {name: {int(key): value for key, value in self.counts[name].items()} for name in _COUNTS}
        bounds: dict[str, Any] = {
            name: {int(key): base64.b64decode(value) for key, value in self.bounds[name].items()} for name in _BOUNDS
        }
        return DataFile.from_args(
            content=DataFileContent.DATA, file_path=self.path, file_format=FileFormat.PARQUET,
            partition=Partition(self.day) if spec.fields else Partition(),
            record_count=self.rows, file_size_in_bytes=self.size, split_offsets=[*self.splits], spec_id=spec.spec_id,
            sort_order_id=None, equality_ids=None, key_metadata=None, **counts, **bounds,
        )  # fmt: skip


class DataFiles:
    """Takes changes of several tables, and writes them as files. `targets` are the tables, by their names in HBase."""

    def __init__(self, targets: Mapping[str, Target], memory_bytes: int = MEMORY_BYTES, file_bytes: int = FILE_BYTES) -> None:
        self._targets = targets
        self._tables: dict[str, OpenTable] = {}  # those that were written: opening one takes a while, and a WAL has edits of few
        self._held: dict[str, list[Changes]] = {}
        self._parts: dict[str, set[int]] = {}  # the days of the changes that are held, by table
        self._bytes: dict[str, int] = {}
        self._memory_bytes = memory_bytes
        self._file_bytes = file_bytes
        self._written: list[ChangeFile] = []

    def add(self, changes: Changes) -> None:
        """Take changes of a table that is a target. Raises OSError."""
        self._held.setdefault(changes.table, []).append(changes)
        self._bytes[changes.table] = self._bytes.get(changes.table, 0) + changes.rows.nbytes
        self._parts.setdefault(changes.table, set()).update(np.unique(changes.days).tolist())
        while sum(self._bytes.values()) > self._memory_bytes:
            self._write(max(self._bytes, key=self._bytes.__getitem__))

    @property
    def count(self) -> int:
        """The number of files so far, with those that the held changes will become, about."""
        return len(self._written) + sum(map(len, self._parts.values()))

    def finish(self) -> list[ChangeFile]:
        """Write what is held, and return all files. Raises OSError."""
        for table in [*self._held]:
            self._write(table)
        return self._written

    def _write(self, table: str) -> None:
        held, size = self._held[table], self._bytes[table]
        rows, days = pa.Table.from_batches([each.rows for each in held]), np.concatenate([each.days for each in held])
        size += rows.num_rows * row_bytes(self._targets[table].mapping)
        parts = max(1, -(-size // self._file_bytes))
        if table not in self._tables:
            self._tables[table] = OpenTable.of(self._targets[table], SCHEMA.names)
        to = self._tables[table]
        self._written += to.write(table, _sorted_parts(rows, days, parts), ROW_BOUND_BYTES)
        del self._held[table], self._bytes[table], self._parts[table]


@dataclass(frozen=True)
class OpenTable:
    """A table as tasks use it."""

    io: FileIO
    metadata: TableMetadata
    schema: Schema  # the columns that are written, with the table's ids
    own: frozenset[int]  # the ids of those that are not typed
    mapping: ColumnMapping | None

    @classmethod
    def of(cls, target: Target, columns: Iterable[str]) -> OpenTable:
        """Open a table, of which some columns are written, and the typed ones."""
        metadata = TableMetadataUtil.parse_raw(target.metadata)
        own = metadata.schema().select(*columns)
        schema = metadata.schema().select(*own.column_names, *(each.name for each in fields_of(target.mapping)))
        io = load_file_io({**target.properties}, metadata.location)
        return cls(io, metadata, schema, frozenset(each.field_id for each in own.fields), target.mapping)

    def write(self, table: str, parts: Iterable[tuple[int | None, pa.Table]], bound_bytes: int | None = None) -> list[ChangeFile]:
        """Write a file of each part: a day, and rows in their order. Without partitions the day is None. Raises OSError.

        Rows come without typed columns, and get them here.

        Iceberg's figures of a file get its first and last row from here, with `bound_bytes` of them at most. Parquet leaves rows
        of more than 4 KB out of its figures, and PyIceberg would take the others' for those of the whole file.
        """
        column, found = self.schema.find_field("row").field_id, list[ChangeFile]()
        for number, (day, rows) in enumerate(parts):
            first, last = rows["row"][0].as_py(), rows["row"][-1].as_py()
            typed = TypedColumns(self.mapping, self.schema) if self.mapping is not None else None
            task = self._task(number, day, rows.to_batches() if typed is None else typed.added(rows))
            (file,) = write_file(self.io, self.metadata, iter([task]))  # one after the other, so that only one is in memory
            change_file = ChangeFile.of(table, file, self.own).bounded(
                column, first[:bound_bytes], upper_bound(last, bound_bytes)
            )
            found.append(replace(change_file, unread=typed.unread if typed is not None else 0))
        return found

    def _task(self, number: int, day: int | None, batches: Iterable[pa.RecordBatch]) -> WriteTask:
        """Return Iceberg's description of a file to write."""
        spec = self.metadata.spec()
        parts_of_key = [PartitionFieldValue(each, day) for each in spec.fields]
        key = PartitionKey(parts_of_key, spec, self.metadata.schema()) if parts_of_key else None
        # PyIceberg goes through the batches once, so they need not all be there.
        some = cast(list[pa.RecordBatch], batches)
        return WriteTask(write_uuid=uuid.uuid4(), task_id=number, schema=self.schema, record_batches=some, partition_key=key)


def upper_bound(row: bytes, most: int | None) -> bytes | None:
    """Return `most` bytes at most that are not smaller than a row, nor than any that begins like it; None: there are none."""
    if most is None or len(row) <= most:
        return row
    kept = row[:most].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _sorted_parts(rows: pa.Table, days: Ints, parts: int) -> Iterator[tuple[int | None, pa.Table]]:
    """Yield the rows of each day in order, in `parts` parts of one size at most."""
    most = -(-rows.num_rows // parts)
    keys = pa.table({"day": days, "row": rows.column("row")})
    order = pc.sort_indices(keys, sort_keys=[("day", "ascending"), ("row", "ascending")])
    in_order = days[order.to_numpy()]
    begins = np.flatnonzero(np.diff(in_order, prepend=in_order[0] - 1))
    for begin, end in zip(begins, [*begins[1:], len(in_order)], strict=True):
        day = int(in_order[begin])
        for first in range(int(begin), int(end), most):
            yield None if day == NO_DAY else day, rows.take(order.slice(first, min(most, int(end) - first)))
