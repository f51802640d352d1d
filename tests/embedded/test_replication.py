"""HBase's own replication runs between the pair of clusters, and a disabled peer's WALs queue up."""

from __future__ import annotations

import time

import pytest
from kazoo.client import KazooClient

from embedded import wire
from embedded.client import GLOBAL, LOCAL

WAIT_SECONDS = 60


def eventually(done) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.fixture
def tables(standalone_pair, java_client, unique):
    source, peer_cluster = (java_client(cluster.address) for cluster in standalone_pair)
    name = unique("t")
    for client in (source, peer_cluster):
        client.create_table(name, {"g": GLOBAL, "l": LOCAL})
    return source, peer_cluster, name


def test_hbase_replicates_to_an_enabled_peer(standalone_pair, tables, unique):
    source, peer_cluster, name = tables
    peer = unique("peer")
    source.add_peer(peer, standalone_pair.peer_cluster.address.cluster_key)
    try:
        source.write(name, [wire.put(f"r{i:04}", {"g:a": b"v", "l:b": b"w"}) for i in range(1000)])

        assert eventually(lambda: peer_cluster.count_rows(name) == 1000)
        assert source.compare(name, peer_cluster, families=["g"]).same
        assert peer_cluster.scan_all(name, ["l"]) == []
        counters = source.verify_replication(name, peer, ["g"])
        assert counters["GOODROWS"] == 1000
        assert counters.get("BADROWS", 0) == 0
    finally:
        source.remove_peer(peer)


def test_verify_replication_tells_a_missing_row(standalone_pair, tables):
    source, peer_cluster, name = tables
    edits = [wire.put(f"r{i}", {"g:a": b"v"}, timestamp=1) for i in range(3)]
    source.write(name, edits)
    peer_cluster.write(name, edits[:2])

    counters = source.verify_replication(name, standalone_pair.peer_cluster.address.cluster_key)

    assert counters["GOODROWS"] == 2
    assert counters["BADROWS"] == 1


def test_a_managed_peer_queues_wals_and_ships_nothing(standalone_pair, tables, managed_peer):
    source, peer_cluster, name = tables
    peer = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    zk = KazooClient(hosts=standalone_pair.source.address.quorum)
    zk.start(timeout=WAIT_SECONDS)
    try:
        source.write(name, [wire.put("r", {"g:a": b"v"})])
        source.roll_wals()

        (server,) = source.region_servers()
        assert eventually(lambda: len(zk.get_children(f"/hbase/replication/rs/{server}/{peer}")) >= 2)
        assert peer_cluster.count_rows(name) == 0
        (described,) = [p for p in source.list_peers() if p.id == peer]
        assert not described.enabled
        assert described.configuration["walferry.managed"] == "true"
    finally:
        zk.stop()
        zk.close()
