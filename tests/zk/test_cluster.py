"""Reads a cluster's own description from a real ZooKeeper."""

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import LAYOUTS, OTHER, SERVER, HBaseZNodes, prefixed, wal
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.cluster import cluster_id, live_servers, master
from walferry.hbase.errors import ClusterError, StorageError
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.hbase.names import ServerName
from walferry.replication.queues.reading import every_queue


def test_live_servers_are_the_children_of_rs(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.start_server(OTHER)
    assert {str(server) for server in live_servers(zk, hbase.nodes)} == {SERVER, OTHER}
    hbase.stop_server(SERVER)
    hbase.stop_server(OTHER)
    assert live_servers(zk, hbase.nodes) == frozenset()


def test_a_child_that_is_no_server_is_an_error(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.start_server("nonsense")
    with pytest.raises(ZNodeValueError, match="nonsense"):
        live_servers(zk, hbase.nodes)


def test_the_master_is_read_and_its_absence_named(zk: KazooClient, hbase: HBaseZNodes) -> None:
    with pytest.raises(ClusterError, match="no master is active"):
        master(zk, hbase.nodes)
    message = pb.Master(master=pb.ServerName(host_name="m-1", port=16000, start_code=17))
    hbase.zk.create(hbase.nodes.master, prefixed(b"PBUF" + message.SerializeToString()))
    assert master(zk, hbase.nodes) == ServerName("m-1", 16000, 17)


def test_a_wrong_parent_is_named_with_the_ensemble(zk: KazooClient) -> None:
    for ask in (cluster_id, live_servers):
        with pytest.raises(ClusterError, match=r"/nowhere/.* is not there on 127.0.0.1:\d+: .*znode_parent"):
            ask(zk, ZNodes("/nowhere"))


def test_the_cluster_id_is_read(zk: KazooClient, hbase: HBaseZNodes) -> None:
    assert str(cluster_id(zk, hbase.nodes)) in hbase.zk.get(hbase.nodes.hbaseid)[0].decode("latin-1")


def as_it_lies(zk: KazooClient, nodes: ZNodes) -> None:
    """Make a queue in the layout of `nodes`, and a queue that is being claimed if the layout has locks."""
    zk.ensure_path(nodes.wal(SERVER, "p", wal(1)))
    if nodes.locked:
        zk.create(nodes.lock(SERVER))


@pytest.mark.parametrize("actual", LAYOUTS)
@pytest.mark.parametrize("reported", LAYOUTS)
def test_queues_that_lie_in_another_layout_than_was_told_are_refused(
    zk: KazooClient, hbase: HBaseZNodes, actual: QueueLayout, reported: QueueLayout
) -> None:
    as_it_lies(hbase.zk, ZNodes(hbase.nodes.base, actual))
    nodes = ZNodes(hbase.nodes.base, reported)
    # Without its locks a classic cluster looks like one of 2.x; what is told is believed then.
    if actual is reported or (actual, reported) == (QueueLayout.HBASE2, QueueLayout.CLASSIC):
        assert [queue[1].peer_id for queue in every_queue(session_of(zk, nodes))] == ["p"]
        return
    with pytest.raises(StorageError, match="set queue_layout in the connection's extra to") as refused:
        list(every_queue(session_of(zk, nodes)))
    assert str(actual) in str(refused.value).partition("extra to")[2].partition(";")[0]


@pytest.mark.parametrize("name", ["lock", "peers"])
def test_a_peer_may_have_the_name_of_a_lock_or_a_level(zk: KazooClient, hbase: HBaseZNodes, name: str) -> None:
    hbase.add_peer(name)
    hbase.add_wal(SERVER, name, wal(1))
    assert [queue[1].peer_id for queue in every_queue(session_of(zk, hbase))] == [name]
