"""Batches of any size give the entries of a plain file, wherever it ends and whichever byte is wrong."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, TRAILER, Cell, Entry, encode_entry, encode_wal, entry
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS, Read, read
from tests.unit.hbase.wal.strategies import entries, positions
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalOverrunError, WalPositionError, WalTruncatedError
from walferry.hbase.wal.wal_batches import PartialTail


@given(st.lists(entries(), max_size=6), st.integers(1, 3000))
def test_batches_of_any_size_give_every_entry_once_and_in_order(written: list[Entry], wal_batch_bytes: int) -> None:
    found = read(encode_wal(written), wal_batch_bytes=wal_batch_bytes)
    assert found.error is None
    assert found.entries == list(map(encode_entry, written))
    assert found.starts == positions(written)[:-1]


def test_an_entry_of_several_megabytes_is_read_through_small_batches() -> None:
    big = entry(Cell(b"row", b"f", b"q", 1, PUT, b"\x01\x02" * 2_500_000))
    written = [SAMPLE[0], big, SAMPLE[3]]
    assert read(encode_wal(written), wal_batch_bytes=64 << 10).entries == list(map(encode_entry, written))


@pytest.mark.parametrize("partial_tail", ["error", "stop"])
def test_a_position_in_the_middle_of_an_entry_is_refused(partial_tail: PartialTail) -> None:
    for data in (SAMPLE_BYTES, SAMPLE_BYTES[: SAMPLE_STARTS[-1]], SAMPLE_BYTES[: SAMPLE_STARTS[-1] - 5]):
        for position in range(SAMPLE_STARTS[0] + 1, SAMPLE_STARTS[3]):
            if position not in SAMPLE_STARTS:
                found = read(data, position, partial_tail=partial_tail)
                assert isinstance(found.error, WalPositionError), position
                assert found.entries == []
                before = max(start for start in SAMPLE_STARTS if start < position)
                assert f"one at byte {before} goes on beyond it" in str(found.error)


def misread_from(data: bytes, position: int) -> bool:
    found = read(data, position)
    return bool(found.entries) or not isinstance(found.error, WalError)


@pytest.mark.slow
@given(st.lists(entries(), min_size=1, max_size=4), st.binary(max_size=40), st.booleans())
@example([entry()], b"\0", False)  # like a trailer of which only the first bytes were written
@example([entry()], b"\0\0\0\0LAW", False)
def test_reading_from_within_an_entry_gives_an_error_and_no_entries(written: list[Entry], noise: bytes, closed: bool) -> None:
    """Other messages are not read as WALKeys, although numbers, nonces, names and values have bytes like those of fields."""
    written.append(entry(Cell(b"row", b"f", b"q", 1, PUT, b"\x65" * 150 + noise), region=b"0" * 32))
    data, starts = encode_wal(written, TRAILER if closed else b""), positions(written)
    assert not [at for at in range(starts[0], starts[-1]) if at not in starts and misread_from(data, at)]


def test_a_damaged_entry_is_not_blamed_on_the_position_before_it() -> None:
    broken = bytearray(SAMPLE_BYTES)
    broken[SAMPLE_STARTS[2]] = 0
    error = read(bytes(broken), SAMPLE_STARTS[2]).error
    assert isinstance(error, WalCorruptError)
    assert error.offset == SAMPLE_STARTS[2]


@pytest.mark.parametrize("wal_batch_bytes", [1, 8 << 20])
def test_a_file_cut_at_any_byte_gives_the_whole_entries_and_then_says_that_it_ends_early(wal_batch_bytes: int) -> None:
    for length in range(len(SAMPLE_BYTES)):
        whole = [encode_entry(e) for e, end in zip(SAMPLE, SAMPLE_STARTS[1:], strict=True) if end <= length]
        cut = SAMPLE_BYTES[:length]
        assert read(cut, wal_batch_bytes=wal_batch_bytes, partial_tail="stop") == Read(
            whole, SAMPLE_STARTS[: len(whole)], SAMPLE_STARTS[1 : len(whole) + 1]
        )
        found = read(cut, wal_batch_bytes=wal_batch_bytes)
        assert found.entries == whole
        if length in SAMPLE_STARTS or length > SAMPLE_STARTS[-1]:  # between entries, or in the trailer
            assert found.error is None
            continue
        error = found.error
        assert isinstance(error, WalTruncatedError)
        entry_start = max((start for start in SAMPLE_STARTS if start < length), default=0)
        assert error.offset == entry_start
        assert error.have == length - entry_start < error.need
        end = min(start for start in SAMPLE_STARTS if start > length)
        assert error.need <= end - entry_start


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("wal_batch_bytes", [64, 8 << 20])
def test_with_any_byte_flipped_the_entries_before_it_are_right_and_the_rest_ends(flip: int, wal_batch_bytes: int) -> None:
    for at in range(len(SAMPLE_BYTES)):
        broken = bytearray(SAMPLE_BYTES)
        broken[at] ^= flip
        found = read(bytes(broken), wal_batch_bytes=wal_batch_bytes)
        untouched = [encode_entry(e) for e, end in zip(SAMPLE, SAMPLE_STARTS[1:], strict=True) if end <= at]
        if at >= SAMPLE_STARTS[-1]:  # a broken trailer may lose the last entry, but never silently
            assert found.error is not None
            untouched.pop()
        assert found.entries[: len(untouched)] == untouched
        if found.error is not None and found.entries:
            assert found.error.offset >= found.ends[-1]


@pytest.mark.parametrize("flip", [0x01, 0x10, 0x80])
def test_a_flipped_byte_in_a_length_is_found_and_its_entry_named(flip: int) -> None:
    for i, written in enumerate(SAMPLE):
        for j, cell in enumerate(written.cells):
            start = SAMPLE_STARTS[i + 1] - sum(len(c.encode()) for c in written.cells[j:])
            for at in range(start, start + 12):
                broken = bytearray(SAMPLE_BYTES)
                broken[at] ^= flip
                error = read(bytes(broken)).error
                assert isinstance(error, WalCorruptError), (cell, at)
                named = SAMPLE_STARTS[i] if isinstance(error, WalOverrunError) else start
                assert error.offset == named
                assert isinstance(error, WalOverrunError) or f"in the entry that begins at byte {SAMPLE_STARTS[i]}" in str(error)
