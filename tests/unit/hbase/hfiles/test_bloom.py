"""Bloom filters have all rows or columns of a file, and rarely any other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given

from tests.unit.hbase.hfiles.models import stored
from tests.unit.hbase.hfiles.reading import BloomFilter, read
from tests.unit.hbase.hfiles.writing import CELLS, ORIGIN, SETTINGS, put, write
from tests.unit.hbase.wal.encoder import DELETE_FAMILY, DELETE_FAMILY_VERSION, Cell
from walferry.hbase.hfiles.blocks import Checksum
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import write_file


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
