"""Reads files as windows of any size, wherever the file ends and whichever byte is wrong."""

import pickle
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.wal.encoder import (
    DELETE_FAMILY,
    PUT,
    TRAILER,
    Cell,
    Entry,
    encode_entry,
    encode_tags,
    encode_wal,
    entry,
)
from tests.unit.wal.memory_file import MemoryFile
from tests.unit.wal.strategies import entries, positions
from walferry.wal.errors import (
    WalCorruptError,
    WalError,
    WalOverrunError,
    WalPositionError,
    WalTruncatedError,
    WalUnsupportedError,
)
from walferry.wal.reader import read_windows
from walferry.wal.windows import PartialTail


def sample() -> list[Entry]:
    """Some entries of all kinds, small enough to try every one of their bytes."""
    replicated = entry(Cell(b"row2", b"f", b"", 3, DELETE_FAMILY, b""), region=b"r2", sequence_id=300)
    uuid = UUID(int=1 << 100 | 7)
    replicated.key.cluster_ids.add(least_sig_bits=uuid.int & (1 << 64) - 1, most_sig_bits=uuid.int >> 64)
    replicated.key.scopes.add(family=b"f", scope_type=1)
    return [
        entry(Cell(b"row", b"f", b"q", 1, PUT, b"value"), Cell(b"row", b"f", b"q2", 1, PUT, b"", encode_tags([(8, b"ttl")]))),
        entry(sequence_id=2),
        replicated,
        entry(Cell(b"r", b"f", b"q", 4, PUT, bytes(range(200))), write_time=1700000000000),
    ]


SAMPLE = sample()
SAMPLE_STARTS = positions(SAMPLE)
SAMPLE_BYTES = encode_wal(SAMPLE)


@dataclass
class Read:
    """What a reader returned: each entry's bytes, the positions before and after it, and the error that ended the reading."""

    entries: list[bytes]
    starts: list[int]
    ends: list[int]
    error: WalError | None = None


def read(data: bytes, position: int = 0, window_bytes: int = 8 << 20, partial_tail: PartialTail = "error") -> Read:
    found = Read([], [], [])
    try:
        for window in read_windows(MemoryFile(data), "wal", position, window_bytes=window_bytes, partial_tail=partial_tail):
            assert len(window.index)
            for start, end in zip(window.index.entry_start, window.index.cells_end, strict=True):
                found.entries.append(window.buf[start:end].tobytes())
            found.starts += window.positions.tolist()
            found.ends += window.next_positions.tolist()
    except WalError as e:
        found.error = e
    if found.error is not None and not isinstance(found.error, WalPositionError):
        assert 0 <= found.error.offset <= len(data)
    assert found.ends[:-1] == found.starts[1:]
    assert found.entries == [data[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
    return found


@given(st.lists(entries(), max_size=6), st.integers(1, 3000))
def test_windows_of_any_size_give_every_entry_once_and_in_order(written: list[Entry], window_bytes: int) -> None:
    found = read(encode_wal(written), window_bytes=window_bytes)
    assert found.error is None
    assert found.entries == list(map(encode_entry, written))
    assert found.starts == positions(written)[:-1]


def test_an_entry_of_several_megabytes_is_read_through_small_windows() -> None:
    big = entry(Cell(b"row", b"f", b"q", 1, PUT, b"\x01\x02" * 2_500_000))
    written = [SAMPLE[0], big, SAMPLE[3]]
    assert read(encode_wal(written), window_bytes=64 << 10).entries == list(map(encode_entry, written))


def test_a_window_up_to_an_offset_has_the_entries_that_end_there_or_before() -> None:
    data = encode_wal(SAMPLE)
    (window,) = read_windows(MemoryFile(data), "f", 0, partial_tail="error")
    ends = window.next_positions.tolist()
    assert [len(window.until(offset).index) for offset in (0, ends[0] - 1, ends[0], ends[2] + 1, ends[-1])] == [
        0,
        0,
        1,
        3,
        len(ends),
    ]
    assert window.until(ends[1]).next_positions.tolist() == ends[:2]


def test_a_wal_without_entries_is_read_without_an_error() -> None:
    assert read(encode_wal([])) == Read([], [], [])
    assert read(encode_wal([], trailer=b"")) == Read([], [], [])


def test_reading_goes_on_from_any_entry_s_position() -> None:
    for i, start in enumerate(SAMPLE_STARTS):
        assert read(SAMPLE_BYTES, start).entries == list(map(encode_entry, SAMPLE[i:]))


def test_from_the_file_s_length_there_is_nothing_to_read() -> None:
    assert read(SAMPLE_BYTES, len(SAMPLE_BYTES)) == Read([], [], [])


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


FIELDS_WITHOUT_A_KEY = b"\x65abcd" * 6 + b"\x0a\x01r\x12\x01t\x18\x01\x20\x01"  # a whole key, but field 12 before it
OUT_OF_ORDER = b"\x12\x01t\x0a\x01r\x18\x01\x20\x01"
TWICE = b"\x0a\x01r\x0a\x01r\x12\x01t\x18\x01\x20\x01"
OF_ANOTHER_TYPE = b"\x08\x01\x0a\x01r\x12\x01t\x18\x01\x20\x01"


@pytest.mark.parametrize("message", [FIELDS_WITHOUT_A_KEY, OUT_OF_ORDER, TWICE, OF_ANOTHER_TYPE])
def test_a_message_that_hbase_does_not_write_is_not_a_key(message: bytes) -> None:
    like_an_entry = bytes([len(message)]) + message
    inside = encode_wal([entry(Cell(b"row", b"f", b"q", 1, PUT, like_an_entry))])
    error = read(inside, inside.index(like_an_entry)).error
    assert isinstance(error, WalPositionError)
    assert f"one at byte {len(encode_wal([], b''))} goes on beyond it" in str(error)


@pytest.mark.parametrize("position", [-1, 1, SAMPLE_STARTS[0] - 1, SAMPLE_STARTS[-1] + 1, len(SAMPLE_BYTES) + 1, 1 << 62])
def test_a_position_outside_of_the_entries_is_refused_and_the_error_says_where_they_are(position: int) -> None:
    error = read(SAMPLE_BYTES, position).error
    assert isinstance(error, WalPositionError)
    assert f"between bytes {SAMPLE_STARTS[0]} and {SAMPLE_STARTS[-1]}" in str(error)
    assert "walferry queues set-position" in str(error)


def test_a_damaged_entry_is_not_blamed_on_the_position_before_it() -> None:
    broken = bytearray(SAMPLE_BYTES)
    broken[SAMPLE_STARTS[2]] = 0
    error = read(bytes(broken), SAMPLE_STARTS[2]).error
    assert isinstance(error, WalCorruptError)
    assert error.offset == SAMPLE_STARTS[2]


@pytest.mark.parametrize("window_bytes", [1, 8 << 20])
def test_a_file_cut_at_any_byte_gives_the_whole_entries_and_then_says_that_it_ends_early(window_bytes: int) -> None:
    for length in range(len(SAMPLE_BYTES)):
        whole = [encode_entry(e) for e, end in zip(SAMPLE, SAMPLE_STARTS[1:], strict=True) if end <= length]
        cut = SAMPLE_BYTES[:length]
        assert read(cut, window_bytes=window_bytes, partial_tail="stop") == Read(
            whole, SAMPLE_STARTS[: len(whole)], SAMPLE_STARTS[1 : len(whole) + 1]
        )
        found = read(cut, window_bytes=window_bytes)
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


def test_an_entry_that_runs_into_the_trailer_is_damage_even_where_a_partial_tail_is_welcome() -> None:
    for length in range(SAMPLE_STARTS[-2] + 1, SAMPLE_STARTS[-1]):
        if length + len(TRAILER) - SAMPLE_STARTS[-1] in (0, 1):
            continue  # a whole entry, whose value ends like a trailer, perhaps with a byte of another one
        found = read(SAMPLE_BYTES[:length] + TRAILER, partial_tail="stop")
        assert isinstance(found.error, WalCorruptError)
        assert found.entries == list(map(encode_entry, SAMPLE[:-1]))


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("window_bytes", [64, 8 << 20])
def test_with_any_byte_flipped_the_entries_before_it_are_right_and_the_rest_ends(flip: int, window_bytes: int) -> None:
    for at in range(len(SAMPLE_BYTES)):
        broken = bytearray(SAMPLE_BYTES)
        broken[at] ^= flip
        found = read(bytes(broken), window_bytes=window_bytes)
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


def test_a_wal_of_another_kind_is_refused_wherever_reading_begins() -> None:
    other = SAMPLE_BYTES.replace(b"AsyncProtobufLogWriter", b"OtherProtobufLogWriter")
    for position in (0, SAMPLE_STARTS[1]):
        assert isinstance(read(other, position, partial_tail="stop").error, WalUnsupportedError)


@pytest.mark.parametrize("partial_tail", ["error", "stop"])
@pytest.mark.parametrize("missing", [1, 100, len(SAMPLE_BYTES)])
def test_a_file_system_that_gives_fewer_bytes_than_there_are_is_not_taken_for_the_file_s_end(
    partial_tail: PartialTail, missing: int
) -> None:
    class Short(MemoryFile):
        @property
        def size(self) -> int:
            return super().size + missing

    with pytest.raises(OSError, match="bytes were read, of a file of"):
        list(read_windows(Short(SAMPLE_BYTES), "wal", 0, partial_tail=partial_tail))


def test_errors_survive_the_way_from_a_spark_worker_to_its_driver() -> None:
    for error in (WalCorruptError("wal", 7, "why"), WalTruncatedError("wal", 7, 10, 3)):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
        assert str(error).startswith("wal at byte 7: ")
