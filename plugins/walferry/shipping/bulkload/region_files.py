"""Keeps the files of a region for the peers whose files are made together: written for one, and copied for the others.

A file counts for another peer's region only if that region contains all rows of the file, and has the same settings for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from walferry.base.closing import Closing
from walferry.base.kernels.types import Bytes
from walferry.hbase.files.systems import read_fd
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import WrittenFile, write_file
from walferry.shipping.bulkload.spilled_runs import nameless_file

COPY_BYTES = 1 << 20

log = logging.getLogger(__name__)

Write = Callable[[memoryview], object]


class LocalFile(Closing):
    """A file on the task's local disk, to which one thread at a time appends. It is made when it is needed.

    Once the disk has no room, nothing more is appended.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._full = False
        self.size = 0

    def append(self, data: memoryview) -> bool:
        """Append the data. Returns whether there was room for it, and for everything before it."""
        if self._full:
            return False
        try:
            self._file = self._file or nameless_file()
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            log.warning("files are written again for each peer, as the local disk takes no copies: %s", error)
            self._full = True
            return False
        self.size += len(data)
        return True

    def read(self, start: int, size: int) -> bytes:
        """Return the bytes there. Raises OSError if they are fewer."""
        data = b"" if self._file is None else read_fd(self._file.fileno(), start, size)
        if len(data) != size:
            raise OSError(f"a file on the local disk has {len(data):,} bytes at {start:,} instead of {size:,}")
        return data

    def close(self) -> None:
        """Free the disk."""
        if self._file is not None:
            with suppress(OSError):  # bytes that a full disk has not taken
                self._file.close()


@dataclass(frozen=True)
class _KeptFile:
    """A file of a region, in a local file."""

    disk: LocalFile
    start: int
    written: WrittenFile

    def copy(self, write: Write) -> WrittenFile:
        """Write the file's bytes to `write`. Raises OSError."""
        for offset in range(0, self.written.end.size, COPY_BYTES):
            write(memoryview(self.disk.read(self.start + offset, min(COPY_BYTES, self.written.end.size - offset))))
        return self.written


class RegionFiles:
    """The whole files of a region that are written. A new one is kept while they are `wanted` for other peers."""

    def __init__(self) -> None:
        self.wanted = False
        self._kept: dict[tuple[bytes, FileSettings], _KeptFile] = {}
        self._used: set[tuple[str, bytes, FileSettings]] = set()

    def write(
        self, write: Write, peer_id: str, family: bytes, settings: FileSettings, cells: Iterable[Bytes], origin: Origin,
        disk: LocalFile,
    ) -> WrittenFile | None:  # fmt: skip
        """Write a peer's file of a family: a copy of another peer's file, or the cells. Raises BadCells, OSError, StoreError.

        A peer gets a copy once. If its region does not load or number the file, the next one must have another end (ends.py).
        """
        key, first = (family, settings), (peer_id, family, settings) not in self._used
        self._used.add((peer_id, family, settings))
        if first and (kept := self._kept.get(key)) is not None:
            return kept.copy(write)
        if not self.wanted or key in self._kept:
            return write_file(write, cells, settings, origin)
        start, whole = disk.size, True

        def beside(data: memoryview) -> None:
            nonlocal whole
            write(data)
            whole = whole and disk.append(data)

        written = write_file(beside, cells, settings, origin)
        if written is not None and whole:
            self._kept[key] = _KeptFile(disk, start, written)
        return written
