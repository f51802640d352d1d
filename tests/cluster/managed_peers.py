"""Two real clusters between which tests make peers, and the commands for that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL, JavaClient, PeerDescription
from embedded.wire import put
from tests.cluster.walferry_runs import ship, source_of
from walferry.admin.creating import create
from walferry.admin.peers import PeerAdmin, peer_admin
from walferry.cli.main import main
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.cluster import SourceCluster


@dataclass(frozen=True)
class Clusters:
    source: JavaClient
    peer_cluster: JavaClient
    at: SourceCluster

    @property
    def key(self) -> str:
        return self.peer_cluster.address.cluster_key

    def peer(self, peer_id: str) -> PeerDescription | None:
        return next((peer for peer in self.source.list_peers() if peer.id == peer_id), None)

    def table(self, name: str) -> str:
        for client in (self.source, self.peer_cluster):
            client.create_table(name, {"f": GLOBAL})
        return name

    def write(self, table: str, prefix: str, rows: int = 200) -> None:
        self.source.write(table, [put(f"{prefix}{i}", {"f:q": b"v"}) for i in range(rows)])

    def at_root(self, wal_root: str) -> str:
        """The source's connection with another wal_root."""
        extra = {"wal_root": wal_root, "znode_parent": self.at.znode_parent}
        return json.dumps({"conn_type": "generic", "host": self.at.quorum, "extra": extra})

    def batch(self, peer_id: str) -> None:
        assert [summary.error for summary in ship(self.at, peer_id) if summary.error] == []


def create_for_all(admin: PeerAdmin, peer_id: str, key: str) -> Peer:
    """Create a peer for all user tables, although other tests have left some that the peer cluster lacks."""
    return create(admin, peer_id, key, allow_missing=True)


@pytest.fixture
def clusters(standalone_pair, java_client) -> Clusters:
    source, peer_cluster = (cluster.address for cluster in standalone_pair)
    return Clusters(java_client(source), java_client(peer_cluster), source_of(source))


@pytest.fixture
def admin(clusters) -> Iterator[PeerAdmin]:
    with peer_admin(clusters.at) as peers:
        yield peers


@pytest.fixture
def peer_id(clusters, unique) -> Iterator[Callable[[], str]]:
    """Ids of peers that are removed after the test."""
    ids: list[str] = []

    def new() -> str:
        ids.append(unique("peer"))
        return ids[-1]

    yield new
    for name in ids:
        if clusters.peer(name):
            clusters.source.remove_peer(name)


@pytest.fixture
def command(clusters, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """`walferry` with arguments → exit status, standard output, standard error."""
    host, port = clusters.at.quorum.split(":")
    extra = f"znode_parent={clusters.at.znode_parent}&wal_root={clusters.at.wal_root}".replace("/", "%2F").replace(":", "%3A")
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", f"generic://{host}:{port}/?{extra}")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def wal_count(admin: PeerAdmin, peer: str) -> int:
    return sum(len(queue.wals) for queue in read_queues(admin.session, peer))
