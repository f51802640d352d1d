"""Names and values of HBase 3's table of replication queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.errors import PositionError
from walferry.hbase.names import QueueId, ServerName, parse_wal_name
from walferry.hbase.queue_table import BEGIN, GroupOffset, own_wals_group, parse_offset, parse_queue_row, queue_row

RS1, RS2 = "rs-1.example.org,16020,1700000000000", "rs-2.example.org,16020,1700000000001"
GROUP = "rs-1.example.org%2C16020%2C1700000000000"


def wal(timestamp: int):
    return parse_wal_name(f"{GROUP}.{timestamp}")


@pytest.mark.parametrize(
    ("row", "owner", "queue_id"), [(f"p-{RS1}", RS1, QueueId("p")), (f"p_2-{RS1}/{RS2}", RS1, QueueId("p_2", (RS2,)))]
)
def test_a_row_names_its_owner_its_peer_and_the_dead_server(row: str, owner: str, queue_id: QueueId) -> None:
    assert parse_queue_row(row.encode()) == (owner, queue_id)
    assert queue_row(owner, queue_id) == row


@pytest.mark.parametrize("row", ["p", f"-{RS1}", f"p-{RS1}/", f"p-{RS1}/{RS2}/{RS1}", "p-../x,1,1", "p-rs,1", "p-a,1,1/../b,1,1"])
def test_a_row_of_another_form_is_refused_by_name(row: str) -> None:
    with pytest.raises(ValueError, match="hbase:replication is not a queue's"):
        parse_queue_row(row.encode())


def test_bytes_that_are_not_utf_8_are_no_row() -> None:
    with pytest.raises(ValueError, match="is not a queue's"):
        parse_queue_row(b"p-\xff,1,1")


@given(st.integers(0, 10**18), st.integers(-1, (1 << 63) - 1))
def test_an_offset_is_read_as_it_was_written(timestamp: int, offset: int) -> None:
    written = GroupOffset(wal(timestamp), offset)
    assert parse_offset(str(written).encode(), "here") == written


def test_a_placeholder_is_the_beginning() -> None:
    assert parse_offset(b":0", "here") is BEGIN


@pytest.mark.parametrize(
    "value", [b"", b"5", b"wal:", b"wal:5", b"\xff:5", GROUP.encode() + b".1:x", GROUP.encode() + b".1:9223372036854775808",
              GROUP.encode() + b".1:" + b"9" * 5000, GROUP.encode() + b".1:--1", GROUP.encode() + b".1:\xd9\xa1"]
)  # fmt: skip
def test_a_value_that_is_not_an_offset_is_named(value: bytes) -> None:
    with pytest.raises(PositionError, match=r"here: its value .* It should be the name of a WAL, a colon and a number"):
        parse_offset(value, "here")


@given(st.integers(0, 10), st.integers(-1, 5), st.integers(0, 10))
def test_a_wal_is_queued_as_in_hbase(offset_of: int, offset: int, asked: int) -> None:
    """As ReplicationOffsetUtil.shouldReplicate."""
    position = GroupOffset(wal(offset_of), offset).position_of(wal(asked))
    assert (position is not None) == (asked > offset_of or (asked == offset_of and offset >= 0))
    assert position in (None, 0, offset)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=2, max_size=2))
def test_an_offset_that_reaches_further_leaves_less_to_ship(pairs: list[tuple[int, int]]) -> None:
    one, other = (GroupOffset(wal(timestamp), offset) for timestamp, offset in pairs)
    if one.reached < other.reached:
        for timestamp in range(5):
            left, right = one.position_of(wal(timestamp)), other.position_of(wal(timestamp))
            assert left is not None or right is None
            assert left is None or right is None or left <= right


def test_everything_is_left_at_the_beginning() -> None:
    assert BEGIN.position_of(wal(0)) == 0
    assert BEGIN.reached < GroupOffset(wal(0), 0).reached


def test_a_server_s_wals_of_the_table_itself_are_a_group_of_their_own() -> None:
    group = own_wals_group(ServerName.parse(RS1))
    assert parse_wal_name(f"{group}.1700000000005").group == group == f"{GROUP}.rep"
