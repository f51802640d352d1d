"""Encoded cells are read back, small and large ones."""

from __future__ import annotations

import pytest

from tests.unit.hbase.hfiles.models import random_cells
from tests.unit.hbase.hfiles.reading import read
from tests.unit.hbase.hfiles.writing import put, write
from walferry.hbase.hfiles.blocks import Checksum, Compression
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.settings import FileSettings


@pytest.mark.parametrize("encoding", Encoding)
def test_a_cell_may_be_much_larger_than_a_block(encoding: Encoding) -> None:
    cells = [put(b"a"), put(b"b", bytes(700_000)), put(b"c", b"x" * 300_000), put(b"d")]
    settings = FileSettings(block_bytes=1000, encoding=encoding, compression=Compression.SNAPPY, checksum=Checksum.CRC32)
    assert read(write(cells, settings)[0]).cells == cells


def test_files_of_many_cells_are_read_back() -> None:
    cells = random_cells(7, 3_000)
    for encoding in Encoding:
        data, _ = write(cells, FileSettings(block_bytes=5_000, encoding=encoding, checksum=Checksum.CRC32))
        assert read(data).cells == cells
