"""Recognizes a file after it was moved, by its size and the bytes at its end.

A bulk load renames a file. The file's end, from the block of file information on, describes its contents and its writer: keys,
times, counts, and BULKLOAD_SOURCE_TASK, which is unique if the writer puts a random number into it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from walferry.hbase.wal.wal_batches import RandomAccess

READ_BYTES = 8 << 20


@dataclass(frozen=True)
class FileEnd:
    """A file's size in bytes, and the hash of its bytes from `start` on."""

    size: int
    start: int
    digest: bytes

    @classmethod
    def of(cls, file: RandomAccess, start: int) -> FileEnd:
        """Return the end of a file from `start` on. Raises the errors of reading the file."""
        digest = sha256()
        for offset in range(start, file.size, READ_BYTES):
            digest.update(file.read_at(offset, min(READ_BYTES, file.size - offset)))
        return cls(file.size, start, digest.digest())

    def is_that_of(self, file: RandomAccess) -> bool:
        """Return whether `file` has this end. Raises the errors of reading the file."""
        return file.size == self.size and FileEnd.of(file, self.start) == self


class EndWriter:
    """Passes on the bytes written to a file, and computes the file's end from the point where `begin` was called."""

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._write = write
        self._size = self._start = 0
        self._hash = sha256()

    def __call__(self, data: memoryview) -> None:
        """Write the file's next bytes."""
        self._write(data)
        self._size += len(data)
        if self._start:
            self._hash.update(data)

    def begin(self) -> None:
        """Let the end begin with the next byte."""
        self._start = self._size

    def end(self) -> FileEnd:
        """Return the end of the file as written so far."""
        return FileEnd(self._size, self._start, self._hash.digest())
