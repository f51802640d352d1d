"""Other releases of HBase 2, as the source and as the peer cluster of an HBase 2.6.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.jars import OTHER_RELEASES
from embedded.standalone import StandaloneCluster
from embedded.wire import delete_row, put
from tests.cluster.decoding import compare_with_reader, copies_of_closed_wals
from tests.cluster.walferry_runs import roll, ship_one, source_of
from walferry.admin.diagnosis.source import TESTED, check
from walferry.base.findings import Severity
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind

COMPRESSION = {"hbase.regionserver.wal.enablecompression": "true"}
ROWS = 1_000
QUICK = tuple(f"{jars.title}-as the source-direct" for jars in OTHER_RELEASES)  # one case a release


@pytest.fixture(scope="module", params=[jars.title for jars in OTHER_RELEASES])
def other(request: pytest.FixtureRequest, cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """A cluster of the other release, whose WALs are compressed."""
    (jars,) = [jars for jars in OTHER_RELEASES if jars.title == request.param]
    with StandaloneCluster(cluster_folder / jars.name, COMPRESSION, name=jars.name, jars=jars) as cluster:
        yield cluster


def written(source: JavaClient, peer_cluster: JavaClient, name: str) -> None:
    for client in (source, peer_cluster):
        client.create_table(name, {"f": GLOBAL, "l": LOCAL}, splits=[b"row5"])
    source.put_many(name, ROWS, ["f:a", "l:b"], value_bytes=100)
    source.write(name, [put("row7", {"f:q": b"later"}), delete_row("row8"), put("ttl", {"f:q": b"v"}, ttl_ms=86_400_000)])


@pytest.fixture(params=["as the source", "as the peer cluster"])
def sides(
    request: pytest.FixtureRequest, other: StandaloneCluster, standalone_pair, java_client: Callable[[ClusterAddress], JavaClient]
) -> tuple[JavaClient, JavaClient]:
    mine = java_client(other.address)
    if request.param == "as the source":
        return mine, java_client(standalone_pair.peer_cluster.address)
    return java_client(standalone_pair.source.address), mine


@pytest.mark.capability("releases", cases=QUICK)
@pytest.mark.parametrize("sink", [kind for kind in SinkKind if kind is not SinkKind.AUTO])
@pytest.mark.timeout(600)
def test_edits_are_shipped(
    sides: tuple[JavaClient, JavaClient], sink: SinkKind, unique: Callable[[str], str], managed_peer: Callable[..., str]
) -> None:
    source, peer_cluster = sides
    peer, table = managed_peer(source.address, peer_cluster.address), unique("t")
    written(source, peer_cluster, table)
    summary = ship_one(source_of(source.address, sink), peer)
    assert summary.status is Status.DONE, summary.error
    compared = source.compare(table, peer_cluster, families=["f"])
    assert compared.same, compared.examples
    assert compared.left > ROWS


def test_its_wals_are_read_as_hbase_reads_them(
    other: StandaloneCluster, standalone_pair, java_client, unique: Callable[[str], str], managed_peer, tmp_path: Path
) -> None:
    client = java_client(other.address)
    peer = managed_peer(other.address, standalone_pair.peer_cluster.address)
    table = unique("t")
    client.create_table(table, {"f": GLOBAL})
    client.put_many(table, ROWS, ["f:a", "f:b"], value_bytes=100)
    roll(source_of(other.address), peer)
    wals = copies_of_closed_wals(Path(other.address.wal_root.removeprefix("file://")), tmp_path / "wals")
    assert compare_with_reader(client, wals) > 2 * ROWS


def test_a_check_names_the_release_and_says_that_it_is_tested(other: StandaloneCluster) -> None:
    (servers,) = [finding for finding in check(source_of(other.address), []) if finding.kind == "RegionServers"]
    assert servers.severity is Severity.WELL
    assert any(f"HBase {release}" in servers.text for release in TESTED)
    assert other.name.removeprefix("hbase-") in servers.text
