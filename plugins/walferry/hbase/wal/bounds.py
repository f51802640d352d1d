"""Finds the range of a file that contains entries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from walferry.base.kernels.types import Bytes
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.header import EMPTY_TRAILER, TAIL_BYTES, ends_like_closed, is_partial_trailer, trailer_start
from walferry.hbase.wal.wal_batches import RandomAccess


@dataclass(frozen=True)
class WalBytes:
    """The bytes of a WAL. Errors call the file `path`."""

    file: RandomAccess
    path: str
    _cut_short: set[int] = field(default_factory=set)  # offsets at which `read_some` returned too few bytes

    @property
    def size(self) -> int:
        """The file's length in bytes when it was opened."""
        return self.file.size

    def read(self, offset: int, length: int) -> Bytes:
        """Read `length` bytes from `offset` on. Raises OSError if it gets fewer: that must not be mistaken for the file's end."""
        buf = np.frombuffer(self.file.read_at(offset, length), dtype=np.uint8)
        if len(buf) < length:
            what = f"{len(buf)} of {length} bytes were read, of a file of {self.size}"
            raise OSError(f"{self.path} at byte {offset}: {what}. Try again")
        return buf

    def read_some(self, offset: int, length: int) -> Bytes:
        """Read as `read` does, but return the bytes before the first unreadable byte if there are any.

        If no byte is readable, or on a second call with the same offset, this raises the file's own error.
        """
        try:
            return self.read(offset, length)
        except WalError as error:
            if error.offset <= offset or offset in self._cut_short:
                raise
            self._cut_short.add(offset)
            return self.read(offset, error.offset - offset)


@dataclass(frozen=True)
class Bounds:
    """The range of a file that is read, from `start` to `end`, and the start of its trailer if it seems to have one."""

    first_entry: int
    start: int
    end: int
    trailer: int | None = None  # a trailer as HBase writes it: no entry can begin there
    other_trailer: int | None = None  # a trailer with fields: it is one only if no entry begins there
    knows_tail: bool = True

    @classmethod
    def of(cls, wal: WalBytes, first_entry: int) -> Bounds:
        """Return everything after the header. An unreadable tail becomes an error only once the entries lead to it."""
        tail = _tail(wal, TAIL_BYTES)
        if tail is None and (tail := _tail(wal, len(EMPTY_TRAILER))) is None:
            return cls(first_entry, first_entry, wal.size, knows_tail=False)
        trailer = wal.size - len(EMPTY_TRAILER) if ends_like_closed(tail, wal.size) else None
        if trailer is not None and trailer < first_entry:  # these are the header's last bytes
            trailer = None
        return cls(first_entry, first_entry, wal.size, trailer, trailer_start(tail, wal.size))

    def is_end(self, wal: WalBytes, offset: int) -> bool:
        """Return whether only a trailer, or a part of one, follows `offset`. No entry begins at `offset`."""
        if self.end < wal.size:
            return False
        rest = wal.size - offset
        if not self.knows_tail and rest <= TAIL_BYTES:
            wal.read(offset, rest)  # raises the error of the unreadable bytes
        if 0 < rest < len(EMPTY_TRAILER):
            return is_partial_trailer(wal.read(offset, rest).tobytes())
        return offset in (self.trailer, self.other_trailer)


def _tail(wal: WalBytes, length: int) -> bytes | None:
    """Return the file's last bytes, or None if some of them are unreadable."""
    length = min(wal.size, length)
    try:
        return wal.read(wal.size - length, length).tobytes()
    except WalError:
        return None
