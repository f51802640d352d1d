"""Decompresses Hadoop's blocks of SNAPPY and LZ4 in compiled code, because many values of a WAL have only a few bytes.

    blocks  = { int32 rawLen, { int32 length, block }* }* [ int32 0 ]

    snappy  = varint rawLen, element*
    element = tag & 3: 0 literal of (tag >> 2) + 1 bytes; tags of 60 to 63 << 2 are followed by the length - 1 in 1 to 4 bytes
              1 copy of (tag >> 2 & 7) + 4 bytes from (tag >> 5) << 8 | byte back
              2 copy of (tag >> 2) + 1 bytes from uint16 back       3 the same from uint32 back          little-endian

    lz4     = { token, [length bytes], literals, [uint16 offset, [length bytes]] }*     the last sequence has literals only
              token: high four bits literals, low four bits copied bytes - 4; 15 is followed by bytes to add, until one is not 255

Source: format_description.txt of google/snappy, lz4_Block_format.md of lz4/lz4.
"""

from __future__ import annotations

import enum
from typing import Final

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import read_int32, read_little_endian, read_uint8, read_varint
from walferry.base.kernels.types import Bytes, IntView, OutBytes
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.wal.codecs.passes import ValueRow
from walferry.hbase.wal.header import ValueCodec

BROKEN: Final = -1
MANY_LITERALS: Final = 60  # from this code on, separate bytes hold the length of a snappy literal
LZ4_LONG: Final = 15  # a length with this code continues in separate bytes


class Element(enum.IntEnum):
    """The kinds of snappy's elements: the low two bits of a tag."""

    LITERAL = 0
    NEAR_COPY = 1
    COPY = 2
    FAR_COPY = 3


@inlined
def _copy_back(out: OutBytes, at: int, distance: int, length: int, begin: int, limit: int) -> int:
    """Append the `length` bytes from `distance` back, which may overlap the copy. Returns the position after, or BROKEN."""
    if distance < 1 or distance > at - begin or length > limit - at:
        return BROKEN
    return copy_bytes(out, at, out, at - distance, length)


@inlined
def _unsnappy(buf: Bytes, pos: int, end: int, out: OutBytes, at: int, limit: int) -> int:
    """Decompress a snappy block `buf[pos:end]` to `out[at:limit]`. Returns the position after the result, or BROKEN."""
    raw, pos = read_varint(buf, pos, end)
    if pos < 0 or raw < 0 or raw > limit - at:
        return BROKEN
    begin, stop = at, at + raw
    while pos < end:
        tag = read_uint8(buf, pos)
        pos += 1
        kind = tag & 3
        if kind == Element.LITERAL:
            length = tag >> 2
            if length >= MANY_LITERALS:
                width = length - MANY_LITERALS + 1
                if width > end - pos:
                    return BROKEN
                length = read_little_endian(buf, pos, width)
                pos += width
            length += 1
            if length > end - pos or length > stop - at:
                return BROKEN
            at = copy_bytes(out, at, buf, pos, length)
            pos += length
            continue
        width = 1 if kind == Element.NEAR_COPY else 2 if kind == Element.COPY else 4
        if width > end - pos:
            return BROKEN
        distance = read_little_endian(buf, pos, width)
        pos += width
        length = (tag >> 2 & 7) + 4 if kind == Element.NEAR_COPY else (tag >> 2) + 1
        at = _copy_back(out, at, distance | (tag >> 5 << 8 if kind == Element.NEAR_COPY else 0), length, begin, stop)
        if at == BROKEN:
            return BROKEN
    return at if at == stop else BROKEN


@inlined
def _lz4_length(buf: Bytes, pos: int, end: int, length: int) -> tuple[int, int]:
    """Return (length, position after it). The position is BROKEN if the length leaves the block."""
    if length < LZ4_LONG:
        return length, pos
    while pos < end:
        more = read_uint8(buf, pos)
        pos += 1
        length += more
        if more < 255:
            return length, pos
    return length, BROKEN


@inlined
def _unlz4(buf: Bytes, pos: int, end: int, out: OutBytes, at: int, limit: int) -> int:
    """Decompress an LZ4 block, as `_unsnappy` does a snappy one."""
    begin = at
    while pos < end:
        token = read_uint8(buf, pos)
        length, pos = _lz4_length(buf, pos + 1, end, token >> 4)
        if pos < 0 or length > end - pos or length > limit - at:
            return BROKEN
        at = copy_bytes(out, at, buf, pos, length)
        pos += length
        if pos == end:
            return at
        if end - pos < 2:
            return BROKEN
        distance = read_little_endian(buf, pos, 2)
        length, pos = _lz4_length(buf, pos + 2, end, token & LZ4_LONG)
        if pos < 0:
            return BROKEN
        at = _copy_back(out, at, distance, length + 4, begin, limit)
        if at == BROKEN:
            return BROKEN
    return BROKEN


@inlined
def _unblock(codec: int, buf: Bytes, pos: int, end: int, out: OutBytes, at: int, size: int) -> bool:
    """Decompress the blocks `buf[pos:end]` to `out[at:]`. Returns whether they are sound and give `size` bytes."""
    limit = at + size
    while end - pos >= 4:
        raw = read_int32(buf, pos)
        pos += 4
        if raw == 0:
            return at == limit and pos == end
        stop = at + raw
        if raw < 0 or stop > limit:
            return False
        while at < stop:
            length = read_int32(buf, pos) if end - pos >= 4 else BROKEN
            pos += 4
            if length <= 0 or length > end - pos:
                return False
            before = at
            end_of_block = pos + length
            if codec == ValueCodec.SNAPPY:
                at = _unsnappy(buf, pos, end_of_block, out, at, stop)
            else:
                at = _unlz4(buf, pos, end_of_block, out, at, stop)
            if at <= before:
                return False
            pos = end_of_block
    return at == limit and pos == end


@unmanaged
def unblock_into(codec: int, buf: Bytes, out: OutBytes, values: IntView) -> int:
    """Decompress the values in `buf` that the columns of `values` (rows: ValueRow) describe to `out`.

    The caller has checked that all of them lie within the buffers. Returns the first broken value, or the number of values.
    """
    for v in range(values.shape[1]):
        start, target = values[ValueRow.SOURCE, v], values[ValueRow.TARGET, v]
        end = start + values[ValueRow.SOURCE_LEN, v]
        if not _unblock(codec, buf, start, end, out, target, values[ValueRow.TARGET_LEN, v]):
            return v
    return int(values.shape[1])
