"""The largest cell that a request may contain arrives at a real peer cluster. A larger one gives an error that says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, ClientJvm, JavaClient
from embedded.standalone import StandaloneCluster
from tests.cluster.dead_queues import DeadQueue
from tests.cluster.walferry_runs import BOTH_SINKS, ship, sink_of
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_wal, entry
from walferry.engine.summary import Status

BIG = 100 << 20


@pytest.fixture
def roomy(cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, JavaClient]]:
    """A peer cluster that takes cells of any size: HBase's own limit is 10 MB."""
    conf = {"hbase.server.keyvalue.maxsize": "0", "hbase.client.keyvalue.maxsize": "0"}
    folder = cluster_folder / "roomy"
    with StandaloneCluster(folder, conf, heap="2g", name="roomy") as cluster, ClientJvm(folder / "client", heap="2g") as jvm:
        yield cluster, jvm.client(cluster.address)


@pytest.mark.timeout(600)
def test_a_cell_of_a_hundred_megabytes_arrives_and_one_beyond_a_request_s_limit_is_named(sides, roomy, unique) -> None:
    cluster, peer_cluster = roomy
    table, peer = unique("t"), unique("peer")
    peer_cluster.create_table(table, {"f": GLOBAL})
    sides.source.add_managed_peer(peer, cluster.address.cluster_key)

    def wal(*sizes: int) -> bytes:
        entries = [
            entry(Cell(b"row%d" % i, b"f", b"q", 1, PUT, bytes(size)), table=table.encode(), sequence_id=i + 1)
            for i, size in enumerate(sizes)
        ]
        for made in entries:
            made.key.scopes.add(family=b"f", scope_type=1)
        return encode_wal(entries)

    try:
        fits, beyond = (DeadQueue(sides.at, sides.source, peer) for _ in range(2))
        fits.add(wal(10, BIG, 10))
        too_big = beyond.add(wal(10, 250 << 20, 10))
        one, other = ship(sides.at, peer, roll_first=False, groups=[fits.group, beyond.group], deadline=300)
        assert (one.status, one.shippedCells) == (Status.DONE, 3), one.error
        assert one.shippedBytes > BIG
        assert other.status is Status.FAILED
        assert "over the 255,013,683" in other.error
        assert "nothing was sent" in other.error
        assert list(beyond.positions()) == [too_big.name]
        assert peer_cluster.count_rows(table) == 3
    finally:
        sides.source.remove_peer(peer)


@BOTH_SINKS
def test_a_cell_over_the_peer_cluster_s_limit_stops_its_group_alone_and_changes_no_sink(sides, both, peer) -> None:
    """The source's limit was raised (hbase.server.keyvalue.maxsize); the peer cluster has HBase's own of 10 MB."""
    table = both({"f": GLOBAL})
    queues = [DeadQueue(sides.at, sides.source, peer) for _ in range(2)]
    for queue, size in zip(queues, (12 << 20, 9 << 20), strict=True):
        entries = [
            entry(Cell(b"row%d" % i, b"f", b"q", i + 1, PUT, bytes(each)), table=table.encode(), sequence_id=i + 1)
            for i, each in enumerate((10, size, 10))
        ]
        for made in entries:
            made.key.scopes.add(family=b"f", scope_type=1)
        queue.add(encode_wal(entries))
    refused, other = ship(sides.at, peer, roll_first=False, groups=[queue.group for queue in queues], deadline=150)
    assert (other.status, other.shippedCells) == (Status.DONE, 3), other.error
    assert refused.status is Status.FAILED
    assert (refused.sink, refused.directRefused) == (sink_of(sides.at), None)
    assert f"a cell of table {table}, row row1, has 12,582,942 bytes, more than " in refused.error
    assert "hbase.server.keyvalue.maxsize" in refused.error
