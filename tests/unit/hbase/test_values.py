"""Values of HBase's znodes, with and without the prefix of its client."""

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.errors import PositionError
from walferry.hbase.values import (
    decode_cluster_id,
    decode_labels,
    decode_message,
    decode_peer,
    decode_position,
    decode_state,
    encode_position,
    server_in,
    strip_client_prefix,
)

ZNODE = "/hbase/replication/rs/h,1,2/p/w"
POSITIONS = st.integers(0, 2**63 - 1)


def prefixed(body: bytes, client: bytes = b"4711@host" + b"saltsalt") -> bytes:
    return b"\xff" + struct.pack(">i", len(client)) + client + body


def test_a_position_is_written_byte_for_byte_as_by_hbase() -> None:
    assert encode_position(300) == b"PBUF\x08\xac\x02"


@given(POSITIONS)
def test_positions_survive_writing_and_reading(position: int) -> None:
    assert decode_position(encode_position(position), ZNODE) == position


@given(POSITIONS, st.binary(max_size=40))
def test_the_prefix_of_hbase_s_client_makes_no_difference(position: int, client: bytes) -> None:
    assert decode_position(prefixed(encode_position(position), client), ZNODE) == position


def test_an_empty_position_is_the_beginning() -> None:
    assert decode_position(b"", ZNODE) == 0
    assert decode_position(prefixed(b""), ZNODE) == 0


def test_eight_plain_bytes_are_a_position_of_before_hbase_0_95() -> None:
    assert decode_position(struct.pack(">q", 4711), ZNODE) == 4711


@pytest.mark.parametrize(
    "value",
    [
        b"PBUF",
        b"PBUF\x08",
        b"PBUF\x10\x01",
        b"4711",
        b"\xff",
        b"\xff\x00\x00\x00\x05abcd",
        b"\xff\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff\xffPBUF\x08\x01",
        struct.pack(">q", -1),
        b"PBUF\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ],
)
def test_an_unparsable_position_is_an_error_that_names_the_znode_and_what_to_do(value: bytes) -> None:
    with pytest.raises(PositionError, match=f"^znode {ZNODE}: .*ships the WAL again from its first entry$") as error:
        decode_position(value, ZNODE)
    assert error.value.znode == ZNODE


@given(st.binary(max_size=64))
def test_no_value_makes_reading_a_position_fail_otherwise(value: bytes) -> None:
    try:
        position = decode_position(value, ZNODE)
    except PositionError:
        return
    assert position >= 0


@pytest.mark.parametrize("position", [-1, 2**63])
def test_what_is_no_position_is_not_written(position: int) -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        encode_position(position)


@given(st.binary(max_size=64))
def test_a_prefix_never_yields_more_than_the_value_has(value: bytes) -> None:
    try:
        body = strip_client_prefix(value, ZNODE)
    except ZNodeValueError:
        return
    assert value.endswith(body)


def test_the_peer_state_is_read() -> None:
    assert decode_state(b"PBUF\x08\x00", ZNODE) == "ENABLED"
    assert decode_state(prefixed(b"PBUF\x08\x01"), ZNODE) == "DISABLED"
    for value in (b"", b"DISABLED", b"PBUF", b"PBUF\x08\x07"):
        with pytest.raises(ZNodeValueError, match=ZNODE):
            decode_state(value, ZNODE)


def test_the_cluster_id_is_read_as_written_now_and_before_0_95() -> None:
    text = "f0c5a3b2-8f8f-4e6c-9f0e-0a1b2c3d4e5f"
    assert decode_cluster_id(prefixed(b"PBUF\x0a\x24" + text.encode()), ZNODE) == uuid.UUID(text)
    assert decode_cluster_id(text.encode(), ZNODE) == uuid.UUID(text)
    for value in (b"", b"PBUF", b"PBUF\x0a\x03abc", b"\xc3\x28", b"no uuid"):
        with pytest.raises(ZNodeValueError, match=ZNODE):
            decode_cluster_id(value, ZNODE)


def test_a_peer_of_before_0_95_is_its_cluster_key() -> None:
    assert decode_peer(b"h1,h2:2181:/hbase", ZNODE).clusterkey == "h1,h2:2181:/hbase"
    for value in (b"", b"PBUF\xff", b"\xc3\x28"):
        with pytest.raises(ZNodeValueError, match=ZNODE):
            decode_peer(value, ZNODE)


def test_a_peer_with_a_key_that_is_no_text_is_an_error() -> None:
    value = b"PBUF" + pb.ReplicationPeer(clusterkey="zk1:2181:/hbase").SerializeToString().replace(b"zk1", b"zk\xff")
    with pytest.raises(ZNodeValueError, match=r"znode /peers/1: .* is not a ReplicationPeer \(.*clusterkey is not UTF-8\)"):
        decode_peer(value, "/peers/1")


def test_visibility_labels_are_read_by_their_ordinals() -> None:
    written = pb.VisibilityLabelsRequest()
    written.visLabel.add(label=b"system", ordinal=1)
    written.visLabel.add(label=b"gr\xc3\xb6\xc3\x9fe", ordinal=300)
    body = b"PBUF" + written.SerializeToString()
    assert decode_labels(body, ZNODE) == decode_labels(prefixed(body), ZNODE) == {1: b"system", 300: b"gr\xc3\xb6\xc3\x9fe"}
    assert decode_labels(b"", ZNODE) == decode_labels(prefixed(b""), ZNODE) == {}  # as it is made


@pytest.mark.parametrize("value", [b"labels", b"PBUF\x0a\x02\x10\x01", b"PBUF\xff"])
def test_visibility_labels_that_cannot_be_read_are_an_error(value: bytes) -> None:
    with pytest.raises(ZNodeValueError, match=ZNODE):
        decode_labels(value, ZNODE)


def test_a_master_without_its_message_is_an_error() -> None:
    with pytest.raises(ZNodeValueError, match="does not begin with PBUF"):
        decode_message(pb.Master, b"h,1,2", ZNODE)


@pytest.mark.parametrize("host", ["evil\nINFO - done", "rs\x1b[2J", "rs\u202e", "rs\u200b", "", "a,b", "a/b", "a b"])
def test_a_server_whose_host_is_no_host_is_an_error_that_shows_it(host: str) -> None:
    with pytest.raises(ZNodeValueError) as refused:
        server_in(pb.ServerName(host_name=host, port=1, start_code=1), ZNODE)
    assert str(refused.value).isprintable()
    assert ZNODE in str(refused.value)
    assert str(server_in(pb.ServerName(host_name="RS-1.example.org", port=1, start_code=2), ZNODE)) == "RS-1.example.org,1,2"
