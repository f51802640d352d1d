"""A file is known again by its size and the bytes at its end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles.ends import EndWriter, FileEnd


@given(st.lists(st.binary(min_size=1), min_size=1), st.lists(st.binary()))
def test_what_was_written_has_the_end_that_is_read(first: Sequence[bytes], last: Sequence[bytes]) -> None:
    out = bytearray()
    writer = EndWriter(out.extend)
    for data in first:
        writer(memoryview(data))
    writer.begin()
    for data in last:
        writer(memoryview(data))
    start = sum(map(len, first))
    assert writer.end() == FileEnd.of(MemoryFile(bytes(out)), start)
    assert writer.end().is_that_of(MemoryFile(bytes(out)))


def test_another_size_or_another_end_is_another_file() -> None:
    end = FileEnd.of(MemoryFile(b"cells|info"), 5)
    assert end.is_that_of(MemoryFile(b"CELLS|info"))
    assert not any(end.is_that_of(MemoryFile(data)) for data in (b"cells|inf0", b"cell|info", b"ccells|info", b""))
