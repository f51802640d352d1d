"""Compressed values of a WAL's cells, each compressed by itself.

    GZ            a gzip member
    NONE          the value
    SNAPPY, LZ4   blocks
    ZSTD          blocks | a zstd frame                                        by HBase's own codecs | by Hadoop's

An empty value is stored as one, too: GZ has a member of 20 bytes, blocks are an int32 0. Whatever else the stored length takes in
is an error: these bytes may be the entry behind it.

    blocks = { int32 rawLen, { int32 length, block }* }* [ int32 0 ]           the blocks of a series make rawLen bytes

Source: HBase's CompressionContext.ValueCompressor, Compression.Algorithm, ReusableStreamGzipCodec; Hadoop's
BlockCompressorStream. The trailing 0 follows values that are longer than the codec's buffer (HBASE-28390).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import numpy as np
import zstandard

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import Bytes, Ints, read_int32, read_uint16
from walferry.kernels.write import copy_bytes
from walferry.wal.codecs.blocks import unblock_into
from walferry.wal.codecs.expand import SOURCE, SOURCE_LEN, TARGET, TARGET_LEN
from walferry.wal.codecs.joined_values import GZIP_MAGIC, ZSTD_MAGIC, gunzip_all, is_frame, scatter, unzstd_all

GZ, NONE, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4, 6  # ordinals of HBase's Compression.Algorithm
# How many bytes a stored one becomes at most: of SNAPPY a copy of 64 in 3, of LZ4 255 more, of GZ one of 258 in two bits, and of
# ZSTD a block of 128 KB in 4. By None: not compressed.
MOST_FROM_A_BYTE: Final[dict[int | None, int]] = {GZ: 1032, NONE: 1, SNAPPY: 22, LZ4: 256, ZSTD: 1 << 15}
GZIP_WBITS: Final = 31
EMPTY_MEMBER_BYTES: Final = 20


class BadValue(Exception):
    """Value number `value` of a pass cannot be decompressed; the message says why."""

    def __init__(self, value: int, reason: str) -> None:
        super().__init__(reason)
        self.value = value


class UnknownDictionary(BadValue):
    """What the value was compressed with is not in the file: if it is not damaged, all that follows is like it."""


class _NeedsDictionary(Exception):
    """A zstd frame that only a dictionary decompresses."""


def decompress_values(codec: int, buf: Bytes, out: Bytes, values: Ints) -> None:
    """Decompress each column of `values` (SOURCE, SOURCE_LEN, TARGET, TARGET_LEN) of `buf` to `out`.

    Raises BadValue, maybe UnknownDictionary, for the first that cannot be, or has another length.
    """
    if codec in (SNAPPY, LZ4, NONE):
        bad = unblock_into(codec, buf, out, values) if codec != NONE else _copy_values(buf, out, values)
        if bad < values.shape[1]:
            raise BadValue(bad, "a value cannot be decompressed to the length that its cell says")
        return
    full = np.empty(values.shape[1], np.int64)
    full = full[: _list_full(codec == GZ, buf, values, full)]
    if len(full) < values.shape[1]:
        values = values[:, full]
    try:
        if codec == GZ:
            _each(_gunzip, buf, out, values, gunzip_all(buf, out, values))
        else:
            _each(_unzstd, buf, out, values, unzstd_all(buf, out, values))
    except BadValue as e:
        e.value = int(full[e.value])
        raise


def _each(decompress: Callable[[memoryview, int], bytes], buf: Bytes, out: Bytes, values: Ints, columns: Ints) -> None:
    """By a library, value by value; what it makes goes to `out` at once."""
    data = buf.data
    values = values[:, columns]
    source, length, expected = values[[SOURCE, SOURCE_LEN, TARGET_LEN]].tolist()
    parts: list[bytes] = []
    bad: BadValue | None = None
    try:
        for start, count, size in zip(source, length, expected, strict=True):
            parts.append(decompress(data[start : start + count], size))
    except (zlib.error, zstandard.ZstdError, ValueError) as e:
        bad = BadValue(int(columns[len(parts)]), f"a value cannot be decompressed ({e})")
    except _NeedsDictionary as e:
        bad = UnknownDictionary(int(columns[len(parts)]), str(e))
    wrong = np.flatnonzero(np.fromiter(map(len, parts), np.int64, len(parts)) != values[TARGET_LEN, : len(parts)])
    if len(wrong):
        bad = BadValue(int(columns[wrong[0]]), "a value's length is not the one that its cell says")
        del parts[wrong[0] :]
    scatter(np.frombuffer(b"".join(parts), np.uint8), out, values[:, : len(parts)])
    if bad:
        raise bad


def _gunzip(value: memoryview, size: int) -> bytes:
    """A gzip member of `size` bytes at most; one more shows that there are more, and the rest is not made."""
    stream = zlib.decompressobj(GZIP_WBITS)
    made = stream.decompress(value, size + 1)
    if len(made) <= size and not stream.eof:
        raise ValueError("its gzip member is cut")
    if stream.unused_data:
        raise ValueError(f"{len(stream.unused_data)} bytes follow its gzip member")
    return made


def _unzstd(value: memoryview, size: int) -> bytes:
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
    """A zstd frame of `most` bytes at most; what it says of its length is not believed before."""
    if zstandard.frame_content_size(frame) > most:
        raise ValueError("its frame is longer than its cell says")
    if not is_frame(np.frombuffer(frame.toreadonly(), np.uint8)):  # the library does not look behind its end
        raise ValueError("it is not one zstd frame and nothing else")
    try:
        return _zstd.decompress(frame, max(most, 1))  # 0 would be no limit
    except zstandard.ZstdError:
        dictionary = zstandard.get_frame_parameters(frame).dict_id
        if not dictionary:
            raise
        raise _NeedsDictionary(
            f"a value is compressed with zstd's dictionary {dictionary} (hbase.io.compress.zstd.dictionary), which cannot be read"
        ) from None


_zstd = zstandard.ZstdDecompressor()


@inlined
def _is_empty_member(buf: Bytes, start: int) -> bool:
    """Whether the 20 bytes at `start` are a gzip member of nothing, as Java and zlib write it."""
    if read_int32(buf, start) != GZIP_MAGIC or read_uint16(buf, start + 10) != 0x0300:
        return False
    return read_int32(buf, start + 12) == 0 and read_int32(buf, start + 16) == 0


@unmanaged
def _list_full(members: bool, buf: Bytes, values: Ints, full: Ints) -> int:
    """Put to `full` which values are not empty ones as nearly all are stored; returns how many. `members`: by gzip, not zstd."""
    count = 0
    for v in range(values.shape[1]):
        start, length = values[SOURCE, v], values[SOURCE_LEN, v]
        if values[TARGET_LEN, v] == 0:
            if members and length == EMPTY_MEMBER_BYTES and _is_empty_member(buf, start):
                continue
            if not members and length == 4 and read_int32(buf, start) == 0:
                continue
        full[count] = v
        count += 1
    return count


@unmanaged
def _copy_values(buf: Bytes, out: Bytes, values: Ints) -> int:
    """The first value that has another length than its cell says, or the number of values."""
    for v in range(values.shape[1]):
        if values[SOURCE_LEN, v] != values[TARGET_LEN, v]:
            return v
        copy_bytes(out, values[TARGET, v], buf, values[SOURCE, v], values[TARGET_LEN, v])
    return int(values.shape[1])
