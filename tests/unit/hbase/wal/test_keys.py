"""A message is a WALKey if HBase writes it, now or in a later release.

UUIDs of clusters are read the same way wherever they occur.
"""

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, Cell, encode_wal, entry
from tests.unit.hbase.wal.samples import read
from tests.unit.hbase.wal.scanned import key_bytes, scan, with_key
from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import Bytes
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.errors import WalPositionError
from walferry.hbase.wal.keys import from_halves, from_message, halves, halves_array, read_uuid


def test_fields_of_later_releases_are_skipped() -> None:
    extra = b"\x68\x01" + b"\x6a\x03abc" + b"\x6d\x01\x02\x03\x04" + b"\x69" + b"\x01" * 8
    found = scan(with_key(key_bytes() + extra))
    assert found.fault is None
    assert len(found.index) == 1


FIELDS_WITHOUT_A_KEY = b"\x65abcd" * 6 + b"\x0a\x01r\x12\x01t\x18\x01\x20\x01"  # a whole key, but field 12 before it
OUT_OF_ORDER = b"\x12\x01t\x0a\x01r\x18\x01\x20\x01"
TWICE = b"\x0a\x01r\x0a\x01r\x12\x01t\x18\x01\x20\x01"
OF_ANOTHER_TYPE = b"\x08\x01\x0a\x01r\x12\x01t\x18\x01\x20\x01"


@pytest.mark.parametrize("message", [FIELDS_WITHOUT_A_KEY, OUT_OF_ORDER, TWICE, OF_ANOTHER_TYPE])
def test_a_message_that_hbase_does_not_write_is_not_a_key(message: bytes) -> None:
    like_an_entry = bytes([len(message)]) + message
    inside = encode_wal([entry(Cell(b"row", b"f", b"q", 1, PUT, like_an_entry))])
    error = read(inside, inside.index(like_an_entry)).error
    assert isinstance(error, WalPositionError)
    assert f"one at byte {len(encode_wal([], b''))} goes on beyond it" in str(error)


@unmanaged
def read_id(buf: Bytes) -> tuple[int, int, bool]:
    return read_uuid(buf, 0, buf.size)


@given(st.uuids())
def test_a_uuid_comes_back_from_its_message_and_its_halves(uuid: UUID) -> None:
    least, most = halves(uuid)
    message = pb.UUID(least_sig_bits=least, most_sig_bits=most)
    assert from_message(message) == from_halves(least, most) == uuid
    found = read_id(np.frombuffer(message.SerializeToString(), np.uint8))
    assert found == (*halves_array(uuid), True)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x08\x01", b"\x10\x01", b"\x08\x01\x10", b"\x08\x01\x10" + b"\xff" * 11],
    ids=["nothing", "one half", "the other half", "cut off", "overlong"],
)
def test_a_message_without_both_halves_is_not_a_uuid(data: bytes) -> None:
    *_, sound = read_id(np.frombuffer(data, np.uint8))
    assert not sound


def test_fields_of_later_releases_in_an_id_are_skipped() -> None:
    assert read_id(np.frombuffer(b"\x08\x01\x1a\x02xy\x10\x02", np.uint8)) == (1, 2, True)
