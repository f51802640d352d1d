"""Checksums of the blocks of an HFile: one of each 16 KB of a block's header and data, the last of fewer bytes.

    checksums = { uint32 crc }*

CRC32C is Castagnoli's polynomial, reflected (RFC 3720, B.4), 16 bytes at a time by as many tables (after Intel's "slicing by 8").
CRC32 is zlib's. Source: HBase's ChecksumUtil, ChecksumType (branch-2.6).
"""

from __future__ import annotations

import enum
import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray
from zlib_ng import zlib_ng

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import Bytes
from walferry.base.kernels.write import put_int

CHECKED_BYTES: Final = 16 << 10  # that a checksum is of
_CRC_BYTES: Final = 4
WORD: Final = 8
_POLYNOMIAL: Final = 0x82F63B78


class Checksum(enum.IntEnum):
    """The kinds that HBase knows, with their codes (NULL is none)."""

    CRC32 = 1
    CRC32C = 2


def checksums(kind: Checksum, data: Bytes) -> bytes:
    """The checksums of a block's header and data."""
    if kind is Checksum.CRC32:
        starts = range(0, len(data), CHECKED_BYTES)
        crcs = [zlib_ng.crc32(data[start : start + CHECKED_BYTES].data) for start in starts]
        return struct.pack(f">{len(crcs)}I", *crcs)
    out: Bytes = np.empty(-(-len(data) // CHECKED_BYTES) * _CRC_BYTES, np.uint8)
    _crc32c(data, out, _TABLES)
    return out.tobytes()


def _tables() -> NDArray[np.uint32]:
    """`tables[k, b]` is the checksum of byte b and k zeros after it, without the inversions at begin and end."""
    tables = np.empty((2 * WORD, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = tables[0] >> 1 ^ np.where(tables[0] & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    for k in range(1, 2 * WORD):
        tables[k] = tables[0, tables[k - 1] & 0xFF] ^ tables[k - 1] >> 8
    return tables


_TABLES = _tables()


@unmanaged
def _crc32c(data: Bytes, out: Bytes, tables: NDArray[np.uint32]) -> None:
    """Write the checksums of all of `data` to `out`."""
    byte, eight, words = np.uint64(0xFF), np.uint64(WORD), np.uint64(2 * WORD)
    at = 0
    for start in range(0, data.size, CHECKED_BYTES):
        pos, end = np.uint64(start), np.uint64(min(start + CHECKED_BYTES, data.size))
        crc = np.uint64(0xFFFFFFFF)
        while pos + words <= end:
            first, second = np.uint64(0), np.uint64(0)
            for i in range(eight):  # becomes two loads
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
