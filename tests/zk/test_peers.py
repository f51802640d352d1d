"""Reading peers from a real ZooKeeper."""

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, LAYOUTS, SERVER, HBaseZNodes, prefixed, wal
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.errors import MissingPeer, PeerNotUnderstood, StorageError
from walferry.hbase.layout import OwnZNodes, QueueLayout, ZNodes
from walferry.hbase.values import PBUF
from walferry.observe.status.view import view
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import Peer, check_shippable
from walferry.replication.queues.dead_servers import find_dead, recovered_queues, shippable_peers
from walferry.replication.source.peers import read_peer, read_peers


def test_a_peer_s_configuration_is_read(zk: KazooClient, hbase: HBaseZNodes) -> None:
    tables = [
        pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"t"), families=[b"f", b"g"]),
        pb.TableCF(table_name=pb.TableName(namespace=b"ns", qualifier=b"u")),
    ]
    endpoint = "org.example.E"
    hbase.add_peer(
        "full", table_cfs=tables, namespaces=[b"ns2"], serial=True, replicationEndpointImpl=endpoint, replicate_all=False
    )
    peer = read_peer(session_of(zk, hbase), "full")
    assert peer.managed
    assert peer.state == "DISABLED"
    assert peer.peer_cluster.connect_string == "127.0.0.1:2181"
    assert peer.table_cfs == {"t": ("f", "g"), "ns:u": ()}
    assert peer.namespaces == {"ns2"}
    assert (peer.serial, peer.replicate_all, peer.endpoint_impl) == (True, False, endpoint)


def test_a_plain_peer_replicates_all_and_is_not_managed(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("plain", "ENABLED", config={})
    peer = read_peer(session_of(zk, hbase), "plain")
    assert (peer.managed, peer.state, peer.replicate_all, peer.table_cfs) == (False, "ENABLED", True, None)


def test_a_peer_of_an_old_release_that_names_tables_is_for_these_only(zk: KazooClient, hbase: HBaseZNodes) -> None:
    table = pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
    hbase.add_peer("old", replicate_all=None, table_cfs=[table])
    hbase.add_peer("old2", replicate_all=None)
    assert not read_peer(session_of(zk, hbase), "old").replicate_all
    assert read_peer(session_of(zk, hbase), "old2").replicate_all


def _wants(peer: Peer) -> list[str]:
    tables = PeerTables.of_peer(peer)
    asked = [("orders", "cf"), ("orders", "private"), ("salaries", "cf")]
    return [f"{table}:{family}" for table, family in asked if tables.wants(table.encode(), family.encode())]


def test_a_peer_of_hbase_1_3_is_for_the_tables_in_its_own_znode(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """`add_peer '1', KEY, 'orders:cf'` of 0.98 to 1.3; without tables the znode is empty."""
    for peer_id, text in (("1", b"orders:cf"), ("2", prefixed(b"orders:cf")), ("3", b"")):
        hbase.add_peer(peer_id, replicate_all=None)
        hbase.zk.create(f"{hbase.nodes.peer(peer_id)}/tableCFs", text)
    found = {peer.id: _wants(peer) for peer in read_peers(session_of(zk, hbase)).peers}
    everything = ["orders:cf", "orders:private", "salaries:cf"]
    assert found == {"1": ["orders:cf"], "2": ["orders:cf"], "3": everything, "p": everything}
    assert found == {id: _wants(peer) for id, peer in (view(session_of(zk, hbase)).peers or {}).items() if peer}


def test_newer_releases_go_by_the_message_not_by_the_old_znode(zk: KazooClient, hbase: HBaseZNodes) -> None:
    table = pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=b"orders"))
    hbase.add_peer("1.4", replicate_all=None, table_cfs=[table])
    hbase.add_peer("2.x", replicate_all=True)
    for peer_id in ("1.4", "2.x"):
        hbase.zk.create(f"{hbase.nodes.peer(peer_id)}/tableCFs", b"salaries:cf")
    assert _wants(read_peer(session_of(zk, hbase), "1.4")) == ["orders:cf", "orders:private"]
    assert len(_wants(read_peer(session_of(zk, hbase), "2.x"))) == 3


def test_a_table_list_that_two_releases_read_in_two_ways_stops_its_peer(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """HBase 1.4 copies the old znode when its Master starts. Tables removed later come back when it starts again."""
    hbase.add_peer("1", replicate_all=None)
    hbase.zk.create(f"{hbase.nodes.peer('1')}/tableCFs", b"orders:cf")
    version = pb.RegionServerInfo(
        version_info=pb.VersionInfo(version="1.4.14", url="", revision="", user="", date="", src_checksum="")
    )
    hbase.zk.set(f"{hbase.nodes.rs}/{SERVER}", PBUF + version.SerializeToString())
    with pytest.raises(PeerNotUnderstood, match=r"peers/1/tableCFs.*1\.4\.14"):
        check_shippable(read_peer(session_of(zk, hbase), "1"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("what", ["a table list", "a znode", "a field", "a field of a table", "a field of the state"])
def test_what_a_peer_says_and_walferry_does_not_know_stops_this_peer_alone(
    zk: KazooClient, hbase: HBaseZNodes, layout: QueueLayout, what: str
) -> None:
    nodes = ZNodes(hbase.nodes.base, layout)
    hbase.add_peer("odd", replicate_all=None)
    path, field_100 = nodes.peer("odd"), b"\xa2\x06\x01x"
    said = {
        "a table list": lambda: zk.create(f"{path}/tableCFs", b"t1;ns:t2:f"),
        "a znode": lambda: zk.create(f"{path}/new-state", b""),
        "a field": lambda: zk.set(path, zk.get(path)[0] + field_100),
        "a field of a table": lambda: zk.set(path, zk.get(path)[0] + b"\x2a" + bytes([len(field_100)]) + field_100),
        "a field of the state": lambda: zk.set(nodes.peer_state("odd"), PBUF + b"\x08\x01" + field_100),
    }
    named = {"a table list": "ns:t2:f", "a znode": "new-state"}.get(what, "field 100")
    said[what]()
    with pytest.raises(PeerNotUnderstood, match=named):
        check_shippable(read_peer(session_of(zk, hbase), "odd"))
    assert {peer.id for peer in read_peers(session_of(zk, hbase)).peers} == {"odd", "p"}
    assert shippable_peers(session_of(zk, OwnZNodes(hbase.root, nodes))) == {"p"}


@pytest.mark.parametrize(
    ("written", "bandwidth"), [(b"\x30\x00", 0), (b"\x30\x80\x08", 1024), (b"\x30" + b"\xff" * 9 + b"\x01", 0)]
)
def test_hbase_1_has_the_bandwidth_in_the_field_of_the_namespaces(
    zk: KazooClient, hbase: HBaseZNodes, written: bytes, bandwidth: int
) -> None:
    """HBase 1.4 and later always write it. HBase 2 uses another field."""
    hbase.add_peer("1", replicate_all=None)
    path = hbase.nodes.peer("1")
    zk.set(path, zk.get(path)[0] + written)
    peer = read_peer(session_of(zk, hbase), "1")
    check_shippable(peer)
    assert (peer.bandwidth, peer.namespaces, peer.replicate_all) == (bandwidth, frozenset(), True)


def test_one_broken_peer_does_not_hide_the_others(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("broken")
    hbase.zk.set(hbase.nodes.peer("broken"), b"PBUF\xff")
    listing = read_peers(session_of(zk, hbase))
    assert [peer.id for peer in listing.peers] == ["p"]
    assert hbase.nodes.peer("broken") in str(listing.problems[0])


def test_a_missing_peer_is_named_with_those_that_are_there(zk: KazooClient, hbase: HBaseZNodes) -> None:
    with pytest.raises(MissingPeer, match=r"peer nobody: .*Peers here: p$"):
        read_peer(session_of(zk, hbase), "nobody")


@pytest.mark.parametrize("peer_id", ["p/", "/p", "p/peer-state", "../peers/p", "..", "", "p\0"])
def test_an_id_that_leads_elsewhere_is_of_no_peer(zk: KazooClient, hbase: HBaseZNodes, peer_id: str) -> None:
    with pytest.raises(MissingPeer, match=r"Peers here: p$"):
        read_peer(session_of(zk, hbase), peer_id)


def test_queues_without_a_znode_for_peers_are_nobody_s_orphans(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """HBase keeps its peers in the file system: no peer is gone, so no queue may count as an orphan."""
    hbase.zk.delete(hbase.nodes.peers, recursive=True)
    assert read_peers(session_of(zk, hbase)).peers == ()
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD))
    with pytest.raises(StorageError, match=r"peer\.storage\.impl=filesystem"):
        read_peers(session_of(zk, hbase))
    for look in (recovered_queues, find_dead):
        with pytest.raises(StorageError, match=r"peer\.storage\.impl=filesystem"):
            look(session_of(zk, hbase))


def test_no_peers_at_all_is_no_error(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    assert read_peers(session_of(zk, hbase)).peers == ()
