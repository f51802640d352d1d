"""Decompresses many values by one call of a library: for values of a hundred bytes, calls take longer than decompressing.

    GZ      members of gzip one after the other are a gzip file themselves
    ZSTD    a table of frames; a value with several frames is left for decompressing one by one

Both functions return the values that are left to be decompressed one by one. If a value is broken, these are all values, because
the libraries do not tell which one it is.
"""

from __future__ import annotations

import io
from typing import Final

import numpy as np
import zstandard
from zlib_ng import gzip_ng, zlib_ng

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import Bytes, Ints, read_int32, read_little_endian, read_uint8
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.wal.codecs.passes import ValueRow

MIN_GZIP_MEMBER: Final = 18  # RFC 1952: 10 bytes before the data, CRC-32 and ISIZE after it
GZIP_MAGIC: Final = 0x1F8B0800  # as an int32: deflate, and none of the header's optional fields
ZSTD_MAGIC: Final[bytes] = b"\x28\xb5\x2f\xfd"  # a frame begins with it
_MAGIC: Final = int.from_bytes(ZSTD_MAGIC, "big")
MIN_FRAME: Final = 5  # its magic and its descriptor
BLOCK_HEADER_BYTES: Final = 3
REPEATED_BYTE: Final = 1  # the type of a block that is one byte, repeated
LONG_ID: Final = 3  # the code of a dictionary id of 4 bytes; other codes are its length
BLOCKS_FRAME: Final = 8  # Hadoop's lengths before a series of one block
NONE: Final = -1

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Table = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


def gunzip_all(buf: Bytes, out: Bytes, values: Ints) -> Ints:
    """Decompress the values in `buf` that the columns of `values` (rows: ValueRow) describe to `out`. Returns which are left."""
    none, all_ = np.empty(0, np.int64), np.arange(values.shape[1])
    members: Bytes = np.empty(int(values[ValueRow.SOURCE_LEN].sum()), np.uint8)
    if not _join_members(buf, values, members):
        return all_
    made: Bytes = np.empty(int(values[ValueRow.TARGET_LEN].sum()), np.uint8)
    try:
        with gzip_ng.GzipNGFile(fileobj=io.BytesIO(members.data), mode="rb") as file:  # type: ignore[no-untyped-call]
            if file.readinto(made.data) != len(made) or file.read(1):
                return all_
    except (zlib_ng.error, OSError, EOFError):  # type: ignore[misc]
        return all_
    scatter(made, out, values)
    return none


def unzstd_all(buf: Bytes, out: Bytes, values: Ints) -> Ints:
    """Decompress zstd frames, as `gunzip_all` does gzip members."""
    frames = np.empty((values.shape[1], 2), np.uint64)
    left = np.empty(values.shape[1], np.bool_)
    count = _list_frames(buf, values, frames, left)
    if count:
        listed = values[:, ~left]
        segments = zstandard.BufferWithSegments(buf.data, frames[:count].tobytes())
        try:
            # This ensures that each frame yields exactly as many bytes, whatever the frame itself says.
            sizes = listed[ValueRow.TARGET_LEN].astype(np.uint64).tobytes()
            made = _zstd.multi_decompress_to_buffer(segments, decompressed_sizes=sizes)
        except zstandard.ZstdError:
            return np.arange(values.shape[1])
        scatter(np.frombuffer(b"".join(made), np.uint8), out, listed)  # type: ignore[arg-type]
    return np.flatnonzero(left)


_zstd = zstandard.ZstdDecompressor()


@unmanaged
def _join_members(buf: Bytes, values: Ints, members: Bytes) -> bool:
    """Copy the values to `members`. Returns whether each begins and ends like a gzip member of the value's length.

    A file of members may have zeros between them, but a value may not. With zeros before its member a value does not begin like
    one, and with zeros after it, it ends like a shorter one. An empty value would not show them, so there must not be any.
    """
    at = 0
    for v in range(values.shape[1]):
        start, length = values[ValueRow.SOURCE, v], values[ValueRow.SOURCE_LEN, v]
        if length < MIN_GZIP_MEMBER or values[ValueRow.TARGET_LEN, v] == 0 or read_int32(buf, start) != GZIP_MAGIC:
            return False
        if read_little_endian(buf, start + length - 4, 4) != values[ValueRow.TARGET_LEN, v]:
            return False
        at = copy_bytes(members, at, buf, start, length)
    return True


@inlined
def _frame_end(buf: Bytes, pos: int, end: int) -> int:
    """Return where the zstd frame at `pos` ends according to its blocks' headers, or NONE if it leaves the range.

    frame = magic, descriptor, [window], [dictionary's id], [length], block{until the last}, [checksum of 4 bytes]
    block = 3 bytes: 1 if it is the last | type << 1 | size << 3, little-endian; `size` bytes, or one that is repeated (type 1)
    """
    if end - pos < MIN_FRAME or read_int32(buf, pos) != _MAGIC:
        return NONE
    descriptor = read_uint8(buf, pos + 4)
    single, length_code, id_code = descriptor >> 5 & 1, descriptor >> 6, descriptor & 3
    pos += 6 - single + (1 << length_code if length_code > 0 else single) + (4 if id_code == LONG_ID else id_code)
    last = 0
    while last == 0:
        if end - pos < BLOCK_HEADER_BYTES:
            return NONE
        header = read_little_endian(buf, pos, BLOCK_HEADER_BYTES)
        last = header & 1
        pos += BLOCK_HEADER_BYTES + (1 if header >> 1 & 3 == REPEATED_BYTE else header >> 3)
    pos += 4 * (descriptor >> 2 & 1)
    return pos if pos <= end else NONE


@unmanaged
def is_frame(buf: Bytes) -> bool:
    """Tell whether all of `buf` is one zstd frame."""
    return bool(_frame_end(buf, 0, buf.size) == buf.size)


@unmanaged
def _list_frames(buf: Bytes, values: Ints, frames: Table, left: Flags) -> int:
    """Write offset and length of each value that is one frame to `frames`, and to `left` whether it is not.

    Returns how many are.
    """
    count = 0
    for v in range(values.shape[1]):
        start, length, size = values[ValueRow.SOURCE, v], values[ValueRow.SOURCE_LEN, v], values[ValueRow.TARGET_LEN, v]
        if length > BLOCKS_FRAME and read_int32(buf, start) == size and read_int32(buf, start + 4) == length - BLOCKS_FRAME:
            start, length = start + BLOCKS_FRAME, length - BLOCKS_FRAME
        left[v] = size == 0 or _frame_end(buf, start, start + length) != start + length
        if not left[v]:
            frames[count, 0], frames[count, 1] = start, length
            count += 1
    return count


@unmanaged
def scatter(data: Bytes, out: Bytes, values: Ints) -> None:
    """Copy the values, which lie one after the other in `data`, to where they belong."""
    pos = 0
    for v in range(values.shape[1]):
        copy_bytes(out, values[ValueRow.TARGET, v], data, pos, values[ValueRow.TARGET_LEN, v])
        pos += values[ValueRow.TARGET_LEN, v]
