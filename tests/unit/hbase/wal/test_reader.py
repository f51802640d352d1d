"""Reads a file from any of its entries on, and refuses positions and files that cannot be read."""

import pickle

import pytest

from tests.unit.hbase.wal.encoder import encode_entry, encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS, Read, read
from walferry.hbase.wal.errors import WalCorruptError, WalPositionError, WalTruncatedError, WalUnsupportedError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import PartialTail


def test_a_wal_without_entries_is_read_without_an_error() -> None:
    assert read(encode_wal([])) == Read([], [], [])
    assert read(encode_wal([], trailer=b"")) == Read([], [], [])


def test_reading_goes_on_from_any_entry_s_position() -> None:
    for i, start in enumerate(SAMPLE_STARTS):
        assert read(SAMPLE_BYTES, start).entries == list(map(encode_entry, SAMPLE[i:]))


def test_from_the_file_s_length_there_is_nothing_to_read() -> None:
    assert read(SAMPLE_BYTES, len(SAMPLE_BYTES)) == Read([], [], [])


@pytest.mark.parametrize("position", [-1, 1, SAMPLE_STARTS[0] - 1, SAMPLE_STARTS[-1] + 1, len(SAMPLE_BYTES) + 1, 1 << 62])
def test_a_position_outside_of_the_entries_is_refused_and_the_error_says_where_they_are(position: int) -> None:
    error = read(SAMPLE_BYTES, position).error
    assert isinstance(error, WalPositionError)
    assert f"between bytes {SAMPLE_STARTS[0]} and {SAMPLE_STARTS[-1]}" in str(error)
    assert "walferry queues set-position" in str(error)


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
        list(read_wal_batches(Short(SAMPLE_BYTES), "wal", 0, partial_tail=partial_tail))


def test_errors_survive_the_way_from_a_spark_worker_to_its_driver() -> None:
    for error in (WalCorruptError("wal", 7, "why"), WalTruncatedError("wal", 7, 10, 3)):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
        assert str(error).startswith("wal at byte 7: ")
