"""Scanned rows as entries of a WAL."""

from __future__ import annotations

from tests.unit.wal.encoder import DELETE_COLUMN, PUT, Cell
from tests.unit.wal.memory_file import MemoryFile
from walferry.bootstrap.manifest import SnapshotRegion
from walferry.bootstrap.scan_copy import as_wal, repeated
from walferry.protos import hbase_pb2 as pb
from walferry.tables.rows import index_rows
from walferry.wal.reader import read_windows

REGION = SnapshotRegion("ns:t", "0123456789abcdef" * 2, b"", b"", ())


def cell(row: bytes, qualifier: bytes = b"q", timestamp: int = 5, kind: int = PUT, value: bytes = b"v") -> Cell:
    return Cell(row, b"f", qualifier, timestamp, kind, value)


def test_of_equal_keys_only_the_newest_cell_is_written_and_all_else_stays_as_it_is():
    cells = [
        cell(b"r1", value=b"newest"), cell(b"r1", value=b"older"), cell(b"r1", value=b"oldest"), cell(b"r1", timestamp=4),
        cell(b"r1", timestamp=4, kind=DELETE_COLUMN), cell(b"r2", timestamp=4), cell(b"r2", b"p", timestamp=4),
        cell(b"r3", b"p", 4),
    ]  # fmt: skip
    rows = index_rows(b"".join(each.encode() for each in cells), len(cells))
    assert repeated(rows) == [1, 2]
    (window,) = read_windows(MemoryFile(as_wal(REGION, [b"f", b"g"], rows)), "x", 0, partial_tail="error", trailer_required=True)
    index = window.index
    assert window.buf[int(index.cells_start[0]) : int(index.cells_end[0])].tobytes() == b"".join(
        each.encode() for each in (cells[0], *cells[3:])
    )
    key = pb.WALKey.FromString(window.buf[int(index.key_start[0]) : int(index.key_end[0])].tobytes())
    assert (key.table_name, key.encoded_region_name, key.following_kv_count) == (b"ns:t", REGION.encoded_name.encode(), 6)
    assert [(scope.family, scope.scope_type) for scope in key.scopes] == [(b"f", 1), (b"g", 1)]


def test_one_cell_is_a_wal_too():
    rows = index_rows(cell(b"r").encode(), 1)
    assert repeated(rows) == []
    (window,) = read_windows(MemoryFile(as_wal(REGION, [b"f"], rows)), "x", 0, partial_tail="error", trailer_required=True)
    assert int(window.index.cell_count[0]) == 1
