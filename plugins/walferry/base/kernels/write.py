"""Writes varints, integers and copies of bytes. The caller has made sure that the buffer has room."""

from __future__ import annotations

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.types import Bytes, OutBytes


@inlined
def put_varint(out: OutBytes, at: int, value: int) -> int:
    """Write a varint to `out[at:]`. Returns the position after it."""
    while value > 127:
        out[np.uint64(at)] = (value & 127) | 128
        value >>= 7
        at += 1
    out[np.uint64(at)] = value
    return at + 1


@inlined
def varint_len(value: int) -> int:
    """Return how many bytes `put_varint` writes."""
    length = 1
    while value > 127:
        value >>= 7
        length += 1
    return length


@inlined
def put_int(out: OutBytes, at: int, value: int, width: int) -> int:
    """Write a big-endian number of `width` bytes to `out[at:]`. Returns the position after it."""
    for i in range(width):
        out[np.uint64(at + i)] = value >> 8 * (width - 1 - i) & 0xFF
    return at + width


@inlined
def copy_bytes(out: OutBytes, at: int, buf: Bytes, start: int, length: int) -> int:
    """Copy `buf[start:start + length]` to `out[at:]`. Returns the position after the copy.

    This is a loop because numba copies a slice through a temporary array. Unsigned indices let the compiler vectorize it.
    """
    to, source = np.uint64(at), np.uint64(start)
    for i in range(np.uint64(length)):
        out[to + i] = buf[source + i]
    return at + length


@inlined
def move_bytes(out: OutBytes, at: int, buf: Bytes, start: int, length: int) -> int:
    """Copy like `copy_bytes`, but word by word, also towards the same buffer's start. Returns the position after the copy."""
    to, source, size = np.uint64(at), np.uint64(start), np.uint64(length)
    eight = np.uint64(8)
    i = np.uint64(0)
    while i + eight <= size:
        word = np.uint64(0)
        for k in range(eight):  # becomes one load
            word |= np.uint64(buf[source + i + k]) << (k * eight)
        for k in range(eight):  # becomes one store
            out[to + i + k] = np.uint8(word >> (k * eight) & np.uint64(0xFF))
        i += eight
    while i < size:
        out[to + i] = buf[source + i]
        i += np.uint64(1)
    return at + length
