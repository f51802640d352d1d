"""By what a file is known again once somebody has moved it: its size, and the bytes at its end.

A bulk load gives a file another name. Its end, from the block of file information on, says what the file holds and who wrote it:
keys, times, counts, and BULKLOAD_SOURCE_TASK, which no other file has if its writer puts a random number into it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from walferry.hbase.wal.windows import RandomAccess

READ_BYTES = 8 << 20


@dataclass(frozen=True)
class FileEnd:
    """A file's size in bytes, and the hash of its bytes from `start` on."""

    size: int
    start: int
    digest: bytes

    @classmethod
    def of(cls, file: RandomAccess, start: int) -> FileEnd:
        """The end of a file from `start` on. Raises what reading it raises."""
        digest = sha256()
        for offset in range(start, file.size, READ_BYTES):
            digest.update(file.read_at(offset, min(READ_BYTES, file.size - offset)))
        return cls(file.size, start, digest.digest())

    def is_that_of(self, file: RandomAccess) -> bool:
        """Whether this is the end of a file. Raises what reading it raises."""
        return file.size == self.size and FileEnd.of(file, self.start) == self


class EndWriter:
    """Passes on what is written to a file, and makes its end from where `begin` was called."""

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
        """From here on bytes belong to the end."""
        self._start = self._size

    def end(self) -> FileEnd:
        """The end of the file as it is written now."""
        return FileEnd(self._size, self._start, self._hash.digest())
