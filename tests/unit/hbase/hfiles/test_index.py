"""The index leads to each block by a key between its cells and those before, in as many levels as it needs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given

from tests.unit.hbase.hfiles.models import sort_key
from tests.unit.hbase.hfiles.reading import HFile, cells_of, read
from tests.unit.hbase.hfiles.writing import CELLS, SETTINGS, key_of, order_of, with_long_rows, write
from walferry.hbase.hfiles.blocks import Checksum
from walferry.hbase.hfiles.settings import FileSettings


@given(CELLS, SETTINGS)
def test_the_index_leads_to_each_block_by_a_key_between_its_cells_and_those_before(cells, settings: FileSettings) -> None:
    file = read(write(cells, settings)[0], slow_checksums=False)
    blocks, entries = file.data_blocks, file.indexed()
    assert [(block.offset, block.disk_bytes) for block in blocks] == [(entry.offset, entry.disk_bytes) for entry in entries]
    assert (file.trailer.first_data_block_offset, file.trailer.last_data_block_offset) == (blocks[0].offset, blocks[-1].offset)
    assert entries[0].key == key_of(cells[0])
    at = 0
    for block, entry in zip(blocks, entries, strict=True):
        assert order_of(entry.key) <= sort_key(cells[at])
        assert at == 0 or sort_key(cells[at - 1]) < order_of(entry.key)
        at += len(cells_of(block))


@pytest.mark.parametrize(("cells", "levels"), [(3, 1), (5, 1), (30, 2), (120, 3), pytest.param(900, 4, marks=pytest.mark.slow)])
def test_a_large_index_has_levels(cells: int, levels: int) -> None:
    file = read(write(with_long_rows(cells, 30_000), FileSettings(block_bytes=1, checksum=Checksum.CRC32), at_most=7)[0])
    assert file.trailer.num_data_index_levels == levels
    assert [entry.offset for entry in file.indexed()] == [block.offset for block in file.data_blocks]
    assert len(file.data_blocks) == cells
    assert bool(file.of_kind(b"IDXLEAF2")) == (levels > 1)
    assert bool(file.of_kind(b"IDXINTE2")) == (levels > 2)
    index = [block for magic in (b"IDXLEAF2", b"IDXINTE2", b"IDXROOT2") for block in file.of_kind(magic)]
    assert file.trailer.uncompressed_data_index_size == sum(len(block.data) for block in index)


def middle_of(file: HFile) -> tuple[int, int, int]:
    (root,) = (block for block in file.blocks if block.offset == file.trailer.load_on_open_data_offset)
    found: tuple[int, int, int] = struct.unpack(">qii", root.data[-16:])
    return found


def test_the_root_of_a_large_index_tells_where_the_middle_is() -> None:
    file = read(write(with_long_rows(120, 30_000), FileSettings(block_bytes=1, checksum=Checksum.CRC32))[0])
    offset, disk_bytes, number = middle_of(file)
    (leaf,) = (block for block in file.of_kind(b"IDXLEAF2") if block.offset == offset)
    assert leaf.disk_bytes == disk_bytes
    (start,) = struct.unpack_from(">i", leaf.data, 4 + 4 * number)
    (count,) = struct.unpack_from(">i", leaf.data)
    (block,) = struct.unpack_from(">q", leaf.data, 8 + 4 * count + start)
    assert file.data_blocks[59].offset == block
