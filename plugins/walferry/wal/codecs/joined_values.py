"""Many compressed values by one call of a library: for values of a hundred bytes, calls take longer than decompressing.

    GZ      members of gzip one after the other are a gzip file themselves
    ZSTD    a table of frames; a value with more than one is left to who takes them one by one

Both say which values are left to be decompressed one by one. If one is broken these are all: a library says no more than that.
"""

from __future__ import annotations

import io
from typing import Final

import numpy as np
import zstandard
from zlib_ng import gzip_ng, zlib_ng

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import Bytes, Ints, read_int32, read_little_endian, read_uint8
from walferry.kernels.write import copy_bytes
from walferry.wal.codecs.expand import SOURCE, SOURCE_LEN, TARGET, TARGET_LEN

MIN_GZIP_MEMBER: Final = 18  # RFC 1952: 10 bytes before the data, CRC-32 and ISIZE after it
GZIP_MAGIC: Final = 0x1F8B0800  # as an int32: deflate, and none of the header's optional fields
ZSTD_MAGIC: Final[bytes] = b"\x28\xb5\x2f\xfd"  # a frame begins with it
_MAGIC: Final = int.from_bytes(ZSTD_MAGIC, "big")
MIN_FRAME: Final = 5  # its magic and its descriptor
NONE: Final = -1

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Table = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


def gunzip_all(buf: Bytes, out: Bytes, values: Ints) -> Ints:
    """Decompress the columns of `values` (SOURCE, SOURCE_LEN, TARGET, TARGET_LEN) of `buf` to `out`; returns which are left."""
    none, all_ = np.empty(0, np.int64), np.arange(values.shape[1])
    members: Bytes = np.empty(int(values[SOURCE_LEN].sum()), np.uint8)
    if not _join_members(buf, values, members):
        return all_
    made: Bytes = np.empty(int(values[TARGET_LEN].sum()), np.uint8)
    try:
        with gzip_ng.GzipNGFile(fileobj=io.BytesIO(members.data), mode="rb") as file:  # type: ignore[no-untyped-call]
            if file.readinto(made.data) != len(made) or file.read(1):
                return all_
    except (zlib_ng.error, OSError, EOFError):  # type: ignore[misc]
        return all_
    scatter(made, out, values)
    return none


def unzstd_all(buf: Bytes, out: Bytes, values: Ints) -> Ints:
    """As `gunzip_all`."""
    frames = np.empty((values.shape[1], 2), np.uint64)
    left = np.empty(values.shape[1], np.bool_)
    count = _list_frames(buf, values, frames, left)
    if count:
        listed = values[:, ~left]
        segments = zstandard.BufferWithSegments(buf.data, frames[:count].tobytes())
        try:
            # It makes sure that each frame has just as many bytes, whatever the frame itself says.
            made = _zstd.multi_decompress_to_buffer(segments, decompressed_sizes=listed[TARGET_LEN].astype(np.uint64).tobytes())
        except zstandard.ZstdError:
            return np.arange(values.shape[1])
        scatter(np.frombuffer(b"".join(made), np.uint8), out, listed)  # type: ignore[arg-type]
    return np.flatnonzero(left)


_zstd = zstandard.ZstdDecompressor()


@unmanaged
def _join_members(buf: Bytes, values: Ints, members: Bytes) -> bool:
    """Whether each value begins and ends as a gzip member that has the length of the value does; they are copied to `members`.

    A file of members may have zeros between them, and a value may not. With any before its member it does not begin as one, and
    with any behind it ends as a shorter one; of an empty value it could not be told, so there must be none.
    """
    at = 0
    for v in range(values.shape[1]):
        start, length = values[SOURCE, v], values[SOURCE_LEN, v]
        if length < MIN_GZIP_MEMBER or values[TARGET_LEN, v] == 0 or read_int32(buf, start) != GZIP_MAGIC:
            return False
        if read_little_endian(buf, start + length - 4, 4) != values[TARGET_LEN, v]:
            return False
        at = copy_bytes(members, at, buf, start, length)
    return True


@inlined
def _frame_end(buf: Bytes, pos: int, end: int) -> int:
    """Where the zstd frame at `pos` ends, by its blocks' headers, which is all that is looked at; NONE if it leaves the range.

    frame = magic, descriptor, [window], [dictionary's id], [length], block{until the last}, [checksum of 4 bytes]
    block = 3 bytes: 1 if it is the last | type << 1 | size << 3, little-endian; `size` bytes, or one that is repeated (type 1)
    """
    if end - pos < MIN_FRAME or read_int32(buf, pos) != _MAGIC:
        return NONE
    descriptor = read_uint8(buf, pos + 4)
    single, length_code, id_code = descriptor >> 5 & 1, descriptor >> 6, descriptor & 3
    pos += 6 - single + (1 << length_code if length_code > 0 else single) + (4 if id_code == 3 else id_code)
    last = 0
    while last == 0:
        if end - pos < 3:
            return NONE
        header = read_little_endian(buf, pos, 3)
        last = header & 1
        pos += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
    pos += 4 * (descriptor >> 2 & 1)
    return pos if pos <= end else NONE


@unmanaged
def is_frame(buf: Bytes) -> bool:
    """Whether all of `buf` is one zstd frame."""
    return bool(_frame_end(buf, 0, buf.size) == buf.size)


@unmanaged
def _list_frames(buf: Bytes, values: Ints, frames: Table, left: Flags) -> int:
    """Put offset and length of each value that is one frame to `frames`, whether it is none to `left`; returns how many are."""
    count = 0
    for v in range(values.shape[1]):
        start, length, size = values[SOURCE, v], values[SOURCE_LEN, v], values[TARGET_LEN, v]
        if length > 8 and read_int32(buf, start) == size and read_int32(buf, start + 4) == length - 8:
            start, length = start + 8, length - 8
        left[v] = size == 0 or _frame_end(buf, start, start + length) != start + length
        if not left[v]:
            frames[count, 0], frames[count, 1] = start, length
            count += 1
    return count


@unmanaged
def scatter(data: Bytes, out: Bytes, values: Ints) -> None:
    """Copy one value after the other of `data` to where it belongs."""
    pos = 0
    for v in range(values.shape[1]):
        copy_bytes(out, values[TARGET, v], data, pos, values[TARGET_LEN, v])
        pos += values[TARGET_LEN, v]
