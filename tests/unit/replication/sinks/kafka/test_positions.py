"""Positions in Kafka are found again, and what is none is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.replication.sinks.kafka.clients import KafkaRefused
from walferry.replication.sinks.kafka.positions import PARTITIONS, key_of, parse, partition_of, value_of

WAL = "rs1%2C16020%2C1.1700000000000"


@given(st.integers(0, (1 << 63) - 1))
def test_a_position_is_read_as_it_was_written(offset: int) -> None:
    assert parse(value_of((WAL, offset)), "here") == (WAL, offset)


def test_a_group_has_one_partition() -> None:
    numbers = {partition_of(key_of("events of 1", f"rs{number}")) for number in range(500)}
    assert numbers == set(range(PARTITIONS))
    assert partition_of(b"events of 1 rs1%2C16020%2C1") == 10  # what is written stays to be found


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff", b"[]", b"{}", b'{"wal": "x", "offset": 1}', b'{"wal": 1, "offset": 1}', b'{"wal": "%s"}' % WAL.encode(),
     b'{"wal": "%s", "offset": -1}' % WAL.encode(), b'{"wal": "%s", "offset": true}' % WAL.encode(), b" " * 20_000],
)  # fmt: skip
def test_what_is_no_position_is_refused_with_its_place(value: bytes) -> None:
    with pytest.raises(KafkaRefused, match="record 5 is no position"):
        parse(value, "record 5")
