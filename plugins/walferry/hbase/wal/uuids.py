"""Cluster ids: UUIDs as HBase's messages have them.

    UUID = 1 uint64 least_sig_bits, 2 uint64 most_sig_bits, both required

Source: HBase's HBase.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import Bytes, Ints, read_field

if TYPE_CHECKING:
    from walferry.base.protos import hbase_pb2 as pb

_LEAST_TAG, _MOST_TAG = 0x08, 0x10  # fields 1 and 2, varints


@inlined
def read_uuid(buf: Bytes, pos: int, end: int) -> tuple[int, int, bool]:
    """Return (least significant half, most significant half, whether it is sound) of the UUID message `buf[pos:end]`."""
    least, most, seen = 0, 0, 0
    while pos < end:
        tag, value, _, pos = read_field(buf, pos, end)
        if pos < 0:
            return least, most, False
        if tag == _LEAST_TAG:
            least = value
            seen |= 1
        elif tag == _MOST_TAG:
            most = value
            seen |= 2
    return least, most, seen == 3


def from_halves(least: int, most: int) -> UUID:
    """The UUID of two unsigned halves."""
    return UUID(int=most << 64 | least)


def from_message(message: pb.UUID) -> UUID:
    """The UUID in a parsed message."""
    return from_halves(message.least_sig_bits, message.most_sig_bits)


def halves(uuid: UUID) -> tuple[int, int]:
    """The least and the most significant half, unsigned."""
    return uuid.int & (2**64 - 1), uuid.int >> 64


def halves_array(uuid: UUID) -> Ints:
    """The two halves as `read_uuid` returns them: the same bits as int64."""
    return np.array(halves(uuid), np.uint64).view(np.int64)
