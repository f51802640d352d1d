"""Compressed values of a WAL's cells, each compressed by itself.

    GZ            a gzip member
    NONE          the value
    SNAPPY, LZ4   blocks
    ZSTD          blocks | a zstd frame                                        by HBase's own codecs | by Hadoop's

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

from walferry.wal._compiled import unmanaged
from walferry.wal.blocks import unblock_into
from walferry.wal.expand import SOURCE, SOURCE_LEN, TARGET, TARGET_LEN
from walferry.wal.joined_values import ZSTD_MAGIC, gunzip_all, scatter, unzstd_all
from walferry.wal.output import copy_bytes
from walferry.wal.scan import Bytes, Ints

GZ, NONE, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4, 6  # ordinals of HBase's Compression.Algorithm
GZIP_WBITS: Final = 31


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
    elif codec == GZ:
        _each(_gunzip, buf, out, values, gunzip_all(buf, out, values))
    else:
        _each(_unzstd, buf, out, values, unzstd_all(buf, out, values))


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
    return made


def _unzstd(value: memoryview, size: int) -> bytes:
    if value[:4] == ZSTD_MAGIC:
        return _frame(value, size)
    parts, pos, made = [], 0, 0
    while pos + 4 <= len(value):
        raw = int.from_bytes(value[pos : pos + 4], "big")
        pos, series = pos + 4, made + raw
        if series > size:
            raise ValueError("its blocks are longer than its cell says")
        while made < series:
            length = int.from_bytes(value[pos : pos + 4], "big")
            if not 0 < length <= len(value) - pos - 4:
                raise ValueError("a block leaves the value")
            parts.append(_frame(value[pos + 4 : pos + 4 + length], series - made))
            pos, made = pos + 4 + length, made + len(parts[-1])
    return b"".join(parts)


def _frame(frame: memoryview, most: int) -> bytes:
    """A zstd frame of `most` bytes at most; what it says of its length is not believed before."""
    if zstandard.frame_content_size(frame) > most:
        raise ValueError("its frame is longer than its cell says")
    try:
        return _zstd.decompress(frame, most)
    except zstandard.ZstdError:
        dictionary = zstandard.get_frame_parameters(frame).dict_id
        if not dictionary:
            raise
        raise _NeedsDictionary(
            f"a value is compressed with zstd's dictionary {dictionary} (hbase.io.compress.zstd.dictionary), which cannot be read"
        ) from None


_zstd = zstandard.ZstdDecompressor()


@unmanaged
def _copy_values(buf: Bytes, out: Bytes, values: Ints) -> int:
    """The first value that has another length than its cell says, or the number of values."""
    for v in range(values.shape[1]):
        if values[SOURCE_LEN, v] != values[TARGET_LEN, v]:
            return v
        copy_bytes(out, values[TARGET, v], buf, values[SOURCE, v], values[TARGET_LEN, v])
    return int(values.shape[1])
