"""A file that is a byte string."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryFile:
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]
