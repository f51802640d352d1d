"""Compressed WALKeys are expanded, however long their attributes become. WALKeys that HBase does not write are errors."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest

from tests.unit.hbase.wal.compressed_samples import SAMPLE, plain, read, rng
from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_varint, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.reader import read_wal_batches


def test_a_cell_count_that_is_not_a_varint_is_ignored() -> None:
    """The reader of the expanded key sees it the same way."""
    file, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x0a\x02\x00\x00\x12\x02\x00\x00\x18\x05\x20\x06\x3a\x01x"  # field 7 as bytes
    found = read(file + encode_varint(len(key)) + key)
    assert found.error is None
    assert [cells for _, cells in found.entries] == [e.cell_bytes() for e in SAMPLE] + [b""]


def with_attributes(values: Iterable[bytes]) -> Entry:
    made = entry(Cell(b"row", b"f", b"q", 1, PUT, b"value"))
    for value in values:
        made.key.extended_attributes.add(key="k", value=value)
    return made


def test_attributes_that_refer_to_a_long_one_of_the_same_key_are_expanded() -> None:
    many = [*SAMPLE, with_attributes([b"long" * 2500] * 1000), *SAMPLE]
    data, _ = compress(many, Encoder(tags=True, codec=None))
    assert len(data) < 30_000
    found = read(data)
    assert (found.error, found.entries) == (None, plain(many))


@pytest.mark.parametrize("uses", [2_000, 30_000])
def test_a_key_that_would_become_longer_than_a_key_can_be_is_an_error(uses: int) -> None:
    data, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    fields = b"\xff" + encode_varint(10_000) + bytes(10_000), b"\x00\x02"
    first, again = (b"\x12" + encode_varint(len(field)) + field for field in fields)
    key = b"".join(b"\x62" + encode_varint(len(attribute)) + attribute for attribute in (first, *[again] * uses))
    found = read(data + encode_varint(len(key)) + key)
    assert isinstance(found.error, WalCorruptError)
    assert found.entries == plain(SAMPLE)


@pytest.mark.parametrize("field", [b"\x0a\x02\x00\x00", b"\x12\x02\x00\x00"], ids=["region", "table"])
@pytest.mark.parametrize("times", [2, 1000])
def test_a_key_with_a_region_or_table_more_than_once_is_an_error(field: bytes, times: int) -> None:
    data, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x18\x05\x20\x06" + field * times
    found = read(data + encode_varint(len(key)) + key)
    assert isinstance(found.error, WalCorruptError)
    assert "a field of the WALKey is malformed" in found.error.reason
    assert found.entries == plain(SAMPLE)


@pytest.mark.parametrize("message", [b"\x32\x08" + b"\x0a\x02\x00\x00" * 2, b"\x62\x08" + b"\x12\x02\x00\x00" * 2])
def test_a_scope_or_attribute_with_two_names_or_values_is_an_error(message: bytes) -> None:
    data, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x0a\x02\x00\x00\x12\x02\x00\x00\x18\x05\x20\x06" + message
    found = read(data + encode_varint(len(key)) + key)
    assert isinstance(found.error, WalCorruptError)
    assert "a field of the WALKey is malformed" in found.error.reason
    assert found.entries == plain(SAMPLE)


def test_long_attributes_take_only_the_memory_of_their_bytes() -> None:
    long = [with_attributes([rng.randbytes(24_000), rng.randbytes(24_000)]) for _ in range(10)]
    data, _ = compress(long, Encoder(tags=True, codec=None))
    assert (found := read(data)).error is None
    assert found.entries == plain(long)
    tracemalloc.start()
    try:
        for _ in read_wal_batches(MemoryFile(data), "wal", 0, partial_tail="error"):
            pass
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
