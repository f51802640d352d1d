"""What tests of replication between two standalone clusters share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from tests.cluster.proxy import ProxiedSlave, proxied_slave
from tests.cluster.walferry_runs import source_of
from walferry.source.cluster import SourceCluster


@dataclass(frozen=True)
class Sides:
    """The pair of clusters, each as itself and through the Java client, and the source as Walferry sees it."""

    source_cluster: StandaloneCluster
    slave_cluster: StandaloneCluster
    source: JavaClient
    slave: JavaClient
    at: SourceCluster


@pytest.fixture
def sides(standalone_pair, java_client) -> Sides:
    source, slave = standalone_pair
    return Sides(source, slave, java_client(source.address), java_client(slave.address), source_of(source.address))


@pytest.fixture
def both(sides: Sides, unique: Callable[[str], str]) -> Callable[..., str]:
    """`both({"f": GLOBAL})` → name of a new table on both sides. By default it has a GLOBAL family f and a LOCAL family l."""

    def create(scopes: Mapping[str, int] | None = None, **options: object) -> str:
        name = unique("t")
        for client in (sides.source, sides.slave):
            client.create_table(name, scopes or {"f": GLOBAL, "l": LOCAL}, **options)  # type: ignore[arg-type]
        return name

    return create


@pytest.fixture
def peer(sides: Sides, managed_peer: Callable[[ClusterAddress, ClusterAddress], str]) -> str:
    """A managed peer from the source to the slave."""
    return managed_peer(sides.source_cluster.address, sides.slave_cluster.address)


@pytest.fixture
def proxied(sides: Sides) -> Iterator[ProxiedSlave]:
    """The slave behind proxies."""
    with proxied_slave(sides.slave_cluster.address) as slave:
        yield slave


@pytest.fixture
def proxied_peer(sides: Sides, proxied: ProxiedSlave, unique: Callable[[str], str]) -> Iterator[str]:
    """A managed peer from the source to the slave, through the proxies."""
    peer_id = unique("peer")
    sides.source.roll_wals()
    sides.source.add_managed_peer(peer_id, proxied.cluster_key)
    yield peer_id
    sides.source.remove_peer(peer_id)
