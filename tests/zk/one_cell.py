"""Edits of one cell with one timestamp: the last one must be the last at the slave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.unit.wal.encoder import PUT, Cell, Entry
from walferry.protos import hbase_pb2 as pb


def edits_of_one_cell(numbers: Iterable[int]) -> Iterator[Entry]:
    """An edit for each number, which is its sequence number and its value."""
    for number in numbers:
        key = pb.WALKey(encoded_region_name=b"r", table_name=b"t", log_sequence_number=number)
        key.write_time, key.following_kv_count = 1_700_000_000_001 + number, 1
        key.scopes.add(family=b"f", scope_type=pb.REPLICATION_SCOPE_GLOBAL)
        yield Entry(key, (Cell(b"row", b"f", b"q", 5, PUT, b"v%04d" % number),))
