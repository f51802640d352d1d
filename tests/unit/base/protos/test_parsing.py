"""A parsed message can be relied on: it has all required fields, and its texts are UTF-8."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message


def test_a_message_is_parsed_whole() -> None:
    peer = pb.ReplicationPeer(clusterkey="zk1:2181:/hbase", replicate_all=True, namespaces=[b"\xff"])
    peer.configuration.add(name="walferry.managed", value="trüe")
    assert parse_message(pb.ReplicationPeer, peer.SerializeToString()) == peer


@pytest.mark.parametrize("data", [b"", b"\x08", b"\xff\xff"])
def test_a_message_that_is_cut_off_or_lacks_a_field_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_message(pb.ReplicationHLogPosition, data)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(DecodeError, match="ServerName without host_name"):
        parse_message(pb.ServerName, b"")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.WALHeader(writer_cls_name="SPOILT"), "writer_cls_name"),
        (pb.BulkLoadDescriptor(
            table_name=pb.TableName(namespace=b"n", qualifier=b"q"), encoded_region_name=b"r", bulkload_seq_num=1,
            cluster_ids=["a", "SPOILT"],
        ), "cluster_ids"),
        (pb.ReplicationPeer(configuration=[pb.NameStringPair(name="a", value="b"), pb.NameStringPair(name="c", value="SPOILT")]),
         "NameStringPair.value"),
    ],
)  # fmt: skip
def test_a_text_that_is_not_utf_8_is_refused_and_named(message, field) -> None:
    data = message.SerializeToString().replace(b"SPOILT", b"SPOI\xfeT")
    with pytest.raises(DecodeError, match=rf"{field} is not UTF-8"):
        parse_message(type(message), data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    for kind in (pb.ReplicationPeer, pb.WrappedKey, pb.ResponseHeader, pb.BulkLoadDescriptor, pb.WALHeader):
        try:
            message = parse_message(kind, data)
        except DecodeError:
            continue
        assert message.IsInitialized()


def test_a_message_that_lacks_very_many_fields_names_the_first_one():
    with pytest.raises(DecodeError, match=r"^GetOnlineRegionResponse without region_info\.region_id$"):
        parse_message(pb.GetOnlineRegionResponse, b"\x0a\x00" * 100_000)
