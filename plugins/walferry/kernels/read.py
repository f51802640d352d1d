"""What kernels read with: varints and protobuf fields, integers of a few bytes, hashes.

A buffer is an array of bytes, and a position in it counts from its start. Only `read_varint` and `skip_field` check that what
they read lies in the range; for the others the caller has checked it. In a kernel a negative "next position" is one of INCOMPLETE
(more bytes are needed) and OVERLONG (the bytes are not a varint).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from walferry.kernels.compiled import inlined

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

INCOMPLETE: Final = -1
OVERLONG: Final = -2


@inlined
def read_varint(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(value, position after it) of the varint at `pos`; value as int64. Position INCOMPLETE or OVERLONG if there is none."""
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
def skip_field(buf: Bytes, pos: int, end: int, wire_type: int) -> int:
    """Position after the value, at `pos`, of a protobuf field; negative if it leaves the range or is no known wire type."""
    if wire_type == 0:
        _, after = read_varint(buf, pos, end)
        return after
    if wire_type == 2:
        length, after = read_varint(buf, pos, end)
        return after + length if after >= 0 and 0 <= length <= end - after else INCOMPLETE
    width = 8 if wire_type == 1 else 4
    return pos + width if wire_type in (1, 5) and width <= end - pos else INCOMPLETE


@inlined
def read_int32(buf: Bytes, pos: int) -> int:
    """The big-endian int32 at `pos`; the caller has checked that it is there."""
    p, one = np.uint64(pos), np.uint64(1)
    value = buf[p] << 24 | buf[p + one] << 16 | buf[p + one + one] << 8 | buf[p + one + one + one]  # as int64
    return int((value ^ 0x80000000) - 0x80000000)


@inlined
def read_uint8(buf: Bytes, pos: int) -> int:
    """The byte at `pos` as a signed integer of 64 bits; the caller has checked that it is there."""
    return int(buf[np.uint64(pos)] & 0xFF)


@inlined
def read_little_endian(buf: Bytes, pos: int, width: int) -> int:
    """The little-endian number of `width` bytes at `pos`; the caller has checked that they are there."""
    value = 0
    for i in range(width):
        value |= read_uint8(buf, pos + i) << (8 * i)
    return value


@inlined
def read_uint16(buf: Bytes, pos: int) -> int:
    """The big-endian uint16 at `pos`; the caller has checked that it is there."""
    p = np.uint64(pos)
    return int(buf[p] << 8 | buf[p + np.uint64(1)])


@inlined
def mix(value: Any, word: Any) -> Any:
    """One more uint64 in a uint64 hash."""
    value = (value ^ word) * np.uint64(0xC6A4A7935BD1E995)  # MurmurHash2's multiplier
    return value ^ value >> np.uint64(32)  # or the last bytes would never reach the lower bits


@inlined
def hash_bytes(buf: Bytes, start: int, length: int) -> int:
    """A 64-bit hash of `buf[start:start + length]`, its bits as an int64; all its bits are fit for a modulus."""
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
