"""Decompresses the values of a WAL's cells, each of which is compressed by itself.

    GZ            a gzip member
    NONE          the value
    SNAPPY, LZ4   blocks
    ZSTD          blocks | a zstd frame                                        by HBase's own codecs | by Hadoop's

Empty values are stored too: GZ has a member of 20 bytes, blocks are an int32 0. Any other bytes within the stored length are an
error, because they may belong to the next entry.

For values of a hundred bytes, the call of a library takes longer than the decompression. So one call decompresses many values:
gzip members in a row are a gzip file, and zstd takes a table of frames. The rest is decompressed one by one: a value with several
frames, and all values if one is broken, because the libraries do not report which one.

    blocks = { int32 rawLen, { int32 length, block }* }* [ int32 0 ]           the blocks of a series give rawLen bytes

Source: HBase's CompressionContext.ValueCompressor, Compression.Algorithm, ReusableStreamGzipCodec; Hadoop's
BlockCompressorStream. The trailing 0 follows values that are longer than the codec's buffer (HBASE-28390).
"""

from __future__ import annotations

import io
import threading
import zlib
from collections.abc import Callable
from typing import Final

import numpy as np
import zstandard
from zlib_ng import gzip_ng, zlib_ng

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import read_int32, read_little_endian, read_uint8, read_uint16
from walferry.base.kernels.types import Bytes, Ints, IntView, OutBytes, OutFlags, OutInts, OutWordTable
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.wal.codecs.blocks import unblock_into
from walferry.hbase.wal.codecs.passes import ValueRow
from walferry.hbase.wal.header import ValueCodec

# The most bytes that one stored byte can become: SNAPPY copies 64 bytes by 3, LZ4 255 by one more, GZ 258 by two bits, and ZSTD
# repeats a byte 128 K times by 4. Values without a codec (None) are not compressed.
MOST_FROM_A_BYTE: Final[dict[ValueCodec | None, int]] = {
    ValueCodec.GZ: 1032, ValueCodec.NONE: 1, ValueCodec.SNAPPY: 22, ValueCodec.LZ4: 256, ValueCodec.ZSTD: 1 << 15,
}  # fmt: skip
GZIP_WBITS: Final = 31
EMPTY_MEMBER_BYTES: Final = 20
MIN_GZIP_MEMBER: Final = 18  # RFC 1952: 10 bytes before the data, CRC-32 and ISIZE after it
GZIP_MAGIC: Final = 0x1F8B0800  # as an int32: deflate, and none of the header's optional fields
ZSTD_MAGIC: Final[bytes] = b"\x28\xb5\x2f\xfd"  # a frame begins with it
_MAGIC: Final = int.from_bytes(ZSTD_MAGIC, "big")
MIN_FRAME: Final = 5  # its magic and its descriptor
BLOCK_HEADER_BYTES: Final = 3
REPEATED_BYTE: Final = 1  # the type of a block that is one byte, repeated
LONG_ID: Final = 3  # the code of a dictionary id of 4 bytes; other codes are the id's length
BLOCKS_FRAME: Final = 8  # Hadoop's lengths before a series of one block
NONE: Final = -1


class BadValue(Exception):
    """Value number `value` of a pass cannot be decompressed; the message says why."""

    def __init__(self, value: int, reason: str) -> None:
        super().__init__(reason)
        self.value = value


class UnknownDictionary(BadValue):
    """The value needs a dictionary that is not in the file. If the value is undamaged, all further values need it too."""


class _NeedsDictionary(Exception):
    """A zstd frame cannot be decompressed without its dictionary."""


def decompress_values(codec: ValueCodec, buf: Bytes, out: Bytes, values: Ints) -> None:
    """Decompress the values in `buf` that the columns of `values` (rows: ValueRow) describe to `out`.

    Raises BadValue, or its subclass UnknownDictionary, for the first value that cannot be decompressed or has another length.
    """
    if codec in (ValueCodec.SNAPPY, ValueCodec.LZ4, ValueCodec.NONE):
        bad = _copy_values(buf, out, values) if codec is ValueCodec.NONE else unblock_into(int(codec), buf, out, values)
        if bad < values.shape[1]:
            raise BadValue(bad, "a value cannot be decompressed to the length that its cell says")
        return
    full = np.empty(values.shape[1], np.int64)
    full = full[: _list_full(codec is ValueCodec.GZ, buf, values, full)]
    if len(full) < values.shape[1]:
        values = values[:, full]
    try:
        if codec is ValueCodec.GZ:
            _each(_gunzip, buf, out, values, _gunzip_all(buf, out, values))
        else:
            _each(_unzstd, buf, out, values, _unzstd_all(buf, out, values))
    except BadValue as error:
        error.value = int(full[error.value])
        raise


def _each(decompress: Callable[[memoryview, int], bytes], buf: Bytes, out: Bytes, values: Ints, columns: Ints) -> None:
    """Decompress value by value with a library, and copy the results to `out` at once."""
    data = buf.data
    values = values[:, columns]
    source, length, expected = values[[ValueRow.SOURCE, ValueRow.SOURCE_LEN, ValueRow.TARGET_LEN]].tolist()
    parts: list[bytes] = []
    bad: BadValue | None = None
    try:
        for start, count, size in zip(source, length, expected, strict=True):
            parts.append(decompress(data[start : start + count], size))
    except (zlib.error, zstandard.ZstdError, ValueError) as error:
        bad = BadValue(int(columns[len(parts)]), f"a value cannot be decompressed ({error})")
    except _NeedsDictionary as error:
        bad = UnknownDictionary(int(columns[len(parts)]), str(error))
    wrong = np.flatnonzero(np.fromiter(map(len, parts), np.int64, len(parts)) != values[ValueRow.TARGET_LEN, : len(parts)])
    if len(wrong):
        bad = BadValue(int(columns[wrong[0]]), "a value's length is not the one that its cell says")
        del parts[wrong[0] :]
    _scatter(np.frombuffer(b"".join(parts), np.uint8), out, values[:, : len(parts)])
    if bad:
        raise bad


def _gunzip(value: memoryview, size: int) -> bytes:
    """Decompress a gzip member of at most `size` bytes. A longer one gives one byte more; its rest is not decompressed."""
    stream = zlib.decompressobj(GZIP_WBITS)
    made = stream.decompress(value, size + 1)
    if len(made) <= size and not stream.eof:
        raise ValueError("its gzip member is cut")
    if stream.unused_data:
        raise ValueError(f"{len(stream.unused_data)} bytes follow its gzip member")
    return made


def _unzstd(value: memoryview, size: int) -> bytes:
    """Decompress a zstd frame, or Hadoop's blocks of them, of at most `size` bytes."""
    if value[:4] == ZSTD_MAGIC:
        return _frame(value, size)
    parts, pos, made = [], 0, 0
    while pos + 4 <= len(value):
        raw = int.from_bytes(value[pos : pos + 4], "big")
        pos, series = pos + 4, made + raw
        if raw == 0:
            break
        if series > size:
            raise ValueError("its blocks are longer than its cell says")
        while made < series:
            length = int.from_bytes(value[pos : pos + 4], "big")
            if not 0 < length <= len(value) - pos - 4:
                raise ValueError("a block leaves the value")
            parts.append(_frame(value[pos + 4 : pos + 4 + length], series - made))
            pos, made = pos + 4 + length, made + len(parts[-1])
    if pos < len(value):
        raise ValueError(f"{len(value) - pos} bytes follow its blocks")
    return b"".join(parts)


def _frame(frame: memoryview, most: int) -> bytes:
    """Decompress a zstd frame of at most `most` bytes, whatever length it claims."""
    if zstandard.frame_content_size(frame) > most:
        raise ValueError("its frame is longer than its cell says")
    if not _is_frame(np.frombuffer(frame.toreadonly(), np.uint8)):  # the library ignores bytes after the frame's end
        raise ValueError("it is not one zstd frame and nothing else")
    try:
        return _own.zstd.decompress(frame, max(most, 1))  # 0 would mean no limit
    except zstandard.ZstdError:
        dictionary = zstandard.get_frame_parameters(frame).dict_id
        if not dictionary:
            raise
        raise _NeedsDictionary(
            f"a value is compressed with zstd's dictionary {dictionary} (hbase.io.compress.zstd.dictionary), which cannot be read"
        ) from None


class _OfThread(threading.local):
    """What each thread has of its own: a decompressor has a state, and leaves Python's lock to other threads while it works."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_own = _OfThread()


@inlined
def _is_empty_member(buf: Bytes, start: int) -> bool:
    """Return whether the 20 bytes at `start` are a gzip member of nothing, as Java and zlib write it."""
    if read_int32(buf, start) != GZIP_MAGIC or read_uint16(buf, start + 10) != 0x0300:
        return False
    return read_int32(buf, start + 12) == 0 and read_int32(buf, start + 16) == 0


@unmanaged
def _list_full(members: bool, buf: Bytes, values: IntView, full: OutInts) -> int:
    """Write to `full` the values not stored as empty values usually are. Returns their number. `members`: gzip, not zstd."""
    count = 0
    for v in range(values.shape[1]):
        start, length = values[ValueRow.SOURCE, v], values[ValueRow.SOURCE_LEN, v]
        if values[ValueRow.TARGET_LEN, v] == 0:
            if members and length == EMPTY_MEMBER_BYTES and _is_empty_member(buf, start):
                continue
            if not members and length == 4 and read_int32(buf, start) == 0:
                continue
        full[count] = v
        count += 1
    return count


@unmanaged
def _copy_values(buf: Bytes, out: OutBytes, values: IntView) -> int:
    """Copy the values. Returns the first whose length differs from its cell's valLen, or the number of values."""
    for v in range(values.shape[1]):
        if values[ValueRow.SOURCE_LEN, v] != values[ValueRow.TARGET_LEN, v]:
            return v
        copy_bytes(out, values[ValueRow.TARGET, v], buf, values[ValueRow.SOURCE, v], values[ValueRow.TARGET_LEN, v])
    return int(values.shape[1])


def _gunzip_all(buf: Bytes, out: Bytes, values: Ints) -> Ints:
    """Decompress gzip members as `decompress_values` does. Returns the values left to be decompressed one by one."""
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
    _scatter(made, out, values)
    return none


def _unzstd_all(buf: Bytes, out: Bytes, values: Ints) -> Ints:
    """Decompress zstd frames, as `_gunzip_all` does gzip members."""
    frames = np.empty((values.shape[1], 2), np.uint64)
    left = np.empty(values.shape[1], np.bool_)
    count = _list_frames(buf, values, frames, left)
    if count:
        listed = values[:, ~left]
        segments = zstandard.BufferWithSegments(buf.data, frames[:count].tobytes())
        try:
            # With sizes given, the library checks that each frame yields exactly that many bytes, whatever it claims.
            sizes = listed[ValueRow.TARGET_LEN].astype(np.uint64).tobytes()
            made = _own.zstd.multi_decompress_to_buffer(segments, decompressed_sizes=sizes)
        except zstandard.ZstdError:
            return np.arange(values.shape[1])
        _scatter(np.frombuffer(b"".join(made), np.uint8), out, listed)  # type: ignore[arg-type]
    return np.flatnonzero(left)


@unmanaged
def _join_members(buf: Bytes, values: IntView, members: OutBytes) -> bool:
    """Copy the values to `members`. Returns whether each begins and ends like a gzip member of the value's length.

    A gzip file may contain zeros between its members, but a value may not. A value with zeros before its member begins unlike a
    member, and one with zeros after it ends like a shorter member. For an empty value, which would hide zeros, the answer is
    False.
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
def _is_frame(buf: Bytes) -> bool:
    """Return whether all of `buf` is one zstd frame."""
    return bool(_frame_end(buf, 0, buf.size) == buf.size)


@unmanaged
def _list_frames(buf: Bytes, values: IntView, frames: OutWordTable, left: OutFlags) -> int:
    """Write the offset and length of each value that is one frame to `frames`. `left` marks the other values.

    Returns the number of frames.
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
def _scatter(data: Bytes, out: OutBytes, values: IntView) -> None:
    """Copy the values, which lie one after the other in `data`, to their places."""
    pos = 0
    for v in range(values.shape[1]):
        copy_bytes(out, values[ValueRow.TARGET, v], data, pos, values[ValueRow.TARGET_LEN, v])
        pos += values[ValueRow.TARGET_LEN, v]
