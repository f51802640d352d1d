"""Writes WALs as Phoenix's IndexedWALEditCodec does, for tests: the reverse of walferry.hbase.wal.codecs.phoenix."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.unit.hbase.wal.compressing import Encoder
from tests.unit.hbase.wal.encoder import HEADER, PUT, TRAILER, Cell, Entry, encode_header, encode_varint
from tests.unit.hbase.wal.strategies import entries
from walferry.base.protos.hbase_pb2 import WALHeader, WALKey

CODEC = "org.apache.hadoop.hbase.regionserver.wal.IndexedWALEditCodec"
PLACEHOLDER = Cell(b"", b"METAFAMILY", b"", 0, PUT, b"")


def vint(value: int) -> bytes:
    """A number as Hadoop's WritableUtils writes it."""
    if value <= 127:
        return struct.pack("b", value)
    length = (value.bit_length() + 7) // 8
    return struct.pack("b", -112 - length) + value.to_bytes(length)


@dataclass(frozen=True)
class Index(Cell):
    """An index among an entry's cells: a mutation of a table. It is read as the PLACEHOLDER."""

    table: bytes = b"IDX"
    mutation: bytes = bytes(range(40))

    def encode(self) -> bytes:
        return struct.pack(">i", -1) + vint(len(self.table)) + self.table + vint(len(self.mutation)) + self.mutation


def index(table: bytes = b"IDX", mutation: bytes = bytes(range(40))) -> Index:
    return Index(*vars(PLACEHOLDER).values(), table, mutation)  # type: ignore[call-arg]


class PhoenixEncoder(Encoder):
    """Writes a compressed file."""

    @property
    def header(self) -> WALHeader:
        header = super().header
        header.cell_codec_cls_name = CODEC
        return header

    def cell(self, cell: Cell) -> bytes:
        return b"\xff" + cell.encode() if isinstance(cell, Index) else b"\0" + super().cell(cell)


def with_cells(entry: Entry, cells: Sequence[Cell]) -> Entry:
    """The entry with other cells."""
    key = WALKey()
    key.CopyFrom(entry.key)
    key.following_kv_count = len(cells)
    return Entry(key, tuple(cells))


def without_indexes(written: Sequence[Entry]) -> list[Entry]:
    """The entries as they are read."""
    return [replace(each, cells=tuple(PLACEHOLDER if isinstance(c, Index) else c for c in each.cells)) for each in written]


def encode(written: Sequence[Entry], trailer: bytes = TRAILER) -> tuple[bytes, list[int]]:
    """Return a file that is not compressed, and the offsets of each entry and of the last one's end."""
    header = WALHeader()
    header.CopyFrom(HEADER)
    header.cell_codec_cls_name = CODEC
    data = bytearray(encode_header(header))
    offsets = [len(data)]
    for entry in written:
        key = entry.key.SerializeToString()
        data += encode_varint(len(key)) + key + entry.cell_bytes()
        offsets.append(len(data))
    return bytes(data + trailer), offsets


indexes = st.builds(index, st.binary(min_size=1, max_size=200), st.binary(min_size=30, max_size=400))


@st.composite
def indexed_entries(draw: st.DrawFn) -> list[Entry]:
    """Entries with indexes anywhere among their cells, or with none."""
    written = []
    for entry in draw(st.lists(entries(), max_size=5)):
        cells: list[Cell] = list(entry.cells)
        for _ in range(draw(st.integers(0, 3))):
            cells.insert(draw(st.integers(0, len(cells))), draw(indexes))
        written.append(with_cells(entry, cells))
    return written
