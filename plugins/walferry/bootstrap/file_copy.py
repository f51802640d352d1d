"""Copies an HFile for a load: as it is, except for what it says of the order of its cells (hfiles.py)."""

from __future__ import annotations

import uuid

from walferry.bootstrap.hfiles import end_without_numbers
from walferry.files.errors import StoreError
from walferry.files.systems import COPY_BYTES, NewFile, open_wal
from walferry.hfiles.ends import EndWriter, FileEnd


def copy_file(source: str, target: str, task: str) -> FileEnd:
    """Copy an HFile from one URL to another; `task` says in it who did. Returns its end, which no other copy has.

    Raises UnreadableHFile, StoreError, FileNotFoundError.
    """
    with open_wal(source) as file:
        start, end = end_without_numbers(file, source, f"{task} {uuid.uuid4().hex}")
        with NewFile(target) as copy:
            out = EndWriter(copy.write)
            for offset in range(0, start, COPY_BYTES):
                wanted = min(COPY_BYTES, start - offset)
                data = file.read_at(offset, wanted)
                if len(data) < wanted:
                    raise StoreError(f"{source}: ended at byte {offset + len(data)} of {file.size} while it was copied")
                out(memoryview(data))
            out.begin()
            out(memoryview(end))
    return out.end()
