"""Fixtures for tests of replication between standalone clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.distributed import DistributedCluster
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from tests.cluster.members import SPLITS, Edge, Member
from tests.cluster.proxy import ProxiedPeerCluster, proxied_peer_cluster, through_proxy_only
from tests.cluster.walferry_runs import source_of
from tests.conftest import side_by_side
from walferry.base.zk.client import connected
from walferry.hbase.cluster import cluster_id
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.source.cluster import SourceCluster


@dataclass(frozen=True)
class Sides:
    """The pair of clusters, each as itself and through the Java client, and the source as Walferry sees it."""

    source_cluster: StandaloneCluster
    peer_hbase: StandaloneCluster
    source: JavaClient
    peer_cluster: JavaClient
    at: SourceCluster


@pytest.fixture
def sink(request: pytest.FixtureRequest) -> SinkKind:
    """How edits are sent: as a mark such as BOTH_SINKS says, or by default."""
    kind: SinkKind = getattr(request, "param", PeerSettings.sink)
    return kind


@pytest.fixture
def sides(standalone_pair, java_client, sink: SinkKind) -> Sides:
    source, peer_cluster = standalone_pair
    return Sides(
        source, peer_cluster, java_client(source.address), java_client(peer_cluster.address), source_of(source.address, sink)
    )


@dataclass(frozen=True)
class ManyServers:
    """A pair of clusters of several RegionServers each on HDFS, and the source as Walferry sees it."""

    source_cluster: DistributedCluster
    peer_hbase: DistributedCluster
    source: JavaClient
    peer_cluster: JavaClient
    at: SourceCluster


@pytest.fixture
def many_servers(distributed_pair, java_client, sink: SinkKind) -> Iterator[ManyServers]:
    """The peer cluster has three RegionServers during the test, and its usual number after it."""
    source, peer_cluster = distributed_pair
    peer_cluster.start_regionserver()
    yield ManyServers(
        source, peer_cluster, java_client(source.address), java_client(peer_cluster.address), source_of(source.address, sink)
    )
    while len(peer_cluster.regionservers) > peer_cluster.options.regionservers:
        peer_cluster.stop_regionserver()
    peer_cluster.start_all_regionservers()


@pytest.fixture
def both(sides: Sides, unique: Callable[[str], str]) -> Callable[..., str]:
    """`both({"f": GLOBAL})` → name of a new table on both sides. By default it has a GLOBAL family f and a LOCAL family l."""

    def create(scopes: Mapping[str, int] | None = None, **options: object) -> str:
        name = unique("t")
        for client in (sides.source, sides.peer_cluster):
            client.create_table(name, scopes or {"f": GLOBAL, "l": LOCAL}, **options)  # type: ignore[arg-type]
        return name

    return create


@pytest.fixture
def peer(sides: Sides, managed_peer: Callable[[ClusterAddress, ClusterAddress], str]) -> str:
    """A managed peer from the source to the peer cluster."""
    return managed_peer(sides.source_cluster.address, sides.peer_hbase.address)


@pytest.fixture
def proxied(sides: Sides, sink: SinkKind) -> Iterator[ProxiedPeerCluster]:
    """The peer cluster behind proxies."""
    with proxied_peer_cluster(sides.peer_hbase.address) as peer_cluster, ExitStack() as ended:
        if sink is SinkKind.DIRECT:
            ended.enter_context(through_proxy_only(peer_cluster))
        yield peer_cluster


@pytest.fixture
def proxied_peer(sides: Sides, proxied: ProxiedPeerCluster, unique: Callable[[str], str]) -> Iterator[str]:
    """A managed peer from the source to the peer cluster, through the proxies."""
    peer_id = unique("peer")
    sides.source.roll_wals()
    sides.source.add_managed_peer(peer_id, proxied.cluster_key)
    yield peer_id
    for proxy in (proxied.zookeeper, proxied.sink):
        proxy.let_go()  # otherwise HBase waits long for the peer cluster before it ends the peer
    sides.source.remove_peer(peer_id)


@pytest.fixture(scope="session")
def more_clusters(cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    """Two clusters in addition to the standalone pair; the first has two RegionServers."""
    folder = cluster_folder / "topologies"
    clusters = (
        StandaloneCluster(folder / "two-servers", {"hbase.regionservers": "2"}, name="two-servers"),
        StandaloneCluster(folder / "fourth", name="fourth"),
    )
    with side_by_side(clusters):
        yield clusters


@pytest.fixture
def members(more_clusters, standalone_pair, java_client: Callable[[ClusterAddress], JavaClient], sink: SinkKind) -> list[Member]:
    """Four clusters; the first has two RegionServers."""
    found = []
    for cluster in (more_clusters[0], *standalone_pair, more_clusters[1]):
        at = source_of(cluster.address, sink)
        with connected(at.quorum) as zk:
            found.append(Member(cluster, java_client(cluster.address), at, cluster_id(zk, at.nodes)))
    return found


@pytest.fixture
def create_table(unique: Callable[[str], str]) -> Callable[[Iterable[Member]], str]:
    """Makes a table with four regions on all given clusters. On the cluster with two RegionServers, both have some."""

    def create(members: Iterable[Member]) -> str:
        name = unique("t")
        for member in members:
            member.client.create_table(name, {"f": GLOBAL, "g": GLOBAL, "l": LOCAL}, SPLITS, versions=10_000)
            hosts = {region.server for region in member.client.regions(name)}
            assert hosts == set(member.client.region_servers()), "the regions lie on all servers"
        return name

    return create


@pytest.fixture
def lead(managed_peer: Callable[[ClusterAddress, ClusterAddress], str]) -> Callable[[Member, Member], Edge]:
    def make(source: Member, peer_cluster: Member) -> Edge:
        return Edge(source, peer_cluster, managed_peer(source.cluster.address, peer_cluster.cluster.address))

    return make
