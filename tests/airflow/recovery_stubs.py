"""Shared by the tests of recovery: clusters with dead servers in a real ZooKeeper, and a stub of the Spark job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client, refused_at_once, zk
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.base.zk.client import connect, disconnect
from walferry.base.zk.fenced_lock import FencedLock
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import OwnZNodes
from walferry.replication.queues.claims.steps import claim_hold
from walferry.replication.queues.dead_servers import recovered_queues
from walferry.replication.source import agreement
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch
from walferry.shipping.drains import groups_to_drain
from walferry.shipping.runs import write_group

from .conftest import Run
from .submitted_jobs import job_in

__all__ = ["hbase", "new_client", "refused_at_once", "zk"]  # fixtures

GONE = "rs-9.example.org,16020,1700000000009"


@dataclass
class Spark:
    """Ships what it is asked to, other than groups that are `broken`; those that are `late`, `held` or `down` are so as often as
    that says."""

    zk: Any
    at: SourceCluster
    broken: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    killed: int = 0  # how many jobs are killed before they do anything
    commands: list[list[str]] = field(default_factory=list)
    drained: list[tuple[str, list[str]]] = field(default_factory=list)  # the groups of each job, by peer

    def submit(self, hook: WalferrySubmitHook, application: str) -> None:
        command = hook._build_spark_submit_command(application)
        self.commands.append(command)
        if self.killed:
            self.killed -= 1
            raise AirflowException("spark-submit was killed")
        peer, run_id = job_in(command).peer_id, job_in(command).run_id
        assert job_in(command).recovery
        failed = False
        groups = sorted(groups_to_drain(session_of(self.zk, self.at), peer, run_id))
        self.drained.append((peer, groups))
        for group in groups:
            summary = self._ship(peer, group)
            failed |= summary.failed
            write_group(session_of(self.zk, self.at), peer, run_id, summary)
        if failed:
            raise AirflowException("spark-submit ended with 1")

    @property
    def shipped(self) -> list[tuple[str, list[str]]]:
        return sorted(self.drained)

    def _ship(self, peer: str, group: str) -> GroupSummary:
        if self.held.get(group, 0) > 0:
            self.held[group] -= 1
            return GroupSummary(group=group, status=Status.HELD, error=f"WAL group {group} is held by run x")
        if self.down.get(group, 0) > 0:
            self.down[group] -= 1
            return GroupSummary(group=group, status=Status.PEER_DOWN, error="it is down", seconds=float(len(self.commands)))
        if self.late.get(group, 0) > 0:
            self.late[group] -= 1
            return GroupSummary(group=group, status=Status.DEADLINE, seconds=float(len(self.commands)))
        if group in self.broken:
            return GroupSummary(group=group, status=Status.FAILED, error=self.broken[group])
        wals = 0
        for queue in recovered_queues(session_of(self.zk, self.at), peer):
            if group in queue.groups:
                path = self.at.nodes.queue(queue.server, queue.queue_id)
                for name in queue.wals:
                    self.zk.delete(f"{path}/{name}")
                    wals += 1
                self.zk.delete(path)
        return GroupSummary(group=group, status=Status.DONE, completedLogs=wals, shippedOps=100 * wals)


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> SourceCluster:
    """The cluster as Airflow's connection. It has no master, so calls that would ask one rely on ZooKeeper alone."""
    for module in (agreement, batch):
        monkeypatch.setattr(module, "master_peers", lambda *_: None)
    monkeypatch.setattr(batch, "FREE_POLL_SECONDS", 0.1)
    extra = {"znode_parent": hbase.nodes.base, "wal_root": f"file://{tmp_path}", "walferry_root": hbase.root}
    (tmp_path / "oldWALs").mkdir()  # the WALs themselves are missing
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    return SourceCluster(quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=hbase.nodes.base, root=hbase.root)


@pytest.fixture
def spark(at: SourceCluster, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Spark:
    spark = Spark(hbase.zk, at)
    monkeypatch.setattr(WalferrySubmitHook, "submit", lambda hook, application="": spark.submit(hook, application))
    return spark


@pytest.fixture
def failover(run_dag: Callable[..., Run], spark: Spark) -> Callable[..., Run]:
    return partial(run_dag, "regionserver_failover")


@pytest.fixture
def drain(run_dag: Callable[..., Run], spark: Spark) -> Callable[..., Run]:
    return partial(run_dag, "drain_recovered_queue")


@pytest.fixture
def dead(hbase: HBaseZNodes) -> HBaseZNodes:
    """Two dead servers. The queues of DEAD, for p and q, are unclaimed; HBase has claimed OTHER's queue, for p."""
    hbase.add_peer("q")
    for timestamp in (1, 2):
        hbase.add_wal(DEAD, "p", wal(timestamp, DEAD))
    hbase.add_wal(DEAD, "q", wal(2, DEAD))
    hbase.add_wal(OTHER, "p", wal(5, OTHER))
    hbase.claim(OTHER, "p", SERVER)
    hbase.zk.delete(hbase.nodes.queue_server(OTHER))
    hbase.add_wal(SERVER, "p", wal(9))
    return hbase


def group(server: str) -> str:
    return wal(0, server).rpartition(".")[0]


def states(run: Run, task: str) -> dict[str | None, str]:
    return {label: state for (name, label), state in run.tasks.items() if name == task}


@pytest.fixture
def other(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """Another client's session, which outlives the pauses of a busy machine."""
    client = connect(zookeeper.quorum)
    yield client
    disconnect(client)


@pytest.fixture
def rival(dead: HBaseZNodes, at: SourceCluster, other: KazooClient) -> FencedLock:
    """Another run that claims DEAD."""
    return rival_claim(at, other, DEAD)


def rival_claim(at: SourceCluster, other: KazooClient, server: str) -> FencedLock:
    """Return another run's claim of a server."""
    lock = claim_hold(other, OwnZNodes(at.root, at.nodes).claim(server), server)
    lock.acquire("run scheduled__1 on host h", "scheduled__1")
    return lock
