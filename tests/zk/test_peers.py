"""Reading peers from a real ZooKeeper."""

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.hbase.errors import MissingPeer, StorageError
from walferry.hbase.peers import read_peer, read_peers
from walferry.protos import hbase_pb2 as pb
from walferry.queues.dead_servers import find_dead, recovered_queues


def test_a_peer_s_configuration_is_read(zk: KazooClient, hbase: HBaseZNodes) -> None:
    tables = [
        pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"t"), families=[b"f", b"g"]),
        pb.TableCF(table_name=pb.TableName(namespace=b"ns", qualifier=b"u")),
    ]
    endpoint = "org.example.E"
    hbase.add_peer(
        "full", table_cfs=tables, namespaces=[b"ns2"], serial=True, replicationEndpointImpl=endpoint, replicate_all=False
    )
    peer = read_peer(zk, hbase.nodes, "full")
    assert peer.managed
    assert peer.state == "DISABLED"
    assert peer.slave.connect_string == "127.0.0.1:2181"
    assert peer.table_cfs == {"t": ("f", "g"), "ns:u": ()}
    assert peer.namespaces == {"ns2"}
    assert (peer.serial, peer.replicate_all, peer.endpoint_impl) == (True, False, endpoint)


def test_a_plain_peer_replicates_all_and_is_not_managed(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("plain", "ENABLED", config={})
    peer = read_peer(zk, hbase.nodes, "plain")
    assert (peer.managed, peer.state, peer.replicate_all, peer.table_cfs) == (False, "ENABLED", True, None)


def test_a_peer_of_an_old_release_that_names_tables_is_for_these_only(zk: KazooClient, hbase: HBaseZNodes) -> None:
    table = pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
    hbase.add_peer("old", replicate_all=None, table_cfs=[table])
    hbase.add_peer("old2", replicate_all=None)
    assert not read_peer(zk, hbase.nodes, "old").replicate_all
    assert read_peer(zk, hbase.nodes, "old2").replicate_all


def test_one_broken_peer_does_not_hide_the_others(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("broken")
    hbase.zk.set(hbase.nodes.peer("broken"), b"PBUF\xff")
    listing = read_peers(zk, hbase.nodes)
    assert [peer.id for peer in listing.peers] == ["p"]
    assert hbase.nodes.peer("broken") in str(listing.problems[0])


def test_a_missing_peer_is_named_with_those_that_are_there(zk: KazooClient, hbase: HBaseZNodes) -> None:
    with pytest.raises(MissingPeer, match=r"peer nobody: .*Peers here: p$"):
        read_peer(zk, hbase.nodes, "nobody")


@pytest.mark.parametrize("peer_id", ["p/", "/p", "p/peer-state", "../peers/p", "..", "", "p\0"])
def test_an_id_that_leads_elsewhere_is_of_no_peer(zk: KazooClient, hbase: HBaseZNodes, peer_id: str) -> None:
    with pytest.raises(MissingPeer, match=r"Peers here: p$"):
        read_peer(zk, hbase.nodes, peer_id)


def test_queues_without_a_znode_for_peers_are_nobody_s_orphans(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """HBase with peers in the file system: none of them is gone, so none of their queues may be taken for an orphan."""
    hbase.zk.delete(hbase.nodes.peers, recursive=True)
    assert read_peers(zk, hbase.nodes).peers == ()
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD))
    with pytest.raises(StorageError, match=r"peer\.storage\.impl=filesystem"):
        read_peers(zk, hbase.nodes)
    for look in (recovered_queues, find_dead):
        with pytest.raises(StorageError, match=r"peer\.storage\.impl=filesystem"):
            look(session_of(zk, hbase))


def test_no_peers_at_all_is_no_error(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    assert read_peers(zk, hbase.nodes).peers == ()
