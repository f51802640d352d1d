"""Writes HFiles of arbitrary cells for tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.models import TYPES, in_order, stored
from tests.unit.hbase.hfiles.reading import read
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_tags
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles.blocks import Checksum, Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.ends import FileEnd
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import WrittenFile, write_file

ORIGIN = Origin(1_700_000_000_123, "a task")
DEFAULT = FileSettings()
ROWS = st.one_of(st.sampled_from([b"r", b"row", b"row\0", b"row\xff", b"rox"]), st.binary(min_size=1, max_size=20))
CELLS = st.lists(
    st.builds(
        Cell,
        row=ROWS,
        family=st.just(b"fam"),
        qualifier=st.one_of(st.sampled_from([b"", b"q", b"qq"]), st.binary(max_size=12)),
        timestamp=st.one_of(st.integers(0, 3), st.integers(250, 260), st.integers(0, (1 << 63) - 1)),
        type=st.sampled_from(TYPES),
        value=st.one_of(st.sampled_from([b"", b"same"]), st.binary(max_size=60)),
        tags=st.sampled_from([b"", encode_tags([(70, b"x" * 200)]), encode_tags([(1, b""), (8, bytes(8))])]),
    ),
    min_size=1,
    max_size=30,
).map(in_order)
SETTINGS = st.builds(
    FileSettings,
    block_bytes=st.sampled_from([1, 100, 300, 1 << 16]),
    compression=st.sampled_from(Compression),
    encoding=st.sampled_from(Encoding),
    bloom=st.sampled_from(Bloom),
    prefix_len=st.integers(1, 4),
    checksum=st.sampled_from(Checksum),
)


def chunks_of(cells: Sequence[Cell], at_most: int) -> list[np.ndarray]:
    parts = [b"".join(map(stored, cells[i : i + at_most])) for i in range(0, len(cells), at_most)]
    return [np.frombuffer(part, np.uint8) for part in parts]


def write(cells: Sequence[Cell], settings: FileSettings = DEFAULT, *, at_most: int = 1000) -> tuple[bytes, WrittenFile]:
    """Write a file of these cells, in chunks of some of them."""
    out = bytearray()
    written = write_file(out.extend, chunks_of(cells, at_most), settings, ORIGIN)
    assert written is not None
    end = FileEnd.of(MemoryFile(bytes(out)), read(bytes(out)).trailer.file_info_offset)
    assert written == WrittenFile(end, len(cells))
    return bytes(out), written


def key_of(cell: Cell) -> bytes:
    encoded = stored(cell)
    return encoded[8 : 8 + int.from_bytes(encoded[:4])]


def order_of(key: bytes) -> tuple[bytes, bytes, int, int]:
    """What sorts a key that stands for itself."""
    row_end = 2 + int.from_bytes(key[:2])
    time, kind = struct.unpack(">qB", key[-9:])
    return key[2:row_end], key[row_end + 1 + key[row_end] : -9], -time, -kind


def put(row: bytes, value: bytes = b"", qualifier: bytes = b"q", tags: bytes = b"") -> Cell:
    return Cell(row, b"fam", qualifier, 1, PUT, value, tags)


def with_long_rows(count: int, length: int) -> list[Cell]:
    return [put(bytes(length) + b"%06d" % i) for i in range(count)]
