"""A file of which some bytes cannot be had gives the entries before them, and then says where they are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.unit.hbase.wal.compressing import SNAPPY, Encoder, compress
from tests.unit.hbase.wal.encoder import TRAILER, encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_STARTS
from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.reader import read_wal_batches

PLAIN = encode_wal(SAMPLE), SAMPLE_STARTS
COMPRESSED = compress(SAMPLE, Encoder(tags=True, codec=SNAPPY))
WAL_BATCHES = [100, 8 << 20]


@dataclass(frozen=True)
class Holed(MemoryFile):
    """The byte at `hole` cannot be had."""

    hole: int

    def read_at(self, offset: int, length: int) -> bytes:
        if offset <= self.hole < offset + length:
            raise UnreadableBytes("wal", self.hole, "the block is missing", "Look for it", lost=True)
        return super().read_at(offset, length)


def read(file: Holed, position: int, wal_batch_bytes: int, *, closed: bool) -> tuple[list[int], WalError | None]:
    """Return where the entries end that were read, and the error that ended the reading."""
    ends: list[int] = []
    try:
        for batch in read_wal_batches(
            file, "wal", position, wal_batch_bytes=wal_batch_bytes, partial_tail="stop", trailer_required=closed
        ):
            ends += batch.next_positions.tolist()
    except WalError as error:
        return ends, error
    return ends, None


@pytest.mark.parametrize("wal_batch_bytes", WAL_BATCHES)
@pytest.mark.parametrize("wal", [PLAIN, COMPRESSED], ids=["plain", "compressed"])
def test_entries_before_a_byte_that_cannot_be_had_are_read_wherever_it_is(
    wal: tuple[bytes, list[int]], wal_batch_bytes: int
) -> None:
    data, starts = wal
    for hole in sorted({*range(0, len(data), 9), *(start + near for start in starts for near in (-1, 0, 1)), len(data) - 1}):
        in_tail = hole >= len(data) - len(TRAILER)
        ends, error = read(Holed(data, hole), 0, wal_batch_bytes, closed=not in_tail)
        assert ends == [end for end in starts[1:] if end <= hole], hole
        assert isinstance(error, UnreadableBytes), hole
        assert error.offset == hole


@pytest.mark.parametrize("wal_batch_bytes", WAL_BATCHES)
def test_what_lies_before_the_position_need_not_be_readable(wal_batch_bytes: int) -> None:
    data, starts = PLAIN
    for position in starts[1:-1]:
        for hole in range(starts[0], position):
            found = read(Holed(data, hole), position, wal_batch_bytes, closed=True)
            assert found == ([each for each in starts if each > position], None)


def test_a_header_that_cannot_be_had_is_not_taken_for_one_that_was_cut_off() -> None:
    for hole in range(SAMPLE_STARTS[0]):
        _, error = read(Holed(encode_wal(SAMPLE), hole), SAMPLE_STARTS[1], 100, closed=False)
        assert isinstance(error, UnreadableBytes)


def test_the_error_is_one_of_files_and_of_wals_and_says_what_to_do() -> None:
    error = UnreadableBytes("hdfs://nn/w", 7, "the block is missing", "See hdfs fsck /w", lost=True)
    assert str(error) == "hdfs://nn/w at byte 7: the block is missing. See hdfs fsck /w"
    assert (error.advice, error.reason, error.lost) == ("See hdfs fsck /w", "the block is missing", True)
