"""UUIDs of clusters are read the same way wherever they occur."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import Bytes
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.uuids import from_halves, from_message, halves, halves_array, read_uuid


@unmanaged
def read(buf: Bytes) -> tuple[int, int, bool]:
    return read_uuid(buf, 0, buf.size)


@given(st.uuids())
def test_a_uuid_comes_back_from_its_message_and_its_halves(uuid: UUID) -> None:
    least, most = halves(uuid)
    message = pb.UUID(least_sig_bits=least, most_sig_bits=most)
    assert from_message(message) == from_halves(least, most) == uuid
    found = read(np.frombuffer(message.SerializeToString(), np.uint8))
    assert found == (*halves_array(uuid), True)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x08\x01", b"\x10\x01", b"\x08\x01\x10", b"\x08\x01\x10" + b"\xff" * 11],
    ids=["nothing", "one half", "the other half", "cut off", "overlong"],
)
def test_a_message_without_both_halves_is_not_a_uuid(data: bytes) -> None:
    *_, sound = read(np.frombuffer(data, np.uint8))
    assert not sound


def test_fields_of_later_releases_are_skipped() -> None:
    assert read(np.frombuffer(b"\x08\x01\x1a\x02xy\x10\x02", np.uint8)) == (1, 2, True)
