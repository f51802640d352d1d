"""What kernels write with. The caller has made sure that there is room."""

from __future__ import annotations

import numpy as np

from walferry.kernels.compiled import inlined
from walferry.kernels.read import Bytes


@inlined
def put_varint(out: Bytes, at: int, value: int) -> int:
    """Write a varint to `out[at:]`; returns its end."""
    while value > 127:
        out[np.uint64(at)] = (value & 127) | 128
        value >>= 7
        at += 1
    out[np.uint64(at)] = value
    return at + 1


@inlined
def varint_len(value: int) -> int:
    """How many bytes `put_varint` writes."""
    length = 1
    while value > 127:
        value >>= 7
        length += 1
    return length


@inlined
def copy_bytes(out: Bytes, at: int, buf: Bytes, start: int, length: int) -> int:
    """Copy `buf[start:start + length]` to `out[at:]`; returns the end of the copy.

    A loop, as numba would copy a slice by way of a temporary array; unsigned indices let it be vectorized.
    """
    to, source = np.uint64(at), np.uint64(start)
    for i in range(np.uint64(length)):
        out[to + i] = buf[source + i]
    return at + length
