"""Names of replication queues."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.names import QueueId, parse_queue_id

NAMES = st.from_regex(re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,30}[a-z0-9])?", re.ASCII), fullmatch=True)
HOSTS = NAMES | st.ip_addresses().map(str)
SERVERS = st.builds("{},{},{}".format, HOSTS, st.integers(1, 65535), st.integers(0, 2**63 - 1))
PEERS = st.from_regex(re.compile(r"[A-Za-z0-9_.]{1,10}", re.ASCII), fullmatch=True)


@given(PEERS, st.lists(SERVERS, max_size=4))
def test_building_and_parsing_are_inverse(peer_id: str, servers: list[str]) -> None:
    queue_id = QueueId(peer_id, tuple(servers))
    assert parse_queue_id(str(queue_id)) == queue_id


def test_dashes_in_host_names_separate_nothing() -> None:
    parsed = parse_queue_id("2-ip-10-46-221-101.ec2.internal,52170,1364333181125-a-b,1,2")
    assert parsed == QueueId("2", ("ip-10-46-221-101.ec2.internal,52170,1364333181125", "a-b,1,2"))
    assert parsed.recovered


def test_ipv6_hosts_are_servers_as_any_other() -> None:
    parsed = parse_queue_id("2-2001:db8::1,16020,17-fe80::1%eth0,1,2-a-b,3,4")
    assert parsed == QueueId("2", ("2001:db8::1,16020,17", "fe80::1%eth0,1,2", "a-b,3,4"))


def test_a_plain_peer_id_is_a_queue_that_was_never_claimed() -> None:
    assert parse_queue_id("2") == QueueId("2")
    assert not parse_queue_id("2").recovered


def test_a_claimed_queue_s_name_ends_with_whom_it_was_claimed_from() -> None:
    assert str(QueueId("p", ("a,1,2",)).claimed_from("b-c,3,4")) == "p-a,1,2-b-c,3,4"


@pytest.mark.parametrize("text", ["", "-", "-a,1,2", "p-", "p-a,1", "p-a,1,2-", "p-a,1,2-b", "p-a,1,x"])
def test_what_is_no_queue_id_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_queue_id(text)
