"""The RPC codec and connection against real RegionServers and masters."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from embedded.client import GLOBAL
from embedded.processes import wait_until
from embedded.wire import Cell, CellType
from tests.cluster.wal_entries import encoded, entry
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.cluster import master as active_master
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import admin, master
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ColumnFamilyNotFound, ConnectionFailed, PeerNotFound, RemoteError, TableNotFound


@pytest.fixture(scope="module")
def region_server(standalone_pair) -> ServerName:
    with connected(standalone_pair.peer_cluster.address.quorum) as zk:
        (server,) = live_servers(zk, ZNodes())
    return server


@pytest.fixture
def sink(region_server) -> Iterator[Connection]:
    with Connection(region_server.host, region_server.port, admin.SERVICE, cell_codec=KEY_VALUE_CODEC_WITH_TAGS) as connection:
        yield connection


@pytest.fixture
def source_master(standalone_pair) -> Iterator[Connection]:
    with connected(standalone_pair.source.address.quorum) as zk, master.connect(active_master(zk, ZNodes())) as connection:
        yield connection


def replicate(sink: Connection, *entries: pb.WALEntry, cells: list[bytes]) -> None:
    request = pb.ReplicateWALEntryRequest(entry=entries)
    sink.call("ReplicateWALEntry", request, pb.ReplicateWALEntryResponse, cells)


def test_cells_arrive_with_timestamps_types_values_and_tags(sink, standalone_pair, java_client, unique):
    table, client = unique("t"), java_client(standalone_pair.peer_cluster.address)
    client.create_table(table, {"f": GLOBAL}, versions=5)
    tag = struct.pack(">HB", 4, 64) + b"abc"
    cells = [
        encoded(b"row1", b"f", b"q", 1000, CellType.PUT, b"one"),
        encoded(b"row1", b"f", b"q", 2000, CellType.PUT, b""),
        encoded(b"row1", b"f", b"q", 1500, CellType.DELETE),
        encoded(b"row2", b"f", b"q", 1000, CellType.PUT, b"v" * 1000, tag),
        encoded(b"row2", b"f", b"", 500, CellType.DELETE_FAMILY),
    ]
    replicate(sink, entry(table, 3), entry(table, 2), cells=cells)
    assert client.scan_all(table, raw=True) == [
        Cell(b"row1", b"f", b"q", 2000, CellType.PUT, b"", b""),
        Cell(b"row1", b"f", b"q", 1500, CellType.DELETE, b"", b""),
        Cell(b"row1", b"f", b"q", 1000, CellType.PUT, b"one", b""),
        Cell(b"row2", b"f", b"", 500, CellType.DELETE_FAMILY, b"", b""),
        Cell(b"row2", b"f", b"q", 1000, CellType.PUT, b"v" * 1000, tag),
    ]


def test_many_megabytes_in_one_request_arrive(sink, standalone_pair, java_client, unique):
    table, client = unique("t"), java_client(standalone_pair.peer_cluster.address)
    client.create_table(table, {"f": GLOBAL})
    cells = [encoded(f"{i:05}".encode(), b"f", b"q", 1, CellType.PUT, bytes([i % 251]) * 20_000) for i in range(1000)]
    replicate(sink, *[entry(table, 10)] * 100, cells=cells)
    assert client.count_rows(table) == 1000


def test_a_missing_table_is_named(sink):
    with pytest.raises(TableNotFound) as caught:
        replicate(sink, entry("nowhere", 1), cells=[encoded(b"r", b"f", b"q", 1, CellType.PUT)])
    assert caught.value.table == "nowhere"
    assert caught.value.do_not_retry


def test_a_missing_table_in_a_missing_namespace_is_named(sink):
    with pytest.raises(TableNotFound) as caught:
        replicate(sink, entry("ns:nowhere", 1), cells=[encoded(b"r", b"f", b"q", 1, CellType.PUT)])
    assert caught.value.table == "ns:nowhere"


def test_a_missing_column_family_is_named(sink, standalone_pair, java_client, unique):
    table = unique("t")
    java_client(standalone_pair.peer_cluster.address).create_table(table, {"f": GLOBAL})
    with pytest.raises(ColumnFamilyNotFound) as caught:
        replicate(sink, entry(table, 1), cells=[encoded(b"r", b"other", b"q", 1, CellType.PUT)])
    assert (caught.value.table, caught.value.family) == (table, "other")
    assert caught.value.do_not_retry


def test_fewer_cells_than_announced_are_a_remote_error_and_the_connection_lives_on(sink, standalone_pair, java_client, unique):
    table = unique("t")
    java_client(standalone_pair.peer_cluster.address).create_table(table, {"f": GLOBAL})
    with pytest.raises(RemoteError, match="Expected=2, index=1") as caught:
        replicate(sink, entry(table, 2), cells=[encoded(b"r", b"f", b"q", 1, CellType.PUT)])
    assert not caught.value.do_not_retry
    replicate(sink, entry(table, 1), cells=[encoded(b"r", b"f", b"q", 1, CellType.PUT)])


def test_a_method_that_the_server_does_not_know_is_not_worth_a_retry(sink):
    with pytest.raises(RemoteError, match="NoSuchMethod") as caught:
        sink.call("NoSuchMethod", b"", pb.RollWALWriterResponse)
    assert caught.value.do_not_retry


def test_a_service_that_the_server_does_not_have_is_a_failed_connection(region_server):
    with Connection(region_server.host, region_server.port, "NoSuchService") as connection, pytest.raises(ConnectionFailed):
        connection.call("RollWALWriter", b"", pb.RollWALWriterResponse)


def test_rolling_begins_a_new_wal(standalone_pair, java_client, managed_peer):
    source = standalone_pair.source.address
    peer = managed_peer(source, standalone_pair.peer_cluster.address)
    with connected(source.quorum) as zk:
        (server,) = live_servers(zk, ZNodes())
        queue = ZNodes().queue(str(server), peer)
        before = zk.get_children(queue)
        admin.roll_wal_writer(server)
        wait_until(lambda: len(zk.get_children(queue)) > len(before), "a new WAL is queued", processes=[], timeout=30)


def test_peers_are_added_read_changed_disabled_enabled_and_removed(source_master, standalone_pair, java_client, unique):
    client, peer_id = java_client(standalone_pair.source.address), unique("peer")
    key = standalone_pair.peer_cluster.address.cluster_key
    config = pb.ReplicationPeer(clusterkey=key, configuration=[pb.NameStringPair(name="some.key", value="some value")])
    config.table_cfs.add(table_name=pb.TableName(namespace=b"default", qualifier=b"t"), families=[b"f"])
    config.replicate_all = False
    master.add_peer(source_master, peer_id, config, enabled=True)
    try:
        (seen,) = [peer for peer in client.list_peers() if peer.id == peer_id]
        assert (seen.enabled, seen.cluster_key, seen.replicate_all) == (True, key, False)
        assert seen.configuration == {"some.key": "some value"}

        read = master.get_peer(source_master, peer_id)
        assert read.table_cfs == config.table_cfs
        read.configuration.add(name="walferry.managed", value="true")
        master.update_peer_config(source_master, peer_id, read)
        client.disable_peer(peer_id)
        (seen,) = [peer for peer in client.list_peers() if peer.id == peer_id]
        assert not seen.enabled
        assert seen.configuration == {"some.key": "some value", "walferry.managed": "true"}
        (listed,) = [peer for peer in master.list_peers(source_master) if peer.id == peer_id]
        assert listed.state.state == pb.ReplicationState.DISABLED
        master.enable_peer(source_master, peer_id)
        (seen,) = [peer for peer in client.list_peers() if peer.id == peer_id]
        assert seen.enabled
    finally:
        master.remove_peer(source_master, peer_id)
    with pytest.raises(PeerNotFound):
        master.get_peer(source_master, peer_id)


def test_the_masters_refusal_says_why(source_master, standalone_pair):
    itself = pb.ReplicationPeer(clusterkey=standalone_pair.source.address.cluster_key)
    with pytest.raises(RemoteError, match="should not replicate to itself"):
        master.add_peer(source_master, "loop", itself, enabled=False)
