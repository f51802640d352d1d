"""Reads varints, protobuf fields and integers from a buffer, and compares and hashes bytes.

A buffer is an array of bytes. Positions count from its start. Only `read_varint` and `read_field` check that their bytes lie
within the range; callers of the other kernels have checked it before. A negative "position after" is INCOMPLETE (more bytes are
needed) or OVERLONG (the bytes are not a varint).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.types import Bytes, Ints

INCOMPLETE: Final = -1
OVERLONG: Final = -2


class WireType(enum.IntEnum):
    """The encodings of protobuf fields: the low three bits of a tag. HBase uses no groups (3 and 4)."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


@inlined
def read_varint(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Return (value as int64, position after it) of the varint at `pos`.

    Without a varint there, the position is INCOMPLETE or OVERLONG.
    """
    value = 0
    shift = 0
    while pos < end:
        byte = buf[np.uint64(pos)]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 63:
            return value, OVERLONG
    return value, INCOMPLETE


@inlined
def read_field(buf: Bytes, pos: int, end: int) -> tuple[int, int, int, int]:
    """Return (tag, value, start, position after it) of the protobuf field at `pos`.

    `value` is the value of a varint, and 0 for other wire types. `start` is the start of the value, or of the bytes in a bytes
    field. The position after is negative if the value is malformed or leaves the range. The tag is 0 if there is no sound tag.
    """
    tag, start = read_varint(buf, pos, end)
    if start < 0 or tag < 8:
        return 0, 0, pos, INCOMPLETE
    wire_type = tag & 7
    if wire_type == WireType.VARINT:
        value, after = read_varint(buf, start, end)
        return tag, value, start, after
    if wire_type == WireType.BYTES:
        length, first = read_varint(buf, start, end)
        return tag, 0, first, first + length if first >= 0 and 0 <= length <= end - first else INCOMPLETE
    width = 8 if wire_type == WireType.FIXED64 else 4
    fits = wire_type in (WireType.FIXED64, WireType.FIXED32) and width <= end - start
    return tag, 0, start, start + width if fits else INCOMPLETE


@inlined
def read_int32(buf: Bytes, pos: int) -> int:
    """Return the big-endian int32 at `pos`."""
    p, one = np.uint64(pos), np.uint64(1)
    value = buf[p] << 24 | buf[p + one] << 16 | buf[p + one + one] << 8 | buf[p + one + one + one]  # as int64
    return int((value ^ 0x80000000) - 0x80000000)


@inlined
def read_uint8(buf: Bytes, pos: int) -> int:
    """Return the byte at `pos` as an int64."""
    return int(buf[np.uint64(pos)] & 0xFF)


@inlined
def read_little_endian(buf: Bytes, pos: int, width: int) -> int:
    """Return the little-endian number of `width` bytes at `pos`."""
    value = 0
    for i in range(width):
        value |= read_uint8(buf, pos + i) << (8 * i)
    return value


@inlined
def read_uint16(buf: Bytes, pos: int) -> int:
    """Return the big-endian uint16 at `pos`."""
    p = np.uint64(pos)
    return int(buf[p] << 8 | buf[p + np.uint64(1)])


@inlined
def read_int64(buf: Bytes, pos: int) -> int:
    """Return the big-endian int64 at `pos`."""
    return read_int32(buf, pos) << 32 | read_int32(buf, pos + 4) & 0xFFFFFFFF


@inlined
def read_word(buf: Bytes, pos: int) -> Any:
    """Return the eight bytes at `pos` as a big-endian uint64."""
    value = np.uint64(0)
    for i in range(np.uint64(8)):  # becomes one load
        value = value << np.uint64(8) | np.uint64(buf[np.uint64(pos) + i])
    return value


@inlined
def same_bytes(a: Bytes, a_start: int, b: Bytes, b_start: int, length: int) -> bool:
    """Return whether two ranges contain the same bytes."""
    for i in range(length - 1, -1, -1):  # noqa: SIM110  numba compiles no generators. Neighbouring rows differ at their ends
        if a[np.uint64(a_start + i)] != b[np.uint64(b_start + i)]:
            return False
    return True


@inlined
def compare_bytes(a: Bytes, i: int, a_len: int, b: Bytes, j: int, b_len: int) -> int:
    """Return a number below, at or above 0 as `a[i:i + a_len]` sorts before, is equal to, or sorts after `b[j:j + b_len]`."""
    common = min(a_len, b_len)
    k = 0
    while k + 8 <= common:
        x, y = read_word(a, i + k), read_word(b, j + k)
        if x != y:
            return -1 if x < y else 1
        k += 8
    while k < common:
        difference = read_uint8(a, i + k) - read_uint8(b, j + k)
        if difference != 0:
            return difference
        k += 1
    return a_len - b_len


@inlined
def common_bytes(a: Bytes, i: int, b: Bytes, j: int, most: int) -> int:
    """Return how many of the first `most` bytes at `a[i:]` and `b[j:]` are equal."""
    k = 0
    while k < most and read_uint8(a, i + k) == read_uint8(b, j + k):
        k += 1
    return k


@inlined
def find_name(buf: Bytes, start: int, length: int, first: int, last: int, starts: Ints, names: Bytes) -> int:
    """Return which of the names `first` to `last`, without the last, `buf[start:start + length]` is; -1 if it is none of them.

    `starts` and `names` come from `flat`.
    """
    for i in range(first, last):
        if starts[i + 1] - starts[i] == length and same_bytes(buf, start, names, starts[i], length):
            return int(i)
    return -1


def flat(names: Sequence[bytes]) -> tuple[Ints, Bytes]:
    """Return where each name begins and the last one ends, and the concatenated names."""
    return np.cumsum([0, *map(len, names)], dtype=np.int64), np.frombuffer(b"".join(names) or b"\0", np.uint8)


@inlined
def mix(value: Any, word: Any) -> Any:
    """Mix one more uint64 into a uint64 hash."""
    value = (value ^ word) * np.uint64(0xC6A4A7935BD1E995)  # MurmurHash2's multiplier
    return value ^ value >> np.uint64(32)  # otherwise the last bytes would never reach the lower bits


@inlined
def word_after(buf: Bytes, start: int, length: int, skipped: int) -> Any:
    """Return eight bytes of `buf[start:start + length]` from `skipped` on, as a number that sorts like them. Zeros follow its
    end.
    """
    word = np.uint64(0)
    for k in range(skipped, skipped + 8):
        word = word << np.uint64(8) | np.uint64(read_uint8(buf, start + k) if k < length else 0)
    return word


@inlined
def hash_bytes(buf: Bytes, start: int, length: int) -> int:
    """Return a 64-bit hash of `buf[start:start + length]` as an int64. Any of its bits may be used for a modulus."""
    value = np.uint64(length)
    pos, end, word_bytes = np.uint64(start), np.uint64(start + length), np.uint64(8)
    while pos + word_bytes <= end:
        word = np.uint64(0)
        for i in range(np.uint64(8)):  # becomes one load
            word |= np.uint64(buf[pos + i]) << (i * word_bytes)
        value = mix(value, word)
        pos += word_bytes
    while pos < end:
        value = mix(value, np.uint64(buf[pos]))
        pos += np.uint64(1)
    return int(np.int64(mix(value, np.uint64(0))))
