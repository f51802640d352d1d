"""Encrypted WALs give the entries of plain ones, with the offsets in the encrypted file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import (
    DELETE_FAMILY,
    PUT,
    TRAILER,
    Cell,
    Entry,
    encode_entry,
    encode_header,
    encode_tags,
    encode_wal,
    entry,
)
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, Read
from tests.unit.hbase.wal.sealed import (
    MASTER_KEY,
    PACKAGE,
    WAL_KEY,
    Sealer,
    encode_sealed,
    plaintext,
    sealed_header,
    sealed_positions,
    wrap_key,
)
from tests.unit.hbase.wal.strategies import entries, rows
from walferry.hbase.wal.arrow import read_batches
from walferry.hbase.wal.codecs import encrypted
from walferry.hbase.wal.codecs.encrypted import Decryption
from walferry.hbase.wal.errors import (
    WalCorruptError,
    WalError,
    WalKeyError,
    WalOverrunError,
    WalPositionError,
    WalTruncatedError,
    WalUnsupportedError,
)
from walferry.hbase.wal.header import parse_header
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.scan import MAX_ENTRY_BYTES
from walferry.hbase.wal.wal_batches import PartialTail
from walferry.replication.filters.entry_filter import FilterRules, filter_batch

SEALED = encode_sealed(SAMPLE)
STARTS = sealed_positions(SAMPLE)


def key_of(wrapped: bytes) -> bytes:
    assert wrapped == wrap_key()
    return WAL_KEY


def read(data: bytes, position: int = 0, wal_batch_bytes: int = 8 << 20, partial_tail: PartialTail = "error") -> Read:
    found = Read([], [], [])
    try:
        for wal_batch in read_wal_batches(
            MemoryFile(data), "wal", position, wal_batch_bytes=wal_batch_bytes, partial_tail=partial_tail, unwrap_key=key_of
        ):
            assert len(wal_batch.index)
            for start, end in zip(wal_batch.index.entry_start, wal_batch.index.cells_end, strict=True):
                found.entries.append(wal_batch.buf[start:end].tobytes())
            found.starts += wal_batch.positions.tolist()
            found.ends += wal_batch.next_positions.tolist()
            assert [wal_batch.entry_offset(i) for i in range(len(wal_batch.index))] == wal_batch.positions.tolist()
    except WalError as e:
        found.error = e
    assert found.ends[:-1] == found.starts[1:]
    return found


def decode(data: bytes, position: int = 0, **options: Any) -> list[dict[str, Any]]:
    found = []
    for batch in read_batches(MemoryFile(data), "wal", position, unwrap_key=key_of, **options):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def sealed_rows(written: list[Entry]) -> list[dict[str, Any]]:
    """The same as `rows`, with the offsets in the encrypted file."""
    offsets = sealed_positions(written)
    of_cells = [(offsets[i], offsets[i + 1]) for i, each in enumerate(written) for _ in each.cells]
    return [row | {"key_offset": a, "next_offset": b} for row, (a, b) in zip(rows(written), of_cells, strict=True)]


@pytest.mark.slow
@given(st.lists(entries(), max_size=6), st.integers(1, 3000))
def test_wal_batches_of_any_size_give_every_entry_as_a_plain_one(written: list[Entry], wal_batch_bytes: int) -> None:
    found = read(encode_sealed(written), wal_batch_bytes=wal_batch_bytes)
    assert found.error is None
    assert found.entries == list(map(encode_entry, written))
    assert found.starts + found.ends[-1:] == sealed_positions(written)[: len(written) and None]


@given(st.lists(entries(), max_size=6), st.integers(1, 3000), st.integers(1, 3000))
def test_the_cells_decoded_are_the_cells_written(written: list[Entry], wal_batch_bytes: int, batch_bytes: int) -> None:
    assert decode(encode_sealed(written), wal_batch_bytes=wal_batch_bytes, batch_bytes=batch_bytes) == sealed_rows(written)


@given(st.lists(entries(), max_size=4), st.integers(1, 5), st.binary(min_size=16, max_size=16), st.sampled_from([16, 24, 32]))
def test_cells_may_begin_and_end_anywhere_in_a_chunk_of_counter_blocks(
    written: list[Entry], blocks: int, iv: bytes, key_bytes: int
) -> None:
    key = bytes(range(key_bytes))
    sealer = Sealer(key, iv)
    data = b"".join(map(sealer.entry, written))
    decryption = Decryption(key)
    decryption._blocks = np.empty((blocks, 2), dtype=np.uint64)
    found = decryption.entries(np.frombuffer(data, np.uint8), 0)
    assert found.fault is None
    assert found.consumed == len(data)
    index = found.batch.index
    assert [found.batch.buf[a:b].tobytes() for a, b in zip(index.entry_start, index.cells_end, strict=True)] == [
        encode_entry(e) for e in written
    ]


@pytest.mark.parametrize("iv", [b"\xff" * 16, b"\0" * 8 + b"\xff" * 8, b"\0" * 16, b"\xff" * 8 + b"\0" * 7 + b"\xff"])
def test_counters_carry_over_all_128_bits(iv: bytes) -> None:
    written = entry(Cell(b"row", b"f", b"q", 1, PUT, bytes(5000)))
    found = Decryption(WAL_KEY).entries(np.frombuffer(Sealer(iv=iv).entry(written), np.uint8), 0).batch
    assert found.buf[: found.index.cells_end[0]].tobytes() == encode_entry(written)


def test_an_entry_of_several_megabytes_is_read_through_small_wal_batches() -> None:
    big = entry(Cell(b"row", b"f", b"q", 1, PUT, b"\x01\x02" * 2_500_000, encode_tags([(8, b"ttl")])))
    written = [SAMPLE[0], big, SAMPLE[3]]
    assert read(encode_sealed(written), wal_batch_bytes=64 << 10).entries == list(map(encode_entry, written))


def test_cells_as_small_and_as_odd_as_they_can_be_are_rewritten() -> None:
    cells = [
        Cell(b"", b"", b"", 0, PUT, b""),
        Cell(b"r" * 0x7FFF, b"", b"", 0, DELETE_FAMILY, b""),
        Cell(b"r", b"f" * 127, b"q" * 100_000, (1 << 63) - 1, PUT, b"", encode_tags([(-1, b"t" * 32_000)])),
    ]
    written = [entry(*cells * 3), *(entry(cell) for cell in cells), entry(*cells[:1] * 1000)]
    for wal_batch_bytes in (1, 8 << 20):
        assert read(encode_sealed(written), wal_batch_bytes=wal_batch_bytes).entries == list(map(encode_entry, written))


def test_reading_goes_on_from_any_entry_s_position_and_from_no_other() -> None:
    for i, start in enumerate(STARTS):
        assert read(SEALED, start).entries == list(map(encode_entry, SAMPLE[i:]))
        assert decode(SEALED, start) == [row for row in sealed_rows(SAMPLE) if row["key_offset"] >= start]
    for position in set(range(STARTS[0] + 1, STARTS[3])) - set(STARTS):
        error = read(SEALED, position).error
        assert isinstance(error, WalPositionError), position
        before = max(start for start in STARTS if start < position)
        assert f"one at byte {before} goes on beyond it" in str(error)


def test_a_wal_batch_up_to_an_offset_has_the_entries_that_end_there_or_before() -> None:
    (wal_batch,) = read_wal_batches(MemoryFile(SEALED), "f", 0, partial_tail="error", unwrap_key=key_of)
    for offset in range(STARTS[0], len(SEALED)):
        until = wal_batch.until(offset)
        count = sum(end <= offset for end in STARTS[1:])
        assert until.positions.tolist() == STARTS[:count]
        assert until.next_positions.tolist() == STARTS[1 : count + 1]


@pytest.mark.long
@pytest.mark.parametrize("wal_batch_bytes", [1, pytest.param(8 << 20, marks=pytest.mark.slow)])
def test_a_file_cut_at_any_byte_gives_the_whole_entries_and_then_says_that_it_ends_early(wal_batch_bytes: int) -> None:
    for length in range(len(SEALED)):
        whole = [encode_entry(e) for e, end in zip(SAMPLE, STARTS[1:], strict=True) if end <= length]
        cut = SEALED[:length]
        assert read(cut, wal_batch_bytes=wal_batch_bytes, partial_tail="stop").entries == whole
        found = read(cut, wal_batch_bytes=wal_batch_bytes)
        assert found.entries == whole
        if length in STARTS or length > STARTS[-1]:
            assert found.error is None
            continue
        error = found.error
        assert isinstance(error, WalTruncatedError)
        entry_start = max((start for start in STARTS if start < length), default=0)
        assert error.offset == entry_start
        assert error.have == length - entry_start < error.need
        assert error.need <= min(start for start in STARTS if start > length) - entry_start


def test_an_entry_that_runs_into_the_trailer_is_damage() -> None:
    for length in range(STARTS[-2] + 1, STARTS[-1]):
        if length + len(TRAILER) - STARTS[-1] in (0, 1):
            continue  # a whole entry, whose ciphertext ends like a trailer, perhaps with a byte of another one
        found = read(SEALED[:length] + TRAILER, partial_tail="stop")
        assert isinstance(found.error, WalCorruptError)
        assert found.entries == list(map(encode_entry, SAMPLE[:-1]))


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("wal_batch_bytes", [64, 8 << 20])
def test_with_any_byte_flipped_the_entries_before_it_are_right_and_the_rest_ends(flip: int, wal_batch_bytes: int) -> None:
    for at in range(STARTS[0], len(SEALED)):
        broken = bytearray(SEALED)
        broken[at] ^= flip
        found = read(bytes(broken), wal_batch_bytes=wal_batch_bytes)
        untouched = [encode_entry(e) for e, end in zip(SAMPLE, STARTS[1:], strict=True) if end <= at]
        if at >= STARTS[-1]:
            assert found.error is not None
            untouched.pop()
        assert found.entries[: len(untouched)] == untouched
        if found.error is not None and found.entries:
            assert found.error.offset >= found.ends[-1]


def test_a_broken_cell_is_named_by_its_own_offset_and_what_was_before_it_is_right() -> None:
    sealer = Sealer()
    good = [entry(Cell(b"row%d" % i, b"f", b"q", 1, PUT, b"v" * 40)) for i in range(3)]
    first = Cell(b"r", b"f", b"q", 1, PUT, b"")
    shortened = plaintext(first)[:-1]
    bad_type = plaintext(Cell(b"r", b"f", b"q", 1, 3, b""))
    bad_tags = plaintext(Cell(b"r", b"f", b"q", 1, PUT, b"v", b"\0\x09\x01"))
    bad_key_length = bytes([plaintext(first)[0] + 1]) + plaintext(first)[1:]
    damaged, bad_lengths = "are not a cell", "lengths of the cell's tags"
    expected = {shortened: damaged, bad_key_length: damaged, bad_type: "type is none", bad_tags: bad_lengths}
    for broken, why in expected.items():
        start = encode_header(sealed_header()) + b"".join(map(sealer.entry, good))
        two = entry(first, first)
        key = two.key.SerializePartialToString()
        offset = len(start) + 1 + len(key) + len(sealer.seal(plaintext(first)))
        cells = sealer.seal(plaintext(first)) + sealer.seal(broken)
        found = read(start + bytes([len(key)]) + key + cells + sealer.entry(good[0]) + TRAILER)
        assert found.entries == list(map(encode_entry, good))
        assert isinstance(found.error, WalCorruptError)
        assert (found.error.offset, why in str(found.error)) == (offset, True), str(found.error)
        assert f"in the entry that begins at byte {len(start)}" in str(found.error)


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        (b"\x0f" + bytes(15) + b"\x0f" + bytes(60), "IV is not 16"),
        (b"\x10" + bytes(16) + b"\x0e" + bytes(60), "length of an encrypted cell is not between 15"),
        (b"\x10" + bytes(16) + b"\xff" * 10 + bytes(60), "length of an encrypted cell"),
        (b"\x10" + bytes(16) + b"\xff\xff\xff\xff\x0f" + bytes(60), f"and {MAX_ENTRY_BYTES}"),
    ],
)
def test_lengths_that_cannot_be_are_damage_and_not_waited_for(cell: bytes, what: str) -> None:
    key = entry(Cell(b"r", b"f", b"q", 1, PUT, b"")).key.SerializePartialToString()
    for trailer in (b"", TRAILER):
        error = read(encode_header(sealed_header()) + bytes([len(key)]) + key + cell + trailer, partial_tail="stop").error
        assert isinstance(error, WalCorruptError)
        assert what in str(error)
        assert not isinstance(error, WalOverrunError)


def test_a_count_of_cells_that_cannot_be_needs_no_memory() -> None:
    many = entry(Cell(b"r", b"f", b"q", 1, PUT, b""))
    many.key.following_kv_count = (1 << 32) - 1
    error = read(encode_sealed([many])).error
    assert isinstance(error, WalCorruptError)
    assert "number of cells" in str(error)


@given(st.binary(max_size=400), st.integers(1, 100))
def test_any_bytes_are_entries_or_an_error_of_ours(data: bytes, wal_batch_bytes: int) -> None:
    read(encode_header(sealed_header()) + data, wal_batch_bytes=wal_batch_bytes)
    for at in (0, 20, 60):
        read(SEALED[: STARTS[0] + at] + data + SEALED[STARTS[1] :], wal_batch_bytes=wal_batch_bytes)


def test_a_wrong_key_without_a_hash_to_tell_it_is_found_at_the_first_cell() -> None:
    for n in range(50):
        wal_batches = read_wal_batches(
            MemoryFile(SEALED), "wal", 0, partial_tail="error", unwrap_key=lambda _, n=n: bytes([n]) * 16
        )
        with pytest.raises(WalCorruptError, match="the key is not this file's") as e:
            list(wal_batches)
        assert e.value.offset < STARTS[1]


def test_filters_name_a_broken_key_by_its_offset_in_the_file() -> None:
    broken = entry(Cell(b"row", b"f", b"q", 1, PUT, b"v"))
    scope = broken.key.scopes.add()
    scope.family = b"f"
    scope.scope_type = 1
    sealer = Sealer()
    head = encode_header(sealed_header()) + b"".join(map(sealer.entry, SAMPLE))
    data = sealer.entry(broken).replace(b"\x0a\x01f\x10\x01", b"\x0a\x05f\x10\x01")
    (wal_batch,) = read_wal_batches(MemoryFile(head + data + TRAILER), "wal", 0, partial_tail="error", unwrap_key=key_of)
    from uuid import UUID

    with pytest.raises(WalCorruptError) as e:
        filter_batch(wal_batch, FilterRules(UUID(int=1), UUID(int=2)), "wal")
    assert e.value.offset == len(head)


@pytest.mark.parametrize("unclosed", [b"", TRAILER])
def test_an_encrypted_wal_without_entries_needs_no_key(unclosed: bytes) -> None:
    assert list(read_wal_batches(MemoryFile(encode_sealed([], trailer=unclosed)), "wal", 0, partial_tail="error")) == []


def test_an_encrypted_wal_without_a_key_provider_is_reported() -> None:
    with pytest.raises(WalKeyError, match="wal at byte 0: the WAL is encrypted, and no key provider"):
        next(read_wal_batches(MemoryFile(SEALED), "wal", 0, partial_tail="stop"))


def test_the_key_provider_s_error_is_reported_with_the_file() -> None:
    def none(_: bytes) -> bytes:
        raise ValueError("key store /k: no such key")

    with pytest.raises(WalKeyError, match=r"wal at byte 0: the WAL is encrypted, .* key store /k: no such key"):
        next(read_wal_batches(MemoryFile(SEALED), "wal", 0, partial_tail="stop", unwrap_key=none))


def test_the_header_carries_the_wrapped_key() -> None:
    assert parse_header(SEALED, "wal").wrapped_key == wrap_key()
    assert parse_header(encode_header(), "wal").wrapped_key is None


def test_an_encrypted_wal_is_not_compressed_whatever_its_header_says() -> None:
    header = sealed_header(has_compression=True, has_tag_compression=True, has_value_compression=True)
    assert read(encode_sealed(SAMPLE, header=header)).entries == list(map(encode_entry, SAMPLE))


def test_the_secure_codec_without_a_key_writes_plain_cells() -> None:
    header = sealed_header()
    header.ClearField("encryption_key")
    plain = encode_header(header) + encode_wal(SAMPLE)[len(encode_header()) :]
    assert read(plain).entries == list(map(encode_entry, SAMPLE))
    header.has_compression = True
    with pytest.raises(WalUnsupportedError):
        parse_header(encode_header(header), "wal")


def test_a_key_for_another_codec_is_not_used() -> None:
    header = sealed_header(cell_codec_cls_name=PACKAGE + "WALCellCodec")
    assert parse_header(encode_header(header), "wal").wrapped_key is None


def test_no_key_is_shown() -> None:
    assert repr(WAL_KEY)[2:-1] not in repr(Decryption(WAL_KEY))
    assert repr(MASTER_KEY)[2:-1] not in repr(parse_header(SEALED, "wal"))


def test_a_sealed_entry_has_room_for_the_plain_one() -> None:
    smallest = entry(Cell(b"", b"", b"", 0, PUT, b""))
    sealed = Sealer().entry(smallest)
    assert len(sealed) - len(encode_entry(smallest)) == encrypted.MIN_SEALED - 24
    assert encrypted.MAX_SEALED_ENTRY_BYTES >= MAX_ENTRY_BYTES * encrypted.MIN_SEALED // 24
