"""A file, or a run of an HFile's cells, that is a byte string or a view of one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryFile:
    data: bytes | memoryview

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        return self.data[offset : offset + length]
