"""HBase 1.7.2 as the source, with and without multi: the tests of batches are those of other releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.classic import add_managed_peer, classic_conf, remove_peer
from embedded.client import JavaClient
from embedded.jars import HBASE_1
from embedded.processes import wait_until
from embedded.standalone import StandaloneCluster
from tests.cluster.classic_failover import BOTH_LAYOUTS
from tests.cluster.conftest import Sides
from tests.cluster.releases.test_edits import CONF, test_edits_are_shipped
from tests.cluster.walferry_runs import queues, source_of
from walferry.hbase.layout import QueueLayout
from walferry.replication.peers.settings import SinkKind

__all__ = ["test_edits_are_shipped"]


@pytest.fixture(scope="module", params=BOTH_LAYOUTS)
def layout(request: pytest.FixtureRequest) -> QueueLayout:
    """The layout of the source's queues."""
    layout: QueueLayout = request.param
    return layout


@pytest.fixture(scope="module")
def classic(layout: QueueLayout, cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """A cluster of HBase 1 that compresses its WALs."""
    conf = {**classic_conf(multi=layout is QueueLayout.HBASE2), **CONF}
    with StandaloneCluster(cluster_folder / f"classic-{layout}", conf, name="classic", jars=HBASE_1) as cluster:
        yield cluster


@pytest.fixture
def sides(
    standalone_pair, classic: StandaloneCluster, layout: QueueLayout, java_client: Callable[..., JavaClient], sink: SinkKind
) -> Sides:
    at = replace(source_of(classic.address, sink), queue_layout=layout)
    peer_cluster = standalone_pair.peer_cluster
    return Sides(classic, peer_cluster, java_client(classic.address), java_client(peer_cluster.address), at)


@pytest.fixture
def peer(sides: Sides, unique: Callable[[str], str]) -> Iterator[str]:
    """A managed peer that the RegionServer has taken up."""
    peer_id = unique("peer")
    add_managed_peer(sides.source_cluster.address, peer_id, sides.peer_hbase.address.cluster_key)
    wait_until(
        lambda: bool(queues(sides.at, peer_id)),
        f"peer {peer_id} is taken up",
        processes=[sides.source_cluster.process],
        timeout=60,
    )
    yield peer_id
    remove_peer(sides.source_cluster.address, peer_id)
