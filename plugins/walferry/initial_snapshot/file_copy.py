"""Copies an HFile for a load: as it is, except for what it says of the order of its cells (hfiles.py)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import COPY_BYTES, NewFile, OpenWal, open_wal
from walferry.hbase.hfiles.ends import EndWriter, FileEnd
from walferry.initial_snapshot.hfiles import info_without_numbers


def copy_file(source: str, target: str, task: str) -> FileEnd:
    """Copy an HFile from one URL to another; `task` says in it who did. Returns its end, which no other copy has.

    Raises UnreadableHFile, StoreError, FileNotFoundError.
    """
    with open_wal(source) as file:
        info = info_without_numbers(file, source, f"{task} {uuid.uuid4().hex}")
        with NewFile(target) as copy:
            out = EndWriter(copy.write)
            for data in _pieces(file, source, 0, info.start):
                out(memoryview(data))
            out.begin()
            out(memoryview(info.block))
            for data in _pieces(file, source, info.end, file.size):
                out(memoryview(data))
    return out.end()


def _pieces(file: OpenWal, source: str, start: int, end: int) -> Iterator[bytes]:
    """Yield a part of the file. Raises StoreError."""
    for offset in range(start, end, COPY_BYTES):
        wanted = min(COPY_BYTES, end - offset)
        data = file.read_at(offset, wanted)
        if len(data) < wanted:
            raise StoreError(f"{source}: ended at byte {offset + len(data)} of {file.size} while it was copied")
        yield data
