"""Compresses blocks of HFiles as Hadoop's codecs frame them, and says what is written of the settings of a family.

    GZ            a gzip member
    SNAPPY, LZ4   unit{1}                               unit = int32 rawLen, { int32 length, block }*

A block of a unit has at most 128 KB of raw bytes: readers decompress each into a buffer of 256 KB by default.

ZSTD has two framings that exclude each other, Hadoop's (a plain frame) and that of HBase's own codec (units), and the family does
not say which one the slave's servers expect. So families with ZSTD get uncompressed files, as do those with codecs that the
libraries here do not have (LZO, BZIP2, LZMA, BROTLI). The slave's next compaction compresses them.

Source: HBase's Compression.Algorithm, ReusableStreamGzipCodec, Hadoop's BlockCompressorStream.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Final

import pyarrow as pa
from zlib_ng import zlib_ng

UNIT_BLOCK_BYTES: Final = 128 << 10
_GZIP_WBITS: Final = 31


class Compression(enum.IntEnum):
    """The codecs in which files are written, with their codes in a file's trailer."""

    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4


Compress = Callable[[memoryview], bytes]


def compressor(codec: Compression) -> Compress | None:
    """The function that compresses a block's data; None if it stays as it is."""
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
