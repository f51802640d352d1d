"""Writes compressed WALs as HBase does, for tests: the reverse of dictionaries.py, expand.py and values.py."""

from __future__ import annotations

import gzip
import struct
from collections import OrderedDict
from collections.abc import Iterable

import pyarrow as pa

from tests.unit.hbase.wal.encoder import HEADER, TRAILER, Cell, Entry, encode_header, encode_varint
from walferry.base.protos.hbase_pb2 import FamilyScope, WALHeader, WALKey
from walferry.hbase.wal.header import ValueCodec

GZ, NONE, SNAPPY, LZ4, ZSTD = ValueCodec
_ARROW = {SNAPPY: "snappy", LZ4: "lz4_raw", ZSTD: "zstd"}


class Dictionary:
    """LRUDictionary: gives the index of a known entry, or None for one that it adds."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._indices: OrderedDict[bytes, int] = OrderedDict()  # the entry touched last is at the end

    def find(self, data: bytes) -> int | None:
        index = self._indices.get(data)
        if index is not None:
            self._indices.move_to_end(data)
        elif data:
            index_of_new = len(self._indices)
            if index_of_new == self._capacity:
                _, index_of_new = self._indices.popitem(last=False)
            self._indices[data] = index_of_new
        return index

    def write(self, data: bytes) -> bytes:
        index = self.find(data)
        return b"\xff" + encode_varint(len(data)) + data if index is None else struct.pack(">H", index)


class Encoder:
    """Writes one file. Without a `codec`, values are not compressed. A codec compresses `chunk` bytes of a value at once."""

    def __init__(self, *, tags: bool, codec: int | None, chunk: int = 256 << 10) -> None:
        self._tags = tags
        self._codec = codec
        self._chunk = chunk
        self.region, self.table, self.row, self.tag = (Dictionary(0x7FFF) for _ in range(4))
        self.family, self.qualifier = Dictionary(0x7F), Dictionary(0x7F)

    @property
    def header(self) -> WALHeader:
        header = WALHeader(has_compression=True, has_tag_compression=self._tags, has_value_compression=self._codec is not None)
        if self._codec is not None:
            header.value_compression_algorithm = self._codec
        header.writer_cls_name, header.cell_codec_cls_name = HEADER.writer_cls_name, HEADER.cell_codec_cls_name
        return header

    def entry(self, entry: Entry) -> bytes:
        key = WALKey()
        key.CopyFrom(entry.key)
        key.encoded_region_name = self.region.write(entry.key.encoded_region_name)
        key.table_name = self.table.write(entry.key.table_name)
        scopes = [FamilyScope(family=self.family.write(s.family), scope_type=s.scope_type) for s in entry.key.scopes]
        del key.scopes[:]
        key.scopes.extend(scopes)
        for attribute in key.extended_attributes:
            attribute.value = self.table.write(attribute.value)
        message = key.SerializeToString()
        return encode_varint(len(message)) + message + b"".join(map(self.cell, entry.cells))

    def cell(self, cell: Cell) -> bytes:
        key_length = 12 + len(cell.row) + len(cell.family) + len(cell.qualifier)
        out = b"".join(map(encode_varint, (key_length, len(cell.value), len(cell.tags))))
        out += self.row.write(cell.row) + self.family.write(cell.family) + self.qualifier.write(cell.qualifier)
        out += struct.pack(">qB", cell.timestamp, cell.type) + self.value(cell.value)
        return out + (self.all_tags(cell.tags) if self._tags else cell.tags)

    def value(self, value: bytes) -> bytes:
        if self._codec is None:
            return value
        if self._codec in (GZ, NONE):
            data = gzip.compress(value, mtime=0) if self._codec == GZ else value
        else:
            chunks = [value[i : i + self._chunk] for i in range(0, len(value), self._chunk)]
            blocks = [pa.compress(chunk, _ARROW[self._codec], asbytes=True) for chunk in chunks]
            data = struct.pack(">i", len(value)) + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
            data += struct.pack(">i", 0) if len(chunks) > 1 else b""
        return encode_varint(len(data)) + data

    def all_tags(self, tags: bytes) -> bytes:
        out = b""
        while tags:
            (length,) = struct.unpack_from(">H", tags)
            out += self.tag.write(tags[2 : 2 + length])
            tags = tags[2 + length :]
        return out


def compress(entries: Iterable[Entry], encoder: Encoder, trailer: bytes = TRAILER) -> tuple[bytes, list[int]]:
    """Return the file, and the offsets of each entry and of the last one's end."""
    data = bytearray(encode_header(encoder.header))
    offsets = [len(data)]
    for entry in entries:
        data += encoder.entry(entry)
        offsets.append(len(data))
    return bytes(data + trailer), offsets
