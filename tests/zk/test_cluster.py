"""What a cluster says of itself, read from a real ZooKeeper."""

import pytest
from kazoo.client import KazooClient

from tests.zk.hbase_znodes import OTHER, SERVER, HBaseZNodes, prefixed
from walferry.protos import hbase_pb2 as pb
from walferry.wal.names import ServerName
from walferry.zk.cluster import cluster_id, live_servers, master
from walferry.zk.errors import ClusterError, ZNodeValueError
from walferry.zk.layout import ZNodes


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
