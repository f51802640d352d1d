"""WAL entries made by hand, in the form that ReplicateWALEntry takes."""

from __future__ import annotations

import struct

from embedded.wire import CellType
from walferry.base.protos import hbase_pb2 as pb


def encoded(
    row: bytes, family: bytes, qualifier: bytes, timestamp: int, kind: CellType, value: bytes = b"", tags: bytes = b""
) -> bytes:
    """Return a cell in the form that KeyValueCodecWithTags writes."""
    key = struct.pack(">h", len(row)) + row + bytes([len(family)]) + family + qualifier + struct.pack(">qB", timestamp, kind)
    body = struct.pack(">ii", len(key), len(value)) + key + value + (struct.pack(">H", len(tags)) + tags if tags else b"")
    return struct.pack(">i", len(body)) + body


def entry(table: str, cells: int) -> pb.WALEntry:
    key = pb.WALKey(encoded_region_name=b"region", table_name=table.encode(), log_sequence_number=1, write_time=1)
    return pb.WALEntry(key=key, associated_cell_count=cells)
