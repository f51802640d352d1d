"""Keeps the files of one region for the peers whose files are made together: written for one, and copied for the others.

A file counts for another peer's region only if that region contains all rows of the file, and has the same settings for it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from walferry.base.closing import Closing
from walferry.base.kernels.types import Bytes
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import WrittenFile, write_file
from walferry.shipping.bulkload.spilled_runs import nameless_file

COPY_BYTES = 1 << 20

log = logging.getLogger(__name__)

Write = Callable[[memoryview], object]


@dataclass(frozen=True)
class _KeptFile:
    """A file on the task's local disk."""

    file: IO[bytes]
    written: WrittenFile

    def copy(self, write: Write) -> WrittenFile:
        """Write the file's bytes to `write`. Raises OSError."""
        offset = 0
        while chunk := os.pread(self.file.fileno(), COPY_BYTES, offset):
            write(memoryview(chunk))
            offset += len(chunk)
        if offset != self.written.end.size:
            raise OSError(f"a file on the local disk has {offset:,} bytes instead of {self.written.end.size:,}")
        return self.written


class RegionFiles(Closing):
    """The whole files of a region that are written. They are kept if they are `wanted` for other peers."""

    def __init__(self, *, wanted: bool = False) -> None:
        self._wanted = wanted
        self._kept: dict[tuple[bytes, FileSettings], _KeptFile] = {}
        self._used: set[tuple[str, bytes, FileSettings]] = set()

    def write(
        self, write: Write, peer_id: str, family: bytes, settings: FileSettings, cells: Iterable[Bytes], origin: Origin
    ) -> WrittenFile | None:
        """Write a peer's file of a family: a copy of another peer's file, or the cells. Raises BadCells, OSError, StoreError.

        A peer gets a copy once. If its region does not load or number the file, the next one must have another end (ends.py).
        """
        key, first = (family, settings), (peer_id, family, settings) not in self._used
        self._used.add((peer_id, family, settings))
        if first and (kept := self._kept.get(key)) is not None:
            return kept.copy(write)
        if not self._wanted or key in self._kept:
            return write_file(write, cells, settings, origin)
        beside = _Beside(write)
        try:
            written = write_file(beside, cells, settings, origin)
        except BaseException:
            beside.close()
            raise
        if written is not None and beside.file is not None:
            beside.file.flush()
            self._kept[key] = _KeptFile(beside.file, written)
        return written

    def close(self) -> None:
        """Free the disk."""
        for kept in self._kept.values():
            kept.file.close()


class _Beside:
    """Writes bytes to `write`, and a copy to a file on the local disk, as long as that has room."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self.file: IO[bytes] | None = nameless_file()

    def __call__(self, data: memoryview) -> None:
        self._write(data)
        if self.file is not None:
            try:
                self.file.write(data)
            except OSError as error:
                log.warning("a file is written again for each peer, as the local disk takes no copy of it: %s", error)
                self.close()

    def close(self) -> None:
        """Give the copy up."""
        if self.file is not None:
            with suppress(OSError):  # bytes that a full disk has not taken
                self.file.close()
            self.file = None
