"""An entry that goes on beyond the end is damaged if another one or the trailer begins within it."""

from __future__ import annotations

import struct

import pytest

from tests.unit.hbase.wal.encoder import PUT, TRAILER, Cell, encode_entry, encode_header, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS, read
from tests.unit.hbase.wal.test_torn import ENTRIES
from walferry.hbase.wal.errors import WalCorruptError, WalTruncatedError
from walferry.hbase.wal.reader import read_windows


def test_an_entry_that_runs_into_the_trailer_is_damage_even_where_a_partial_tail_is_welcome() -> None:
    for length in range(SAMPLE_STARTS[-2] + 1, SAMPLE_STARTS[-1]):
        if length + len(TRAILER) - SAMPLE_STARTS[-1] in (0, 1):
            continue  # a whole entry, whose value ends like a trailer, perhaps with a byte of another one
        found = read(SAMPLE_BYTES[:length] + TRAILER, partial_tail="stop")
        assert isinstance(found.error, WalCorruptError)
        assert found.entries == list(map(encode_entry, SAMPLE[:-1]))


def test_the_error_names_the_damaged_entry_and_the_one_that_shows_it() -> None:
    whole = [encode_entry(e) for e in ENTRIES[:3]]
    head = encode_header()
    second = len(head) + len(whole[0])
    longer = bytearray(whole[1])
    at = whole[1].index(ENTRIES[1].cells[-1].encode()) + 8
    longer[at - 8 : at + 4] = struct.pack(">iii", 20_000 + 30, 22, 20_000)  # like the beginning of a cell with a longer value
    with pytest.raises(WalCorruptError, match=f"another one begins at byte {second + len(longer)}") as error:
        list(read_windows(MemoryFile(head + whole[0] + bytes(longer) + whole[2]), "wal", 0, partial_tail="stop"))
    assert error.value.offset == second


def test_an_entry_is_found_across_two_reads_of_a_long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.hbase.wal.unfinished.WINDOW_BYTES", 64)
    torn = encode_entry(entry(Cell(b"row", b"f", b"q", 1, PUT, bytes(3000))))
    for padding in range(64):
        data = encode_header() + torn[: 1000 + padding]
        with pytest.raises(WalTruncatedError):
            list(read_windows(MemoryFile(data), "wal", 0, partial_tail="error"))
        with pytest.raises(WalCorruptError, match=f"another one begins at byte {len(data)}"):
            list(read_windows(MemoryFile(data + encode_entry(ENTRIES[0])), "wal", 0, partial_tail="error"))
