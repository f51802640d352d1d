"""WALs in Phoenix's codec give the cells that HBase reads with Phoenix's jar, and a cell that is never shipped for an index."""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressed_samples import plain, read
from tests.unit.hbase.wal.compressing import compress
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, entry
from tests.unit.hbase.wal.indexed import Index, PhoenixEncoder, encode, index, indexed_entries, vint, with_cells, without_indexes
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE
from walferry.hbase.wal.codecs import phoenix
from walferry.hbase.wal.errors import WalCorruptError, WalTruncatedError
from walferry.hbase.wal.header import ValueCodec
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.filters.entry_filter import FilterRules, filter_batch

Write = Callable[[list[Entry]], tuple[bytes, list[int]]]


def compressed(codec: int | None = None, *, tags: bool = True) -> Write:
    return lambda written: compress(written, PhoenixEncoder(tags=tags, codec=codec))


WRITERS = {"plain": encode, "compressed": compressed(), "compressed values": compressed(ValueCodec.GZ, tags=False)}
HOW = [pytest.param(how, marks=pytest.mark.slow) if how == "compressed values" else how for how in WRITERS]
MIXED = [
    with_cells(SAMPLE[0], [index(), *SAMPLE[0].cells, index(b"t" * 200, bytes(300))]),
    *SAMPLE[1:3],
    with_cells(SAMPLE[1], [index(), index()]),
    with_cells(SAMPLE[3], [SAMPLE[3].cells[0], index()]),
]


@pytest.fixture(params=HOW)
def write(request: pytest.FixtureRequest) -> Write:
    return WRITERS[request.param]


def test_without_indexes_the_cells_are_those_of_hbases_own_codec(write: Write) -> None:
    data, offsets = write(SAMPLE)
    found = read(data)
    assert (found.entries, found.starts, found.ends, found.error) == (plain(SAMPLE), offsets[:-1], offsets[1:], None)


@given(indexed_entries(), st.sampled_from(list(WRITERS)), st.sampled_from([1, 40, 200, 1 << 20]), st.data())
def test_from_any_position_the_entries_are_read_with_a_cell_for_each_index(
    written: list[Entry], how: str, wal_batch_bytes: int, data: st.DataObject
) -> None:
    file, offsets = WRITERS[how](written)
    first = data.draw(st.integers(0, len(written)))
    found = read(file, offsets[first], wal_batch_bytes)
    assert found.error is None
    assert found.entries == plain(without_indexes(written[first:]))
    assert (found.starts, found.ends) == (offsets[first:-1], offsets[first + 1 :])


@pytest.mark.long
@pytest.mark.parametrize("wal_batch_bytes", [7, 1 << 20])
def test_a_file_that_ends_anywhere_gives_its_whole_entries(write: Write, wal_batch_bytes: int) -> None:
    data, offsets = write(MIXED)
    for length in range(offsets[0], len(data)):
        whole = sum(end <= length for end in offsets[1:])
        found = read(data[:length], wal_batch_bytes=wal_batch_bytes)
        assert found.entries == plain(without_indexes(MIXED[:whole])), length
        if length in offsets or length > offsets[-1]:
            assert found.error is None, length
        else:
            assert isinstance(found.error, WalTruncatedError), length
            assert found.error.offset == offsets[whole]


@pytest.mark.long
def test_no_changed_byte_leads_to_an_error_that_is_not_a_wals(write: Write) -> None:
    data, offsets = write(MIXED)
    for at in range(offsets[0], offsets[-1]):
        for byte in (0, 1, 0x7F, 0x80, 0x8C, 0x8F, 0xFF):
            read(data[:at] + bytes([byte]) + data[at + 1 :])


@pytest.mark.parametrize("length", [30, 127, 128, 255, 256, 0xFFFF, 0x10000, 0xFFFFFF, 1 << 24])
def test_lengths_are_hadoops(length: int) -> None:
    data, offsets = encode([entry(index(mutation=bytes(length)))])
    assert read(data).ends == offsets[1:]


BROKEN = {
    "a negative length": struct.pack(">i", -1) + b"\x90" + bytes(60),
    "a length of five bytes": struct.pack(">i", -1) + b"\x8b" + bytes(60),
    "a length beyond all entries": struct.pack(">i", -1) + b"\x8c\x7f\xff\xff\xff" + bytes(60),
    "a mutation too short for a cell": struct.pack(">i", -1) + vint(3) + b"IDX" + vint(2) + bytes(2),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_index_is_refused_by_name_and_place(write: Write, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = entry(Cell(b"r", b"f", b"q", 1, PUT, b"v"), sequence_id=1)
    monkeypatch.setattr(Index, "encode", lambda self: BROKEN[what])
    data, offsets = write([good, entry(index()), good])
    found = read(data)
    assert found.entries == plain([good])
    assert isinstance(found.error, WalCorruptError)
    assert "one of Phoenix's index entries" in str(found.error)
    assert offsets[1] <= found.error.offset < offsets[2]


def test_a_marker_that_phoenix_does_not_write_is_refused() -> None:
    class Other(PhoenixEncoder):
        def cell(self, cell: Cell) -> bytes:
            return b"\x01" + super().cell(cell)[1:]

    data, _ = compress([entry(Cell(b"r", b"f", b"q", 1, PUT, b"v"))], Other(tags=False, codec=None))
    error = read(data).error
    assert isinstance(error, WalCorruptError)
    assert "the byte before a cell of Phoenix's codec" in str(error)


def test_no_index_is_shipped(write: Write) -> None:
    shipped = entry(index(), Cell(b"r", b"f", b"q", 1, PUT, b"v"), index())
    alone = entry(index(), sequence_id=2)
    for each in (shipped, alone):
        each.key.scopes.add(family=b"f", scope_type=1)
    (batch,) = read_wal_batches(MemoryFile(write([shipped, alone])[0]), "wal", 0, partial_tail="error")
    kept = filter_batch(batch, FilterRules(UUID(int=1), UUID(int=2)), "wal")
    assert kept.cells.tolist() == [1, 0]
    assert batch.buf[kept.span_start[0] : kept.span_end[0]].tobytes() == shipped.cells[1].encode()


def test_a_file_of_many_entries_gets_a_wider_table() -> None:
    written = [entry(index(), sequence_id=number) for number in range(1, 1000)]
    data, offsets = encode(written)
    assert read(data).ends == offsets[1:]
    assert len(without_indexes(written)[0].cells[0].encode()) == phoenix.PLACEHOLDER_BYTES
