"""Reads a table of state as a scan of HBase would answer: cells in HBase's order, as blocks of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from walferry.base.errors import WalferryError, text_of
from walferry.hbase.tables.rows import Rows as RowBlock
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.wal.cells import CellType
from walferry.replication.sinks.iceberg.data_files import OpenTable, Target
from walferry.replication.sinks.iceberg.tables import LakeError
from walferry.shipping.lake.catalog import Lake
from walferry.state_tables.change_files import data_files
from walferry.state_tables.hbase_rules import changes_in, ranks
from walferry.state_tables.merging import read_rows
from walferry.state_tables.ranges import Range, Rows, by_files, may_have
from walferry.state_tables.tables import STATE_SCHEMA, StateTables, rows_of

_COLUMNS = [name for name in STATE_SCHEMA.names if name not in ("tags", "sequence_id", "write_time")]
_ORDER = [("row", "ascending"), ("family", "ascending"), ("qualifier", "ascending"), ("timestamp", "descending")]


@dataclass(frozen=True)
class StateFiles:
    """Files of a state with the rows that each may have, for a task."""

    target: Target
    files: tuple[tuple[str, Rows], ...]

    @classmethod
    def of(cls, lake: Lake, table: str) -> StateFiles:
        """Return the present files of a table of state. Raises LakeError if there is none yet."""
        try:
            tables = StateTables.opened(lake.catalog, table, make=False)
            if tables.merged is None:
                raise LakeError(f"table {table} has no table of state yet", "Run merge_changes, or walferry merge")
            files = [(each.file_path, rows_of(each, tables.state)) for each in data_files(tables.state)]
            return cls(Target.of(tables.state), tuple(files))
        except WalferryError:
            raise
        except Exception as error:  # of files that the catalog names
            raise LakeError(f"the state of table {table} cannot be read: {text_of(error)}") from error

    def within(self, start: bytes, stop: bytes) -> StateFiles:
        """Return the files that may have rows from `start` to before `stop` (empty: no limit)."""
        return StateFiles(self.target, tuple((path, rows) for path, rows in self.files if may_have(rows, start, stop or None)))

    def scan(self, table: str, scan: ScanSpec) -> Iterator[RowBlock]:
        """Yield the rows that a scan of `table` would answer now. Raises LakeError."""
        try:
            io = OpenTable.of(self.target, STATE_SCHEMA.names).io
            start, stop = scan.start_row, scan.stop_row or None
            for each in by_files([rows for _, rows in self.files]):
                first = max(start, each.start)
                end = min((end for end in (each.stop, stop) if end is not None), default=None)
                if not each.files or (end is not None and first >= end):
                    continue
                part = Range(first, end, each.files)
                found = [read_rows(io, self.files[number][0], _COLUMNS, part) for number in each.files]
                if (cells := _answered(pa.concat_tables(found), scan)).num_rows:
                    yield _as_block(cells)
        except WalferryError:
            raise
        except Exception as error:
            raise LakeError(f"the state of table {table} cannot be read: {text_of(error)}") from error


def _answered(cells: pa.Table, scan: ScanSpec) -> pa.Table:
    """Return the cells that a scan answers, in HBase's order."""
    now = pa.scalar(int(time.time() * 1_000_000), pa.timestamp("us", "UTC"))
    wanted = pc.fill_null(pc.greater_equal(cells["expires"], now), True)
    if scan.families:
        wanted = pc.and_(wanted, pc.is_in(cells["family"], pa.array(scan.families, pa.binary())))
    if scan.time_range is not None:
        first, end = scan.time_range
        in_time = pc.and_(pc.greater_equal(cells["timestamp"], first), pc.less(cells["timestamp"], end))
        wanted = pc.and_(wanted, in_time)
    cells = cells.filter(wanted)
    cells = cells.take(pc.sort_indices(cells, sort_keys=_ORDER)).combine_chunks()
    new_column = changes_in(cells["row"]) | changes_in(cells["family"]) | changes_in(cells["qualifier"])
    return cells.filter(pa.array(ranks(np.cumsum(new_column)) < scan.max_versions))


def _as_block(cells: pa.Table) -> RowBlock:
    """Return cells in the form in which HBase answers (hbase/wal/cells.py), without tags."""
    count = cells.num_rows
    lengths = {
        name: pc.binary_length(cells[name]).to_numpy().astype(np.int64) for name in ("row", "family", "qualifier", "value")
    }
    key = 2 + lengths["row"] + 1 + lengths["family"] + lengths["qualifier"] + 8 + 1
    pieces = [
        _big_endian(8 + key + lengths["value"], ">u4"), _big_endian(key, ">u4"), _big_endian(lengths["value"], ">u4"),
        _big_endian(lengths["row"], ">u2"), cells["row"], _big_endian(lengths["family"], ">u1"), cells["family"],
        cells["qualifier"], _big_endian(cells["timestamp"].to_numpy(), ">i8"), _big_endian(np.full(count, CellType.PUT), ">u1"),
        cells["value"],
    ]  # fmt: skip
    joined = pc.binary_join_element_wise(*(piece.cast(pa.large_binary()) for piece in pieces), pa.scalar(b"", pa.large_binary()))
    array = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
    _, offsets, data = array.buffers()
    borders = np.frombuffer(offsets, np.int64)[array.offset : array.offset + count + 1]
    rows = np.append(np.flatnonzero(changes_in(cells["row"])), count)
    return RowBlock(np.frombuffer(data, np.uint8), borders, rows)


def _big_endian(numbers: npt.NDArray[np.int64], kind: str) -> pa.Array:
    encoded = numbers.astype(kind)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(encoded.itemsize), len(encoded), [None, pa.py_buffer(encoded.tobytes())]
    )
    return fixed.cast(pa.binary())
