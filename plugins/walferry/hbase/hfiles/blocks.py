"""Frames the blocks of an HFile, and hands them to whoever writes the file.

    block = magic[8], int32 diskLen, int32 rawLen, int64 previous, int8 checksumType, int32 16384, int32 dataEnd, data, checksums

`diskLen` counts what follows the header, with the checksums. `rawLen` is the length of the data before it was compressed.
`dataEnd` is the length of header and data. `previous` is the offset of the block of the same kind before, or -1.

Source: HBase's HFileBlock.Writer, BlockType (branch-2.6).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from walferry.base.kernels.read import Bytes
from walferry.hbase.hfiles.checksums import CHECKED_BYTES, Checksum, checksums
from walferry.hbase.hfiles.compression import Compression, compressor

_HEADER = struct.Struct(">8siiqBii")
HEADER_BYTES: Final = _HEADER.size


class BlockKind(enum.Enum):
    """The kinds of blocks, with their magic bytes."""

    DATA = b"DATABLK*"
    ENCODED_DATA = b"DATABLKE"
    LEAF_INDEX = b"IDXLEAF2"
    BLOOM_CHUNK = b"BLMFBLK2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    ROOT_INDEX = b"IDXROOT2"
    FILE_INFO = b"FILEINF2"
    GENERAL_BLOOM_META = b"BLMFMET2"
    DELETE_FAMILY_BLOOM_META = b"DFBLMET2"


@dataclass(frozen=True)
class Placed:
    """Where a block lies, and its length there with header and checksums. `raw_bytes` is that of its data, not compressed."""

    offset: int
    disk_bytes: int
    raw_bytes: int


class BlockWriter:
    """Writes blocks one after the other. `position` is where the next one begins.

    `write` takes a buffer that it must not keep: it is filled anew.
    """

    def __init__(self, write: Callable[[memoryview], object], compression: Compression, checksum: Checksum) -> None:
        self.position = 0
        self._write = write
        self._compress = compressor(compression)
        self._checksum = checksum
        self._previous: dict[BlockKind, int] = {}

    def put(self, kind: BlockKind, data: bytes) -> Placed:
        """Write a block with this data."""
        return self.put_framed(kind, np.frombuffer(bytearray(HEADER_BYTES) + data, np.uint8))

    def put_framed(self, kind: BlockKind, block: Bytes) -> Placed:
        """Write a block whose data follows HEADER_BYTES free bytes in `block`. The header is written there."""
        raw_bytes = len(block) - HEADER_BYTES
        if self._compress is not None:
            data = self._compress(block[HEADER_BYTES:].data)
            block = np.frombuffer(bytearray(HEADER_BYTES) + data, np.uint8)
        crc_bytes = -(-len(block) // CHECKED_BYTES) * 4
        disk_bytes = len(block) + crc_bytes
        _HEADER.pack_into(
            block.data, 0, kind.value, disk_bytes - HEADER_BYTES, raw_bytes, self._previous.get(kind, -1), self._checksum,
            CHECKED_BYTES, len(block),
        )  # fmt: skip
        placed = Placed(self.position, disk_bytes, raw_bytes)
        self._previous[kind] = self.position
        self.put_bytes(block.data)
        self.put_bytes(memoryview(checksums(self._checksum, block)))
        return placed

    def put_bytes(self, data: memoryview) -> None:
        """Write bytes that are not a block's."""
        self._write(data)
        self.position += len(data)
