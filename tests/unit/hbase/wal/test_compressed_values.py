"""A compressed value that is broken, or stored with a wrong length, only breaks its own entry."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressed_samples import CODECS, SAMPLE, SAMPLES, codecs, plain, read, written
from tests.unit.hbase.wal.compressing import GZ, ZSTD, Encoder, compress
from tests.unit.hbase.wal.encoder import DELETE, DELETE_FAMILY, PUT, Cell, Entry, encode_header, encode_tags, encode_varint, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.small_buffers import small_buffers
from walferry.hbase.wal.errors import WalCorruptError, WalUnsupportedError
from walferry.hbase.wal.reader import read_wal_batches


def test_a_value_that_does_not_decompress_is_named_and_what_lies_before_it_is_read() -> None:
    data, offsets = SAMPLES["GZ"]
    at = data.index(b"\x1f\x8b", data.index(b"\x1f\x8b", offsets[1]) + 1)  # the first one is an empty value's, which is skipped
    found = read(data[:at] + b"\x00" + data[at + 1 :])
    assert isinstance(found.error, WalCorruptError)
    assert "a value cannot be decompressed" in str(found.error)
    assert f"begins at byte {offsets[1]}" in str(found.error)
    assert found.entries == plain(SAMPLE[:1])


class Lying(Encoder):
    """Stores a length that is `by` bytes off before value number `which`.

    It is never zero for an empty value: that stands for the value, too, and what was stored of it may then be a cell's tags.
    """

    def __init__(self, which: int, by: int, **options: Any) -> None:
        super().__init__(**options)
        self._left, self._by = which, by

    def value(self, value: bytes) -> bytes:
        stored = super().value(value)
        self._left -= 1
        if self._left != -1 or self._codec is None:
            return stored
        begin = next(i for i in range(10) if stored[i] < 0x80) + 1
        length = max(len(stored) - begin + self._by, 0 if value else 1)
        return encode_varint(length) + stored[begin:]


DELETES = [
    entry(*(Cell(b"row%d" % (i % 5), b"f", b"q", i, DELETE, b"") for _ in range(i % 3)), sequence_id=i)
    if i % 2
    else entry(Cell(b"row%d" % i, b"f", b"q", i, PUT, b"value %d" % i), Cell(b"row%d" % i, b"f", b"", i, DELETE_FAMILY, b""))
    for i in range(24)
]


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "no codec"])
@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("values", [(1,), pytest.param((0, 7, 20), marks=pytest.mark.slow)])
def test_a_stored_length_that_is_too_long_swallows_no_entry(codec: str, tags: bool, values: tuple[int, ...]) -> None:
    """This holds for any number of bytes that it claims, even exactly those of the next entries."""
    options = {"tags": tags, "codec": CODECS[codec]}
    _, offsets = compress(DELETES, Encoder(**options))
    ends = [b - a for i, a in enumerate(offsets) for b in offsets[i + 1 : i + 4]]
    sound, _ = compress(DELETES, Encoder(**options))
    for which in values:
        for by in sorted({*range(-8, 9), *(end + shift for end in ends for shift in (-4, 0))}):
            data, _ = compress(DELETES, Lying(which, by, **options))
            found = read(data)
            if data != sound:
                assert found.error is not None, (which, by)
                assert found.entries == plain(DELETES)[: len(found.entries)]
            else:
                assert found.entries == plain(DELETES)


@given(written, st.booleans(), codecs.filter(bool), st.integers(0, 20), st.integers(-20, 400), st.sampled_from([40, 1 << 20]))
def test_another_stored_length_gives_an_error_or_the_same_entries(
    written: list[Entry], tags: bool, codec: int, which: int, by: int, wal_batch_bytes: int
) -> None:
    found = read(compress(written, Lying(which, by, tags=tags, codec=codec))[0], wal_batch_bytes=wal_batch_bytes)
    assert found.entries == plain(written)[: len(found.entries)]
    assert found.error or len(found.entries) == len(written)


@pytest.mark.parametrize("wal_batch_bytes", [60, 1 << 20])
def test_a_broken_empty_value_breaks_its_own_entry(wal_batch_bytes: int) -> None:
    """Once expanded, it may lie where the next entry begins."""
    written = [entry(Cell(b"row%d" % i, b"f", b"q", i, DELETE, b""), sequence_id=i + 1) for i in range(6)]
    _, offsets = compress(written, Encoder(tags=False, codec=GZ))
    data, _ = compress(written, Lying(2, 1, tags=False, codec=GZ))
    found = read(data, wal_batch_bytes=wal_batch_bytes)
    assert isinstance(found.error, WalCorruptError)
    assert f"begins at byte {offsets[2]}" in str(found.error)
    assert found.entries == plain(written[:2])
    broken = bytearray(compress(written, Encoder(tags=False, codec=GZ))[0])
    broken[offsets[3] - 5] ^= 0xFF  # in the third one's
    assert f"begins at byte {offsets[2]}" in str(read(bytes(broken), wal_batch_bytes=wal_batch_bytes).error)
    assert read(bytes(broken), offsets[3], wal_batch_bytes).entries == plain(written[3:])


def test_values_of_an_algorithm_that_cannot_be_read_are_named() -> None:
    header = Encoder(tags=True, codec=8).header
    with pytest.raises(WalUnsupportedError, match="by number 8 of HBase's algorithms, which cannot be read; these can: GZ"):
        list(read_wal_batches(MemoryFile(encode_header(header)), "wal", 0, partial_tail="error"))


MANY = [
    entry(
        Cell(b"row%d" % i * (i % 9 + 1), b"f", b"q%d" % (i % 150), i, PUT, b"value %d " % i * 9, encode_tags([(1, b"t%d" % i)])),
        Cell(b"row%d" % i, b"g", b"q", i, PUT, b"another %d " % i * 9),
        sequence_id=i,
    )
    for i in range(80)
]


@pytest.mark.long
@pytest.mark.parametrize("codec", ["GZ", "SNAPPY", "LZ4", "ZSTD"])
@pytest.mark.parametrize(("arena", "out"), [(300, 1 << 20), (1 << 20, 500), (300, 500)])
def test_a_broken_value_ends_the_reading_whyever_its_pass_stops(codec: str, arena: int, out: int) -> None:
    data, offsets = compress(MANY, Encoder(tags=False, codec=CODECS[codec]))
    with small_buffers(arena, out):
        assert read(data).entries == plain(MANY)
    for broken in range(0, len(MANY), 7):
        stored = Encoder(tags=False, codec=CODECS[codec]).value(MANY[broken].cells[1].value)
        spoilt = bytearray(data)
        spoilt[offsets[broken + 1] - len(stored) + 1] ^= 0x55  # of gzip's magic, or of the length that blocks begin with
        for wal_batch_bytes in (700, 1 << 20):
            with small_buffers(arena, out):
                found = read(bytes(spoilt), wal_batch_bytes=wal_batch_bytes)
            assert isinstance(found.error, WalCorruptError)
            assert f"begins at byte {offsets[broken]}" in str(found.error)
            assert found.entries == plain(MANY[:broken])
            assert found.ends == offsets[1 : broken + 1]


class WithDictionary(Encoder):
    """Compresses like HBase with hbase.io.compress.zstd.dictionary, from value number `first` of the file on."""

    def __init__(self, *, framed: bool, first: int = 0) -> None:
        super().__init__(tags=True, codec=ZSTD)
        trained = zstandard.train_dictionary(2048, [b"value%08d-%d" % (i, i * i) * 3 for i in range(2000)])
        self._compressor = zstandard.ZstdCompressor(dict_data=trained)
        self._framed, self._first, self._values = framed, first, 0

    def value(self, value: bytes) -> bytes:
        self._values += 1
        if self._values <= self._first:
            return super().value(value)
        frame = self._compressor.compress(value)
        data = struct.pack(">ii", len(value), len(frame)) + frame if self._framed else frame
        return encode_varint(len(data)) + data


@pytest.mark.parametrize("framed", [True, False])
def test_values_that_need_a_dictionary_are_not_damaged(framed: bool) -> None:
    data, offsets = compress(SAMPLE, WithDictionary(framed=framed))
    found = read(data)
    assert isinstance(found.error, WalUnsupportedError)
    assert "hbase.io.compress.zstd.dictionary" in found.error.reason
    assert offsets[0] < found.error.offset < offsets[1]
    assert found.entries == []


@pytest.mark.parametrize("out", [500, 1 << 20])
def test_a_value_that_claims_to_need_a_dictionary_after_others_that_did_not_is_damage(out: int) -> None:
    data, offsets = compress(MANY, WithDictionary(framed=True, first=80))
    with small_buffers(out=out):
        found = read(data)
    assert isinstance(found.error, WalCorruptError)
    assert f"begins at byte {offsets[40]}" in str(found.error)
    assert found.entries == plain(MANY[:40])


@pytest.mark.parametrize("wal_batch_bytes", [300, 1 << 20])
def test_a_broken_value_before_the_position_does_not_matter(wal_batch_bytes: int) -> None:
    """As the error's advice says, an operator may move the position past lost entries."""
    entries = [entry(Cell(b"row%d" % i, b"f", b"q", 1, PUT, b"value %d " % i * 30), sequence_id=i + 1) for i in range(8)]
    data, offsets = compress(entries, Encoder(tags=False, codec=GZ))
    broken = bytearray(data)
    broken[data.index(b"\x1f\x8b", offsets[3])] ^= 0xFF
    for position in offsets[:4]:
        assert isinstance(read(bytes(broken), position, wal_batch_bytes).error, WalCorruptError)
    for i in range(4, 8):
        found = read(bytes(broken), offsets[i], wal_batch_bytes)
        assert found.error is None
        assert found.entries == read(data, offsets[i], wal_batch_bytes).entries
        assert len(found.entries) == 8 - i
