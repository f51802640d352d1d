"""Writes WALs as HBase does, for tests: the reverse of walferry.hbase.wal.header and walferry.hbase.wal.scan.

file    = "PWAL" varint(len) WALHeader entry* trailer
entry   = varint(key length) WALKey cell{following_kv_count}
cell    = int32 kvLen, int32 keyLen, int32 valLen, key, value [, uint16 tagsLen, tags]
key     = int16 rowLen, row, int8 famLen, family, qualifier, int64 timestamp, int8 type
tags    = (uint16 length of type and data, int8 type, data)*
trailer = int32 0, "LAWP"
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from walferry.base.protos.hbase_pb2 import WALHeader, WALKey

PUT, DELETE, DELETE_FAMILY_VERSION, DELETE_COLUMN, DELETE_FAMILY = 4, 8, 10, 12, 14
MINIMUM, MAXIMUM = 0, 255  # HBase uses them for searches, and reads cells of these types that a client put
TRAILER = struct.pack(">i", 0) + b"LAWP"
HEADER = WALHeader(
    has_compression=False,
    has_tag_compression=False,
    writer_cls_name="AsyncProtobufLogWriter",
    cell_codec_cls_name="org.apache.hadoop.hbase.regionserver.wal.WALCellCodec",
)


@dataclass(frozen=True)
class Cell:
    row: bytes
    family: bytes
    qualifier: bytes
    timestamp: int
    type: int
    value: bytes
    tags: bytes = b""

    def encode(self) -> bytes:
        key = struct.pack(">H", len(self.row)) + self.row + bytes([len(self.family)]) + self.family + self.qualifier
        key += struct.pack(">qB", self.timestamp, self.type)
        tags = struct.pack(">H", len(self.tags)) + self.tags if self.tags else b""
        kv_len = 8 + len(key) + len(self.value) + len(tags)
        return struct.pack(">iii", kv_len, len(key), len(self.value)) + key + self.value + tags


@dataclass(frozen=True)
class Entry:
    """A WALKey and the cells written after it. The caller sets following_kv_count."""

    key: WALKey
    cells: tuple[Cell, ...]

    def cell_bytes(self) -> bytes:
        return b"".join(cell.encode() for cell in self.cells)


def entry(
    *cells: Cell, region: bytes = b"0123456789abcdef" * 2, table: bytes = b"t", sequence_id: int = 1, write_time: int = 2
) -> Entry:
    """Make an entry with a key that fits its cells."""
    key = WALKey(encoded_region_name=region, table_name=table, log_sequence_number=sequence_id, write_time=write_time)
    if cells:
        key.following_kv_count = len(cells)
    return Entry(key, cells)


def encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_tags(tags: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack(">Hb", len(data) + 1, tag_type) + data for tag_type, data in tags)


def encode_entry(entry: Entry) -> bytes:
    key = entry.key.SerializePartialToString()
    return encode_varint(len(key)) + key + entry.cell_bytes()


def encode_header(header: WALHeader = HEADER) -> bytes:
    message = header.SerializeToString()
    return b"PWAL" + encode_varint(len(message)) + message


def encode_wal(entries: Iterable[Entry], trailer: bytes = TRAILER) -> bytes:
    return encode_header() + b"".join(map(encode_entry, entries)) + trailer
