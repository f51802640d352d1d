"""Reads queues and finds WALs in a real ZooKeeper."""

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from tests.zk.test_agreement import be_of
from walferry.hbase.errors import NoPeerYet, PositionError, StorageError
from walferry.hbase.layout import ZNodes
from walferry.replication.queues.finding import find_wal
from walferry.replication.queues.queue import groups
from walferry.replication.queues.reading import read_queues


def test_a_peer_s_queues_are_read_with_their_positions(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("q")
    hbase.add_wal(SERVER, "p", wal(1), position=300)
    hbase.add_wal(SERVER, "p", wal(2))
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD))
    hbase.add_wal(DEAD, "p", wal(2, DEAD))
    hbase.add_wal(SERVER, "q", wal(1))
    found = {(queue.server, str(queue.id)): queue for queue in read_queues(session_of(zk, hbase), "p")}
    assert found.keys() == {(SERVER, "p"), (SERVER, f"p-{DEAD}"), (DEAD, "p")}
    normal = found[SERVER, "p"]
    assert [(queued.name.text, queued.position) for queued in normal.wals] == [(wal(1), 300), (wal(2), 0)]
    assert normal.wals[0].path == hbase.nodes.wal(SERVER, "p", wal(1))
    assert {key: queue.live for key, queue in found.items()} == {
        (SERVER, "p"): True,
        (SERVER, f"p-{DEAD}"): False,
        (DEAD, "p"): False,
    }


def test_wals_are_in_the_order_of_their_time_not_of_their_names(zk: KazooClient, hbase: HBaseZNodes) -> None:
    group = wal(0).rpartition(".")[0]
    for timestamp in (10, 9, 100):
        hbase.add_wal(SERVER, "p", wal(timestamp))
        hbase.add_wal(SERVER, "p", wal(timestamp, provider=f".{group}.regiongroup-0"))
    (queue,) = read_queues(session_of(zk, hbase), "p")
    by_group = groups(queue)
    assert by_group.keys() == {group, f"{group}.{group}.regiongroup-0"}
    assert all([queued.name.timestamp for queued in wals] == [9, 10, 100] for wals in by_group.values())


def test_an_unparsable_position_stops_its_own_wal_only(zk: KazooClient, hbase: HBaseZNodes) -> None:
    bad = hbase.add_wal(SERVER, "p", wal(1))
    hbase.zk.set(bad, b"nonsense!")
    hbase.add_wal(SERVER, "p", wal(2), position=100)
    first, second = read_queues(session_of(zk, hbase), "p")[0].wals
    with pytest.raises(PositionError, match=bad):
        _ = first.position
    assert second.position == 100


def test_what_is_no_wal_is_named_and_left_out(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    hbase.zk.create(f"{hbase.nodes.queue(SERVER, 'p')}/lock")
    hbase.zk.create(hbase.nodes.queue(SERVER, "-no-peer"))
    (queue,) = read_queues(session_of(zk, hbase), "p")
    assert [queued.name.text for queued in queue.wals] == [wal(1)]
    assert "lock" in queue.problems[0]


def test_a_queue_with_more_wals_than_one_batch_of_requests_is_read_whole(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.base.zk.client.PIPELINED_READS", 7)
    for timestamp in range(50):
        hbase.add_wal(SERVER, "p", wal(timestamp), position=timestamp)
    (queue,) = read_queues(session_of(zk, hbase), "p")
    assert [queued.position for queued in queue.wals] == list(range(50))


def test_a_wal_in_no_queue_of_the_peer_is_not_found(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("q")
    hbase.add_wal(SERVER, "q", wal(1))
    assert find_wal(session_of(zk, hbase), "p", wal(1)) is None


def test_a_cluster_without_queues_in_zookeeper_is_refused(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.delete(hbase.nodes.queues)
    with pytest.raises(StorageError, match=r"HBase 3 .* or has never had a peer.*add the first peer by `walferry peers create`"):
        read_queues(session_of(zk, hbase), "p")


def test_a_cluster_that_is_known_to_be_an_hbase_3_is_named_as_one(zk: KazooClient, hbase: HBaseZNodes) -> None:
    be_of(hbase, "3.0.0")
    hbase.zk.delete(hbase.nodes.queues)
    with pytest.raises(StorageError, match=r"the cluster runs HBase 3\.0\.0, which keeps .* in table hbase:replication"):
        read_queues(session_of(zk, hbase), "p")


def test_a_cluster_that_has_never_had_a_peer_is_not_taken_for_an_hbase_3(zk: KazooClient, hbase: HBaseZNodes) -> None:
    be_of(hbase, "2.6.1")
    hbase.zk.delete(hbase.nodes.queues)
    hbase.zk.delete(hbase.nodes.peers, recursive=True)
    with pytest.raises(NoPeerYet, match=r"HBase 2\.6\.1, has never had a peer. Add the first one by `walferry peers create`"):
        read_queues(session_of(zk, hbase), "p")


def test_queues_that_are_elsewhere_are_not_taken_for_none_yet(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """HBase 1 makes the znode when it starts, and HBase 2 with the first peer."""
    hbase.zk.delete(hbase.nodes.queues)
    assert hbase.children(hbase.nodes.peers) == ["p"]
    be_of(hbase, "2.6.1")
    with pytest.raises(StorageError, match="keeps its replication queues elsewhere") as of_two:
        read_queues(session_of(zk, hbase), "p")
    be_of(hbase, "1.7.2")
    hbase.zk.delete(hbase.nodes.peers, recursive=True)
    with pytest.raises(StorageError, match="keeps its replication queues elsewhere") as of_one:
        read_queues(session_of(zk, hbase), "p")
    assert not isinstance(of_one.value, NoPeerYet)
    assert not isinstance(of_two.value, NoPeerYet)


def test_a_wrong_parent_is_not_taken_for_an_hbase_3(zk: KazooClient) -> None:
    with pytest.raises(Exception, match="znode_parent"):
        read_queues(session_of(zk, ZNodes("/nowhere")), "p")
