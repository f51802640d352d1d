"""A Spark Connect server and spark-submit that run nothing, for tests of the choice between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.base.jobs import JobOutcome
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs.connect.connect_job import ConnectJob
from walferry.jobs.connect.server import Address
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch
from walferry.runs.values import ChosenPeers, Planned
from walferry.shipping.ship_run import ShipRun

from .conftest import Run

TOKEN = "a-secret-token"
CONNECTION = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 15002, "password": TOKEN}
DONE = GroupSummary(group="g1", server="s1", status=Status.DONE, shippedOps=7)
RUN = ShipRun(source=SourceCluster(quorum="zk1:2181", wal_root="file:///hbase"), peer_id="p", run_id="r", deadline=60)


@dataclass
class Cluster:
    """The behaviour of the server and spark-submit, and the requests that they got."""

    error: Exception | None = None  # raised by the server
    left: list[GroupSummary] = field(default_factory=lambda: [DONE])  # the summaries that a job leaves
    through_server: list[tuple[Address, ShipRun]] = field(default_factory=list)
    submitted: list[list[str]] = field(default_factory=list)

    def ship(self, job: ConnectJob) -> JobOutcome:
        self.through_server.append((job.address, cast(ShipRun, job.job)))
        if self.error is not None:
            raise self.error
        return JobOutcome(failed=any(summary.failed for summary in self.left))

    def submit(self, hook: WalferrySubmitHook, application: str) -> None:
        self.submitted.append(hook._build_spark_submit_command(application))

    def summaries(self, *_: object) -> list[GroupSummary]:
        return self.left if self.through_server or self.submitted else []


@contextmanager
def nothing(*_: object) -> Iterator[None]:
    yield


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, source_conn: None) -> Cluster:
    cluster = Cluster()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps(CONNECTION))
    monkeypatch.setattr(batch, "choose", lambda source, asked: ChosenPeers(["p"], [], 0.0))
    monkeypatch.setattr(batch, "plan", lambda source, peer, attempt, *_: Planned(attempt, peer, groups=1, wals=1, bytes=100))
    monkeypatch.setattr(batch, "holding_peer", nothing)
    monkeypatch.setattr(batch, "why_down", lambda *_: None)
    monkeypatch.setattr(batch, "why_paused", lambda *_: None)
    monkeypatch.setattr(batch, "summaries", cluster.summaries)
    monkeypatch.setattr(batch, "joining", lambda *_: [])
    monkeypatch.setattr(batch, "lead_of", lambda *_: None)
    monkeypatch.setattr(batch, "for_job", lambda source, *_: source)
    monkeypatch.setattr(ConnectJob, "run_job", lambda job, say: cluster.ship(job))
    monkeypatch.setattr(WalferrySubmitHook, "submit", lambda hook, application="": cluster.submit(hook, application))
    return cluster


@pytest.fixture
def run(replicate_peer: Callable[..., Run], cluster: Cluster) -> Callable[..., Run]:
    return lambda **params: replicate_peer(**{"roll": False, **params})
