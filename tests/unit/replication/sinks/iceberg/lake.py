"""A lake in a folder, with PyIceberg's SQL catalog, and changes made of entries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.unit.hbase.wal.encoder import Cell, Entry, encode_entry
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.sinks.changes import Changes, Wal, changes_of
from walferry.replication.sinks.iceberg.data_files import ChangeFile, DataFiles, Target

RULES = FilterRules(UUID(int=5), UUID(int=6))
WAL = Wal("rs1%2C16020%2C1", "rs1%2C16020%2C1.1700000000000", "file:///wal")
BASE = 1000  # where the first entry lies in the file


def catalog_in(folder: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def wal_batch(entries: Sequence[Entry], base: int = BASE) -> WalBatch:
    data = np.frombuffer(b"".join(map(encode_entry, entries)), np.uint8)
    scan = scan_entries(data, 0, len(data))
    assert scan.fault is None
    return WalBatch(data, base, scan.index)


def entry(
    *cells: Cell, table: bytes = b"t", write_time: int = 1_700_000_000_000,
    sequence_id: int = 1, families: Sequence[bytes] = (b"f",)
) -> Entry:  # fmt: skip
    key = pb.WALKey(
        encoded_region_name=b"r" * 32, table_name=table, log_sequence_number=sequence_id, write_time=write_time,
        following_kv_count=len(cells),
    )  # fmt: skip
    for family in families:
        key.scopes.add(family=family, scope_type=pb.REPLICATION_SCOPE_GLOBAL)
    return Entry(key, cells)


def put(row: bytes, value: bytes = b"v", family: bytes = b"f") -> Cell:
    return Cell(row, family, b"q", 1, 4, value, b"")


def changes(entries: Sequence[Entry], wal: Wal = WAL, base: int = BASE, **options: Any) -> list[Changes]:
    batch = wal_batch(entries, base)
    return list(changes_of(batch, filter_batch(batch, RULES, wal.path), wal, **options))


def files_of(table: Table, *found: Changes, name: str = "t", **options: Any) -> list[ChangeFile]:
    """The files that a task makes of changes. They come as text, as between a task and the driver."""
    writer = DataFiles({name: Target.of(table)}, **options)
    for each in found:
        writer.add(each)
    return [ChangeFile.from_json(file.to_json()) for file in writer.finish()]


def rows_of(table: Table) -> list[dict[str, Any]]:
    """The table's rows as DuckDB reads them from the files of the present snapshot."""
    table.refresh()
    paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    if not paths:
        return []
    found = duckdb.connect().read_parquet(paths, hive_partitioning=False, union_by_name=True)
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
