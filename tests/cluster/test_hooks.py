"""A peer cluster whose sink has a filter gets its edits by `replicate`, which the filter sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient
from embedded.processes import free_port
from embedded.standalone import StandaloneCluster
from tests.cluster.walferry_runs import ship, source_of
from tests.sessions import session_of
from walferry.admin.diagnosis.peers import peer_cluster_access
from walferry.base.findings import Finding
from walferry.base.zk.client import connected
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind
from walferry.replication.sinks.of_peer import shipping_settings
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer

FILTER = "walferry.embedded.ReplicatedOnly"
ROWS = 50


@pytest.fixture(scope="module")
def filtering(cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """A cluster whose sink drops edits of tables with names like unwanted…."""
    conf = {
        "hbase.regionserver.info.port": str(free_port()),
        "hbase.regionserver.info.bindAddress": "127.0.0.1",
        "hbase.replication.sink.walentrysinkfilter": FILTER,
    }
    with StandaloneCluster(cluster_folder / "filtering", conf, name="filtering") as cluster:
        yield cluster


def sink_finding(at: SourceCluster, peer_id: str) -> Finding:
    with connected(at.quorum) as zk:
        peer = read_peer(session_of(zk, at), peer_id)
    (finding,) = [each for each in peer_cluster_access(at, peer) if each.kind == "sink"]
    return finding


@pytest.mark.parametrize(
    ("settings", "sent", "severity", "reported"),
    [
        ({"sink": "auto"}, SinkKind.REPLICATE, "well", f"auto, so all edits go by replicate: the peer cluster has {FILTER}"),
        ({"sink": "auto", "sink_hooks": "none"}, SinkKind.AUTO, "well", "auto"),
        ({}, SinkKind.DIRECT, "note", f"edits go by direct, and pass by classes for replicated edits: {FILTER}"),
    ],
    ids=["auto", "auto, but the filter does not matter", "direct"],
)
def test_auto_heeds_a_filter_of_the_peer_cluster_s_sink(
    filtering: StandaloneCluster, standalone_pair, java_client: Callable[..., JavaClient], managed_peer, unique,
    settings: dict[str, str], sent: SinkKind, severity: str, reported: str,
) -> None:  # fmt: skip
    source, there = java_client(standalone_pair.source.address), java_client(filtering.address)
    peer_id = managed_peer(standalone_pair.source.address, filtering.address)
    wanted, unwanted = unique("wanted"), unique("unwanted")
    for table in (wanted, unwanted):
        for client in (source, there):
            client.create_table(table, {"f": GLOBAL})
        source.put_many(table, ROWS, ["f:q"])
    at = source_of(standalone_pair.source.address)
    at = replace(at, replication={**at.replication, **settings})
    finding = sink_finding(at, peer_id)
    assert (str(finding.severity), finding.text) == (severity, reported)
    with connected(at.quorum) as zk:
        chosen = shipping_settings(read_peer(session_of(zk, at), peer_id), at)
    assert chosen.sink is sent
    shipped = ship(replace(at, replication={**at.replication, "sink": chosen.requests}), peer_id)
    assert [summary.error for summary in shipped if summary.status is not Status.DONE] == []
    rows = (there.count_rows(wanted), there.count_rows(unwanted))
    assert rows == (ROWS, 0 if sent is SinkKind.REPLICATE else ROWS)
