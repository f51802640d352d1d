"""Files have the cells that were written, are found through index and filters, and say the right things of themselves.

That HBase would write the same bytes is shown in tests/embedded/test_store_files.py.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.hfiles.models import TYPES, in_order, random_cells, sort_key, stored
from tests.unit.hfiles.reading import BloomFilter, HFile, cells_of, read
from tests.unit.wal.encoder import DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION, PUT, Cell, encode_tags
from tests.unit.wal.memory_file import MemoryFile
from walferry.hfiles.bloom import Bloom
from walferry.hfiles.checksums import Checksum
from walferry.hfiles.compression import Compression
from walferry.hfiles.encodings import Encoding
from walferry.hfiles.ends import FileEnd
from walferry.hfiles.errors import BadCells
from walferry.hfiles.metadata import Origin
from walferry.hfiles.settings import FileSettings
from walferry.hfiles.writer import WrittenFile, write_file

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
    assert written == WrittenFile(end, len(cells), cells[0].row, cells[-1].row)
    return bytes(out), written


def key_of(cell: Cell) -> bytes:
    encoded = stored(cell)
    return encoded[8 : 8 + int.from_bytes(encoded[:4])]


def order_of(key: bytes) -> tuple[bytes, bytes, int, int]:
    """What sorts a key that stands for itself."""
    row_end = 2 + int.from_bytes(key[:2])
    time, kind = struct.unpack(">qB", key[-9:])
    return key[2:row_end], key[row_end + 1 + key[row_end] : -9], -time, -kind


@pytest.mark.slow
@given(CELLS, SETTINGS, st.sampled_from([1, 2, 1000]))
def test_a_file_has_the_cells_that_were_written(cells: list[Cell], settings: FileSettings, at_most: int) -> None:
    data, _ = write(cells, settings, at_most=at_most)
    file = read(data, slow_checksums=len(data) < 9_000)
    assert file.cells == cells
    assert file.trailer.entry_count == len(cells)
    assert file.trailer.compression_codec == settings.compression


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


@given(CELLS, st.sampled_from([1, 100, 300]))
def test_a_block_ends_with_the_cell_that_fills_it(cells: list[Cell], block_bytes: int) -> None:
    *full, last = read(write(cells, FileSettings(block_bytes=block_bytes))[0], slow_checksums=False).data_blocks
    for block in full:
        assert len(block.data) - len(stored(cells_of(block)[-1])) < block_bytes <= len(block.data)
    assert len(last.data) - len(stored(cells_of(last)[-1])) < block_bytes


@given(CELLS, SETTINGS)
def test_the_same_file_is_written_however_its_cells_come(cells: list[Cell], settings: FileSettings) -> None:
    assert write(cells, settings, at_most=1)[0] == write(cells, settings, at_most=3)[0] == write(cells, settings)[0]


def filter_key(cell: Cell, settings: FileSettings) -> bytes:
    if settings.bloom is Bloom.ROWCOL:
        return len(cell.row).to_bytes(2) + cell.row + b"\0" + cell.qualifier + ((1 << 63) - 1).to_bytes(8) + b"\xff"
    return cell.row[: settings.prefix_len] if settings.bloom is Bloom.ROWPREFIX_FIXED_LENGTH else cell.row


@given(CELLS, SETTINGS)
@example([Cell(b"\xff\x80\x7f", b"fam", b"\x80", 1, DELETE_FAMILY, b"")], FileSettings())
def test_the_filters_have_all_rows_or_columns_and_all_rows_with_deleted_families(cells, settings: FileSettings) -> None:
    file = read(write(cells, settings)[0], slow_checksums=False)
    if settings.bloom is Bloom.NONE:
        assert not file.of_kind(b"BLMFMET2")
    else:
        keys = {filter_key(cell, settings) for cell in cells}
        bloom = BloomFilter(file, b"BLMFMET2")
        assert bloom.keys == len(keys)
        assert all(bloom.may_have(key, 0) for key in keys)
        assert bloom.comparator == (b"org.apache.hadoop.hbase.CellComparatorImpl" if settings.bloom is Bloom.ROWCOL else b"")
        assert file.info[b"LAST_BLOOM_KEY"] == filter_key(cells[-1], settings)
        assert file.info[b"BLOOM_FILTER_TYPE"] == settings.bloom.name.encode()
    deleted = [cell for cell in cells if cell.type in (DELETE_FAMILY, DELETE_FAMILY_VERSION)]
    assert int.from_bytes(file.info[b"DELETE_FAMILY_COUNT"]) == len(deleted)
    if deleted and settings.bloom is not Bloom.ROWCOL:
        bloom = BloomFilter(file, b"DFBLMET2")
        assert bloom.keys == len({cell.row for cell in deleted})
        assert all(bloom.may_have(cell.row, 0) for cell in deleted)
    else:
        assert not file.of_kind(b"DFBLMET2")


@given(CELLS, SETTINGS)
def test_a_file_tells_what_is_in_it(cells: list[Cell], settings: FileSettings) -> None:
    info = read(write(cells, settings)[0], slow_checksums=False).info
    sizes = [len(stored(cell)) + 4 - (0 if cell.tags else 2) for cell in cells]
    times = [cell.timestamp for cell in cells]
    deletes_all = [0 for cell in cells if cell.type in (DELETE_COLUMN, DELETE_FAMILY)]
    puts = [cell.timestamp for cell in cells if cell.type == PUT]
    assert struct.unpack(">qq", info[b"TIMERANGE"]) == (min(times + deletes_all), max(times))
    assert struct.unpack(">q", info[b"EARLIEST_PUT_TS"]) == (min(puts, default=(1 << 63) - 1),)
    assert info[b"hfile.LASTKEY"] == key_of(cells[-1])
    assert struct.unpack(">q", info[b"hfile.LEN_OF_BIGGEST_CELL"]) == (max(sizes),)
    assert info[b"hfile.KEY_OF_BIGGEST_CELL"] == key_of(cells[sizes.index(max(sizes))])
    assert int.from_bytes(info[b"hfile.AVG_KEY_LEN"]) == sum(len(key_of(cell)) for cell in cells) // len(cells)
    assert int.from_bytes(info[b"hfile.AVG_VALUE_LEN"]) == sum(len(cell.value) for cell in cells) // len(cells)
    assert int.from_bytes(info[b"hfile.MAX_TAGS_LEN"]) == max(len(cell.tags) for cell in cells)
    assert (info[b"BULKLOAD_TIMESTAMP"], info[b"BULKLOAD_SOURCE_TASK"]) == (ORIGIN.created_ms.to_bytes(8), b"a task")
    assert info.get(b"DATA_BLOCK_ENCODING", b"NONE") == settings.encoding.name.encode()
    assert info[b"MAJOR_COMPACTION_KEY"] == b"\0"


def put(row: bytes, value: bytes = b"", qualifier: bytes = b"q", tags: bytes = b"") -> Cell:
    return Cell(row, b"fam", qualifier, 1, PUT, value, tags)


def test_cells_with_equal_keys_stay_in_one_block() -> None:
    cells = [put(b"a", b"1" * 300), put(b"a", b"2" * 300), put(b"a", b"3"), put(b"b", b"4")]
    file = read(write(cells, FileSettings(block_bytes=100), at_most=2)[0])
    assert [len(cells_of(block)) for block in file.data_blocks] == [3, 1]
    assert file.cells == cells


@pytest.mark.parametrize("encoding", Encoding)
def test_a_cell_may_be_much_larger_than_a_block(encoding: Encoding) -> None:
    cells = [put(b"a"), put(b"b", bytes(700_000)), put(b"c", b"x" * 300_000), put(b"d")]
    settings = FileSettings(block_bytes=1000, encoding=encoding, compression=Compression.SNAPPY, checksum=Checksum.CRC32)
    assert read(write(cells, settings)[0]).cells == cells


def with_long_rows(count: int, length: int) -> list[Cell]:
    return [put(bytes(length) + b"%06d" % i) for i in range(count)]


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


@pytest.mark.slow
def test_a_filter_of_many_rows_has_several_chunks_and_rarely_errs() -> None:
    rows = [b"%08d" % (2 * i) for i in range(250_000)]
    out = bytearray()
    cells = np.frombuffer(b"".join(stored(put(row)) for row in rows), np.uint8)
    assert write_file(out.extend, [cells], FileSettings(checksum=Checksum.CRC32), ORIGIN)
    bloom = BloomFilter(read(bytes(out)), b"BLMFMET2")
    assert (bloom.keys, len(bloom.chunks)) == (250_000, 3)
    assert all(row in bloom for row in rows[::10])
    wrong = sum(b"%08d" % (2 * i + 1) in bloom for i in range(0, 250_000, 10))
    assert 0 < wrong < 0.015 * 25_000


def test_a_small_filter_is_folded() -> None:
    file = read(write([put(b"%04d" % i) for i in range(1000)])[0])
    assert BloomFilter(file, b"BLMFMET2").size == 2048


def test_nothing_is_written_of_nothing() -> None:
    out = bytearray()
    assert write_file(out.extend, [np.empty(0, np.uint8)], FileSettings(), ORIGIN) is None
    assert not out


@pytest.mark.parametrize("at_most", [1, 5])
@pytest.mark.parametrize(
    ("third", "problem"),
    [
        (stored(put(b"a")), "sorts before"),
        (stored(put(b"c", qualifier=b"p")), "sorts before"),
        (stored(Cell(b"d", b"mam", b"q", 1, PUT, b"")), "another family"),
        (stored(Cell(b"d", b"family", b"q", 1, PUT, b"")), "another family"),
        (stored(put(b"d"))[:-1], "lengths contradict"),
        (b"\xff" * 40, "lengths contradict"),
        (b"x", "lengths contradict"),
    ],
)
def test_cells_that_cannot_be_in_a_file_are_an_error(third: bytes, problem: str, at_most: int) -> None:
    first = [stored(put(b"b")), stored(put(b"c"))]
    parts = [*first, third] if at_most == 1 else [b"".join([*first, third])]
    with pytest.raises(BadCells, match=f"cell 2 of an HFile: .*{problem}"):
        write_file(lambda data: None, [np.frombuffer(part, np.uint8) for part in parts], FileSettings(), ORIGIN)


def test_files_of_many_cells_are_read_back() -> None:
    cells = random_cells(7, 3_000)
    for encoding in Encoding:
        data, _ = write(cells, FileSettings(block_bytes=5_000, encoding=encoding, checksum=Checksum.CRC32))
        assert read(data).cells == cells
