"""The mistakes of docs/mistakes.md that need real clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from walferry.cli.main import main

from .conftest import Run
from .mistakes import Row, provoking, rows
from .test_replicate_peer_on_clusters import peer, peer_cluster, source

__all__ = ["peer", "peer_cluster", "source"]  # fixtures

PROVOCATIONS: dict[str, Callable[[Any], str]] = {}
provokes = provoking(PROVOCATIONS)
CONTROLLER = "org.apache.hadoop.hbase.security.access.AccessController"
GUARDED = {"hbase.security.authorization": "true"} | {
    f"hbase.coprocessor.{where}.classes": CONTROLLER for where in ("master", "region", "regionserver")
}
STRANGER = "stranger"  # a user without any rights


@dataclass
class Pair:
    """Two clusters with a managed peer between them."""

    source: JavaClient
    peer_cluster: JavaClient
    peer: str
    unique: Callable[[str], str]
    ship: Callable[..., Run]
    last_words: Callable[[], str]
    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    managed_peer: Callable[[ClusterAddress, ClusterAddress], str]
    guarded: Callable[[], tuple[ClusterAddress, JavaClient]]  # makes a cluster that refuses calls without a granted right

    def table(self, families: dict[str, int], at_peer_cluster: dict[str, int] | None) -> str:
        """Make a table with rows in each family. Returns its name."""
        name = self.unique("t")
        self.source.create_table(name, families)
        if at_peer_cluster:
            self.peer_cluster.create_table(name, at_peer_cluster)
        self.source.put_many(name, 10, [f"{family}:q" for family in families])
        return name

    def run(self, **params: Any) -> str:
        """Ship the peer. Returns the last words of the task that failed first."""
        assert self.ship(peer=self.peer, **{"deadline": 60, **params}).state == "failed"
        return self.last_words()

    def connect(self, at: ClusterAddress, **extra: str) -> None:
        """Define the connection, with these fields in addition to the necessary ones."""
        fields = {"wal_root": at.wal_root, "znode_parent": at.znode_parent, **extra}
        self.patch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({"conn_type": "generic", "host": at.quorum, "extra": fields}))

    def create_peer(self, cluster_key: str, *words: str) -> str:
        """Create a peer by the command. Returns the error with which it is refused."""
        self.capsys.readouterr()
        at = self.source.address
        connection = {"host": at.quorum, "extra": {"wal_root": at.wal_root, "znode_parent": at.znode_parent}}
        arguments = ["peers", "create", self.unique("new"), "--cluster-key", cluster_key, *words]
        assert main(["--source", json.dumps(connection), *arguments]) != 0
        return self.capsys.readouterr().err


@provokes("The peer cluster lacks the table")
def _(pair: Pair) -> str:
    pair.table({"f": GLOBAL}, None)
    return pair.run()


@provokes("The peer cluster lacks the family")
def _(pair: Pair) -> str:
    pair.table({"f": GLOBAL, "g": GLOBAL}, {"f": GLOBAL})
    return pair.run()


@provokes("`wal_root` is that of another cluster")
def _(pair: Pair) -> str:
    pair.table({"f": GLOBAL}, {"f": GLOBAL})
    pair.connect(pair.source.address, wal_root=pair.peer_cluster.address.wal_root)
    return pair.run()


@provokes("The user has no rights at the source")
def _(pair: Pair) -> str:
    guarded, _ = pair.guarded()
    pair.connect(guarded, user=STRANGER)
    return replace(pair, peer=pair.managed_peer(guarded, pair.peer_cluster.address)).run()


@provokes("The user has no rights at the peer cluster")
def _(pair: Pair) -> str:
    guarded, of_guarded = pair.guarded()
    to_guarded = replace(pair, peer_cluster=of_guarded, peer=pair.managed_peer(pair.source.address, guarded))
    to_guarded.table({"f": GLOBAL}, {"f": GLOBAL})
    pair.connect(pair.source.address, user=STRANGER)
    return to_guarded.run()


@provokes("The cluster key leads to the source itself")
def _(pair: Pair) -> str:
    return pair.create_peer(pair.source.address.cluster_key)


@provokes("A new peer's table is misspelt")
def _(pair: Pair) -> str:
    return pair.create_peer(pair.peer_cluster.address.cluster_key, "--table-cfs", "no_such_table")


@provokes("A new peer's family is not replicated")
def _(pair: Pair) -> str:
    table = pair.table({"f": LOCAL}, {"f": LOCAL})
    return pair.create_peer(pair.peer_cluster.address.cluster_key, "--table-cfs", f"{table}:f")


@pytest.fixture(scope="module")
def guarded(
    cluster_folder: Path, java_client: Callable[[ClusterAddress], JavaClient]
) -> Iterator[Callable[[], tuple[ClusterAddress, JavaClient]]]:
    cluster = StandaloneCluster(cluster_folder / "guarded-by-rights", GUARDED, name="guarded")
    started: list[StandaloneCluster] = []

    def start() -> tuple[ClusterAddress, JavaClient]:
        if not started:
            started.append(cluster)
            cluster.start()
        return cluster.address, java_client(cluster.address)

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def pair(
    source: JavaClient, peer_cluster: JavaClient, peer: str, unique: Callable[[str], str], replicate_peer: Callable[..., Run],
    last_words: Callable[[], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    managed_peer: Callable[[ClusterAddress, ClusterAddress], str], guarded: Callable[[], tuple[ClusterAddress, JavaClient]],
) -> Pair:  # fmt: skip
    return Pair(source, peer_cluster, peer, unique, replicate_peer, last_words, monkeypatch, capsys, managed_peer, guarded)


@pytest.mark.parametrize("row", [row for row in rows() if row.mistake in PROVOCATIONS], ids=lambda row: row.mistake)
def test_a_mistake_is_answered_with_what_the_table_says(row: Row, pair: Pair) -> None:
    reported = PROVOCATIONS[row.mistake](pair)
    assert row.fits(reported), f"it says:\n{reported}\nand the table:\n{row.reported}"
