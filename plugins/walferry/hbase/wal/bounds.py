"""Which bytes of a file are read as entries, and where they end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from walferry.base.kernels.read import Bytes
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.header import EMPTY_TRAILER, TAIL_BYTES, ends_like_closed, is_partial_trailer, trailer_start
from walferry.hbase.wal.windows import RandomAccess


@dataclass(frozen=True)
class WalBytes:
    """The bytes of a WAL. `path` is what errors call it."""

    file: RandomAccess
    path: str
    _cut_short: set[int] = field(default_factory=set)  # where `read_some` has given fewer bytes

    @property
    def size(self) -> int:
        """The file's length in bytes when it was opened."""
        return self.file.size

    def read(self, offset: int, length: int) -> Bytes:
        """Read `length` bytes from `offset` on. Raises OSError if there are fewer, which must not be taken for the file's end."""
        buf = np.frombuffer(self.file.read_at(offset, length), dtype=np.uint8)
        if len(buf) < length:
            what = f"{len(buf)} of {length} bytes were read, of a file of {self.size}"
            raise OSError(f"{self.path} at byte {offset}: {what}. Try again")
        return buf

    def read_some(self, offset: int, length: int) -> Bytes:
        """Read as `read` does; where some of the bytes cannot be had, those before them.

        Asked for the same offset again, or where there are none before, it raises what the file raises.
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
    """The range of a file that is read, from `start` to `end`, and where its trailer begins if its last bytes are one."""

    first_entry: int
    start: int
    end: int
    trailer: int | None = None  # as HBase writes it: no entry can begin there
    other_trailer: int | None = None  # one with fields: it is a trailer if no entry begins there
    knows_tail: bool = True

    @classmethod
    def of(cls, wal: WalBytes, first_entry: int) -> Bounds:
        """Everything after the header. A tail that cannot be had is told only where the entries lead to it."""
        tail = _tail(wal, TAIL_BYTES)
        if tail is None and (tail := _tail(wal, len(EMPTY_TRAILER))) is None:
            return cls(first_entry, first_entry, wal.size, knows_tail=False)
        trailer = wal.size - len(EMPTY_TRAILER) if ends_like_closed(tail, wal.size) else None
        if trailer is not None and trailer < first_entry:  # these are the header's last bytes
            trailer = None
        return cls(first_entry, first_entry, wal.size, trailer, trailer_start(tail, wal.size))

    def is_end(self, wal: WalBytes, offset: int) -> bool:
        """Tell whether only a trailer, or a part of one, follows from `offset` on, where no entry begins."""
        if self.end < wal.size:
            return False
        rest = wal.size - offset
        if not self.knows_tail and rest <= TAIL_BYTES:
            wal.read(offset, rest)  # raises what it is that cannot be had
        if 0 < rest < len(EMPTY_TRAILER):
            return is_partial_trailer(wal.read(offset, rest).tobytes())
        return offset in (self.trailer, self.other_trailer)


def _tail(wal: WalBytes, length: int) -> bytes | None:
    """The file's last bytes; None if some of them cannot be had."""
    length = min(wal.size, length)
    try:
        return wal.read(wal.size - length, length).tobytes()
    except WalError:
        return None
