"""Frames the blocks of an HFile, compressed and with checksums, and passes them to the function that writes the file.

    block = magic[8], int32 diskLen, int32 rawLen, int64 previous, int8 checksumType, int32 16384, int32 dataEnd, data, checksums
    checksums = { uint32 crc }*          one for each 16 KB of header and data, the last for fewer bytes

`diskLen` counts the bytes after the header, with the checksums. `rawLen` is the length of the data before compression. `dataEnd`
is the length of header and data. `previous` is the offset of the previous block of the same kind, or -1.

CRC32C is Castagnoli's polynomial, reflected (RFC 3720, B.4), 16 bytes at a time with 16 tables (after Intel's "slicing by 8").
CRC32 is zlib's. Compressed data has the framing of Hadoop's codecs:

    GZ            a gzip member
    SNAPPY, LZ4   unit{1}                               unit = int32 rawLen, { int32 length, block }*

A block of a unit has at most 128 KB of raw bytes: readers decompress each into a buffer of 256 KB by default.

ZSTD has two framings that exclude each other, the framing of Hadoop (a plain frame) and of HBase's own codec (units), and the
family does not say which one the peer cluster's servers expect. So families with ZSTD get uncompressed files, and so do families
with codecs that our libraries lack (LZO, BZIP2, LZMA, BROTLI). The peer cluster's next compaction compresses them.

Source: HBase's HFileBlock.Writer, BlockType, ChecksumUtil, ChecksumType, Compression.Algorithm, ReusableStreamGzipCodec
(branch-2.6); Hadoop's BlockCompressorStream.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from zlib_ng import zlib_ng

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, OutBytes, Word32Table
from walferry.base.kernels.write import put_int

HEADER = struct.Struct(">8siiqBii")
HEADER_BYTES: Final = HEADER.size
CHECKED_BYTES: Final = 16 << 10  # bytes for each checksum
_CRC_BYTES: Final = 4
WORD: Final = 8
_POLYNOMIAL: Final = 0x82F63B78
UNIT_BLOCK_BYTES: Final = 128 << 10
_GZIP_WBITS: Final = 31


class Compression(enum.IntEnum):
    """The codecs that files are written with, and their codes in a file's trailer."""

    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4


class Checksum(enum.IntEnum):
    """The kinds of checksums that HBase knows, with their codes (NULL means no checksums)."""

    CRC32 = 1
    CRC32C = 2


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
    """A block's offset and length in the file, with header and checksums. `raw_bytes` is the length of its uncompressed data."""

    offset: int
    disk_bytes: int
    raw_bytes: int


class BlockWriter:
    """Writes blocks one after the other. The next block begins at `position`.

    `write` must not keep the buffer that it gets: the next block reuses it. `compress` is as `compressor` returns it.
    """

    def __init__(
        self, write: Callable[[memoryview], object], compress: Callable[[memoryview], bytes] | None, checksum: Checksum
    ) -> None:
        self.position = 0
        self._write = write
        self._compress = compress
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
        HEADER.pack_into(
            block.data, 0, kind.value, disk_bytes - HEADER_BYTES, raw_bytes, self._previous.get(kind, -1), self._checksum,
            CHECKED_BYTES, len(block),
        )  # fmt: skip
        placed = Placed(self.position, disk_bytes, raw_bytes)
        self._previous[kind] = self.position
        self.put_bytes(block.data)
        self.put_bytes(memoryview(checksums(self._checksum, block)))
        return placed

    def put_bytes(self, data: memoryview) -> None:
        """Write bytes that do not belong to a block."""
        self._write(data)
        self.position += len(data)


def compressor(codec: Compression) -> Callable[[memoryview], bytes] | None:
    """Return the function that compresses a block's data, or None if the data stays uncompressed."""
    if codec is Compression.NONE:
        return None
    if codec is Compression.GZ:
        return lambda data: zlib_ng.compress(data, wbits=_GZIP_WBITS)
    block = pa.Codec({Compression.SNAPPY: "snappy", Compression.LZ4: "lz4_raw"}[codec])
    return lambda data: _unit(data, block)


def _unit(data: memoryview, codec: pa.Codec) -> bytes:
    parts = [struct.pack(">i", len(data))]
    for start in range(0, len(data), UNIT_BLOCK_BYTES):
        block = codec.compress(data[start : start + UNIT_BLOCK_BYTES], asbytes=True)
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def checksums(kind: Checksum, data: Bytes) -> bytes:
    """Return the checksums of a block's header and data."""
    if kind is Checksum.CRC32:
        starts = range(0, len(data), CHECKED_BYTES)
        crcs = [zlib_ng.crc32(data[start : start + CHECKED_BYTES].data) for start in starts]
        return struct.pack(f">{len(crcs)}I", *crcs)
    out: Bytes = np.empty(-(-len(data) // CHECKED_BYTES) * _CRC_BYTES, np.uint8)
    _crc32c(data, out, _TABLES)
    return out.tobytes()


def _tables() -> NDArray[np.uint32]:
    """Return `tables`: `tables[k, b]` is the checksum of byte b and k zeros, without the inversions at begin and end."""
    tables = np.empty((2 * WORD, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = tables[0] >> 1 ^ np.where(tables[0] & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    for k in range(1, 2 * WORD):
        tables[k] = tables[0, tables[k - 1] & 0xFF] ^ tables[k - 1] >> 8
    return tables


_TABLES = _tables()


@unmanaged
def _crc32c(data: Bytes, out: OutBytes, tables: Word32Table) -> None:
    """Write the checksums of all of `data` to `out`."""
    byte, eight, words = np.uint64(0xFF), np.uint64(WORD), np.uint64(2 * WORD)
    at = 0
    for start in range(0, data.size, CHECKED_BYTES):
        pos, end = np.uint64(start), np.uint64(min(start + CHECKED_BYTES, data.size))
        crc = np.uint64(0xFFFFFFFF)
        while pos + words <= end:
            first, second = np.uint64(0), np.uint64(0)
            for i in range(eight):  # the compiler makes two loads of this
                first |= np.uint64(data[pos + i]) << (i * eight)
                second |= np.uint64(data[pos + eight + i]) << (i * eight)
            first ^= crc
            crc = np.uint64(0)
            for i in range(eight):
                crc ^= np.uint64(tables[words - np.uint64(1) - i, first >> (i * eight) & byte])
                crc ^= np.uint64(tables[eight - np.uint64(1) - i, second >> (i * eight) & byte])
            pos += words
        while pos < end:
            crc = np.uint64(tables[np.uint64(0), (crc ^ np.uint64(data[pos])) & byte]) ^ crc >> eight
            pos += np.uint64(1)
        at = put_int(out, at, int(np.int64(crc ^ np.uint64(0xFFFFFFFF))), _CRC_BYTES)
