"""The trailer follows the last entry, whatever bytes a client's value ends with."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from tests.unit.hbase.wal.compressing import GZ, NONE, Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, TRAILER, Cell, Entry, encode_header, encode_wal, entry
from tests.unit.hbase.wal.fuzzing import KEYS
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.sealed import encode_sealed
from walferry.base.protos.hbase_pb2 import WALHeader
from walferry.hbase.wal.errors import (
    WalCorruptError,
    WalError,
    WalOverrunError,
    WalPositionError,
    WalTornError,
    WalTruncatedError,
    WalUnclosedError,
)
from walferry.hbase.wal.reader import read_wal_batches

KINDS = ["plain", "dictionaries", "uncompressed values", "GZ", "encrypted"]
RAW_VALUES = ["plain", "dictionaries", "uncompressed values"]


def value_ending(size: int) -> bytes:
    """A value that ends like a trailer of `size` bytes. As much as possible of what comes before is a message."""
    return b"\x08\x01" * 30 + (size & 0xFFFFFFFF).to_bytes(4) + b"LAWP"


def entries_ending(size: int) -> list[Entry]:
    return [entry(Cell(b"row%d" % i, b"f", b"q", 1, PUT, b"v"), sequence_id=i + 1) for i in range(5)] + [
        entry(Cell(b"row", b"f", b"q", 1, PUT, b"v"), Cell(b"row", b"f", b"q2", 1, PUT, value_ending(size)), sequence_id=9)
    ]


def written(kind: str, entries: Sequence[Entry], trailer: bytes) -> bytes:
    codecs = {"dictionaries": None, "uncompressed values": NONE, "GZ": GZ}
    if kind == "plain":
        return encode_wal(entries, trailer)
    if kind == "encrypted":
        return encode_sealed(entries, trailer=trailer)
    return compress(entries, Encoder(tags=False, codec=codecs[kind]), trailer=trailer)[0]


def read(data: bytes, position: int = 0, wal_batch_bytes: int = 8 << 20, required: bool = False) -> tuple[int, WalError | None]:
    """The number of entries, and the error after them."""
    count = 0
    try:
        for batch in read_wal_batches(
            MemoryFile(data), "wal", position, wal_batch_bytes=wal_batch_bytes, partial_tail="error", unwrap_key=KEYS,
            trailer_required=required,
        ):  # fmt: skip
            count += len(batch.index)
    except WalError as e:
        return count, e
    return count, None


SIZES = [0, 1, 2, 4, 40, 60, 61, 100, 150, 200, 300, 100_000, 0x7FFFFFFF, -1]


@pytest.mark.parametrize("wal_batch_bytes", [1, 100, 8 << 20])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_an_unclosed_file_gives_the_entry_whose_value_ends_like_a_trailer(kind: str, size: int, wal_batch_bytes: int) -> None:
    data = written(kind, entries_ending(size), b"")
    assert data.endswith(b"LAWP") == (kind in RAW_VALUES)
    assert read(data, wal_batch_bytes=wal_batch_bytes) == (6, None)


def test_a_trailer_with_fields_that_would_be_the_whole_entry_or_more_is_an_entry() -> None:
    whole = encode_wal(entries_ending(0), b"")
    for size in range(len(whole)):
        assert read(encode_wal(entries_ending(size), b"")) == (6, None)


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_closed_file_gives_the_entry_whose_value_ends_like_a_trailer(kind: str, size: int, required: bool) -> None:
    assert read(written(kind, entries_ending(size), TRAILER), required=required) == (6, None)


@pytest.mark.parametrize("wal_batch_bytes", [1, 8 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_a_required_trailer_that_belongs_to_an_entry_is_an_error_after_the_entries(kind: str, wal_batch_bytes: int) -> None:
    data = written(kind, entries_ending(0), b"")
    count, error = read(data, wal_batch_bytes=wal_batch_bytes, required=True)
    assert count == 6
    assert isinstance(error, WalUnclosedError)
    assert error.offset == len(data) - len(TRAILER)
    assert type(pickle.loads(pickle.dumps(error))) is WalUnclosedError


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_partial_entry_does_not_close_a_file(kind: str) -> None:
    data = written(kind, entries_ending(0)[:5], b"")
    whole = written(kind, entries_ending(0), b"")
    for cut in range(len(data) + 1, len(whole) - len(TRAILER)):
        count, error = read(whole[:cut] + TRAILER, required=True)
        assert count == 5
        assert isinstance(error, (WalUnclosedError, WalCorruptError))
        assert not isinstance(error, WalTornError)


@pytest.mark.parametrize("kind", KINDS)
def test_positions_at_and_behind_what_looks_like_a_trailer(kind: str) -> None:
    for trailer in (b"", TRAILER):
        data = written(kind, entries_ending(0), trailer)
        proven = bool(trailer)
        end = len(data) - len(trailer)
        assert read(data, end, required=proven) == (0, None)
        assert read(data, len(data)) == (0, None)
        if not proven and kind not in RAW_VALUES:
            continue
        _, error = read(data, len(data), required=True)
        assert error is None if proven else isinstance(error, WalUnclosedError)
        _, error = read(data, len(data) + 1, required=True)  # like the position in a file on HDFS whose length is not yet known
        assert isinstance(error, WalPositionError if proven else WalUnclosedError)
        for position in range(end - 4 if not proven else end + 1, len(data)):
            assert isinstance(read(data, position)[1], WalPositionError), position


@pytest.mark.parametrize("kind", RAW_VALUES)
def test_an_entry_that_ends_within_the_trailer_is_damaged_and_not_handed_out(kind: str) -> None:
    sound = written(kind, entries_ending(0), b"")
    for missing in range(1, len(TRAILER)):
        count, error = read(sound[: -len(TRAILER) - missing] + TRAILER)
        assert (count, type(error)) == (5, WalTornError)
    for missing in range(2, len(TRAILER)):
        count, error = read(sound[: -len(TRAILER) + missing] + TRAILER)
        assert (count, type(error)) == (5, WalOverrunError)


@pytest.mark.parametrize("kind", RAW_VALUES)
def test_the_last_byte_of_what_looks_like_a_trailer_may_be_the_first_of_an_entry(kind: str) -> None:
    """This is the case for an entry whose WALKey has 80 bytes, as many have."""
    cell = Cell(b"row", b"f", b"q", 1, PUT, TRAILER[:-1])
    data = written(kind, [*entries_ending(0)[:5], entry(cell, sequence_id=9)], b"") + b"P"
    assert data.endswith(TRAILER)
    count, error = read(data)
    assert (count, type(error)) == (6, WalTornError)
    count, error = read(data, required=True)
    assert (count, type(error)) == (6, WalUnclosedError)


def test_a_trailer_cannot_begin_within_the_header() -> None:
    entries = entries_ending(0)[:2]
    first = len(encode_wal([], b""))
    for size in range(1, 300):
        cut = encode_wal(entries, b"")[:-20] + size.to_bytes(4) + b"LAWP"
        count, error = read(cut)
        assert count == 1
        assert isinstance(error, (WalTruncatedError, WalCorruptError))
        assert error.offset >= first


def test_a_header_may_end_like_a_trailer() -> None:
    header = encode_header(WALHeader(has_compression=False, encryption_key=b"key" + TRAILER))
    assert read(header) == (0, None)
    assert isinstance(read(header, required=True)[1], WalUnclosedError)
    assert read(header + TRAILER, required=True) == (0, None)
