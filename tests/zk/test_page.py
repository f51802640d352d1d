"""The replication page on a real ZooKeeper, from its znodes to its HTML."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.unit.airflow.page.pages import parsed
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.airflow.page import sources
from walferry.airflow.page.app import make_app
from walferry.airflow.page.links import Links
from walferry.airflow.page.sources import Sources
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.history import record_sample, sample_at
from walferry.observe.status.model import SourceStatus
from walferry.observe.status.statuses import Statuses
from walferry.replication.source.cluster import SourceCluster

HOUR = 3_600_000
HOSTILE = "<b>x\u202e{{7*191}}"


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    return SourceCluster(
        quorum=zookeeper.quorum, wal_root="file:///no-such-folder", znode_parent=hbase.nodes.base, root=hbase.root
    )  # fmt: skip


def browser(at: SourceCluster) -> TestClient:
    """Return a client of a page that shows this source, to any user."""
    shown = Sources(lambda conn_id: at)
    return TestClient(make_app(lambda: ["hbase_source"], shown.look, lambda: frozenset(), Links("/")))


@pytest.fixture
def page(at: SourceCluster) -> Iterator[TestClient]:
    with browser(at) as client:
        yield client


def test_the_page_shows_queues_history_and_hostile_znodes(
    hbase: HBaseZNodes, zk: KazooClient, at: SourceCluster, page: TestClient
) -> None:
    now = int(time.time() * 1000)
    hbase.add_wal(SERVER, "p", wal(now - 2 * HOUR), 500)
    hbase.add_wal(SERVER, "p", wal(now - HOUR))
    hbase.add_wal(DEAD, "p", wal(now - 3 * HOUR, DEAD))
    hbase.add_peer(HOSTILE)
    zk.create(f"{hbase.nodes.rs}/{SERVER}x/{HOSTILE}", b"", makepath=True)
    record_sample(session_of(zk, at), "p", sample_at(time.time(), Age(HOUR, Certainty.AT_MOST), (5, 0), 3 << 20, 2))
    seen = parsed(page.get("/replication").text)
    assert f"Normal of peer p {SERVER}" in seen.text
    assert "position 500" in seen.text
    assert DEAD in seen.text
    assert "Lag over the last day: highest 1 h (not exact)" in seen.text
    assert r"Peer <b>x\u202e{{7*191}}" in seen.text
    assert not seen.all("b")
    assert "could not be read or make no sense" in seen.text


def test_the_next_page_shows_the_same_look(at: SourceCluster, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[SourceCluster] = []

    def counted(self: Statuses, source: SourceCluster) -> SourceStatus:
        looks.append(source)
        return of(self, source)

    of = Statuses.of
    monkeypatch.setattr(Statuses, "of", counted)
    monkeypatch.setattr(sources, "LOOK_SECONDS", 600.0)  # however slow this machine is
    for number in range(50):
        server = f"host-{number}.example.org,16020,1700000000001"
        hbase.start_server(server)
        hbase.add_wal(server, "p", wal(int(time.time() * 1000) - HOUR, server))
    with browser(at) as page:
        for params in ("", "?page=2"):
            assert "of 50" in parsed(page.get(f"/replication{params}").text).text
    assert looks == [at]
