"""The sensor for regions that stay in one state for too long, and its trigger: run by Airflow, against a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client
from tests.zk.hbase_znodes import HBaseZNodes, expire
from walferry.airflow.triggers.stuck_regions import MAX_REGIONS, StuckRegionsTrigger
from walferry.base.zk import watcher
from walferry.hbase.names import ServerName
from walferry.master.states import RegionState
from walferry.master.stuck_stream import BROKEN, StuckRegion, StuckRegionsStream
from walferry.master.znodes import encode_region
from walferry.replication.source.cluster import SourceCluster

from .conftest import load, run_sensor

__all__ = ["hbase", "new_client"]  # fixtures

LIMIT_SECONDS = 60  # of a test's patience
SERVER = ServerName("rs1.example.org", 16020, 1_700_000_000_001)
DAG_FILE = """
from airflow.sdk import dag
from walferry.airflow.sensors.stuck_regions import StuckRegionsSensor

@dag(schedule=None, params={"conn": "hbase_source"})
def watching_regions():
    StuckRegionsSensor(task_id="stuck", source_conn_id="{{ params.conn }}", limit_seconds=2, timeout=60)

watching_regions()
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(watcher, "RECONNECT_SECONDS", 0.2)


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> HBaseZNodes:
    """The cluster as the connection `hbase_source`, with no region in transition."""
    extra = {"znode_parent": hbase.nodes.base, "wal_root": "file:///hbase", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "password": "s3cret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    hbase.zk.ensure_path(hbase.nodes.in_transition)
    return hbase


@pytest.fixture(scope="session")
def watching(airflow_db: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A DAG of one sensor, known to Airflow's database."""
    return load(tmp_path_factory.mktemp("dags") / "watching_regions.py", DAG_FILE)


def name_of(n: int) -> bytes:
    return f"t,row{n},1700000000000.{n:032x}.".encode()


def write(source: HBaseZNodes, n: int, state: RegionState = RegionState.OPENING) -> None:
    """Create or change a region's znode, as a server or the master does."""
    path = source.nodes.region_in_transition(f"{n:032x}")
    value = encode_region(name_of(n), state, SERVER)
    if source.zk.exists(path):
        source.zk.set(path, value)
    else:
        source.zk.create(path, value)


def run(dag: Any, conn: str = "hbase_source") -> tuple[str, Any]:
    return run_sensor(dag, "stuck", {"conn": conn})


def test_the_sensor_defers_and_fires_when_a_region_stays_in_its_state(source: HBaseZNodes, watching: Any, later: Any) -> None:
    later(3, write, source, 1)
    state, event = run(watching)
    (region,) = event["regions"]
    assert (state, event["stuck"]) == ("success", 1)
    assert (region["region"], region["state"], region["server"]) == (f"{1:032x}", "OPENING", str(SERVER))
    assert region["seconds"] >= 2


def test_a_connection_that_is_not_there_fails_the_sensor(
    source: HBaseZNodes, watching: Any, logged: Callable[[], str], last_words: Callable[[], str]
) -> None:
    assert run(watching, conn="nowhere") == ("failed", None)
    assert last_words().startswith("connection 'nowhere' is not defined")
    assert "Traceback" not in logged()


def test_a_cluster_that_is_not_there_fails_the_trigger(source: HBaseZNodes) -> None:
    source.zk.delete(source.nodes.base, recursive=True)
    assert "is not there" in asyncio.run(fired(2.0)).payload["error"]


def test_what_is_serialized_makes_the_same_trigger_and_holds_no_secret(source: HBaseZNodes) -> None:
    from airflow.sdk.module_loading import import_string

    path, kwargs = StuckRegionsTrigger(7.5, "east").serialize()
    assert json.loads(json.dumps(kwargs)) == kwargs == {"limit_seconds": 7.5, "source_conn_id": "east"}
    assert import_string(path)(**kwargs).serialize() == (path, kwargs)


async def fired(limit: float) -> TriggerEvent:
    """Return the trigger's first event, as the triggerer gets it for a deferred task."""
    trigger = StuckRegionsTrigger(limit)
    try:
        async for event in trigger.run():
            return event
        raise AssertionError("the trigger ended without an event")
    finally:
        await trigger.cleanup()


async def found(source: HBaseZNodes, quorum: str, limit: float) -> tuple[StuckRegion, ...]:
    at = SourceCluster(quorum=quorum, wal_root="file:///hbase", znode_parent=source.nodes.base)
    async with StuckRegionsStream(at, limit) as stream:
        return await asyncio.wait_for(stream.next(), LIMIT_SECONDS)


def test_a_region_that_goes_on_is_not_stuck(source: HBaseZNodes, zookeeper: ZooKeeperServer, later: Any) -> None:
    write(source, 1, RegionState.OFFLINE)
    began = time.time()
    for second, state in ((1, RegionState.OPENING), (2, RegionState.OPENED)):
        later(second, write, source, 1, state)
    (region,) = asyncio.run(found(source, zookeeper.quorum, 2.5))
    assert region.state == "OPENED"
    assert time.time() - began >= 4.4


def test_a_split_is_stuck_though_its_server_writes_it_again_and_again(
    source: HBaseZNodes, zookeeper: ZooKeeperServer, later: Any
) -> None:
    write(source, 1, RegionState.REQUEST_SPLIT)
    for n in range(1, 6):
        later(n / 2, write, source, 1, RegionState.REQUEST_SPLIT)
    (region,) = asyncio.run(found(source, zookeeper.quorum, 2.0))
    assert region.state == "REQUEST_SPLIT"


def test_a_broken_znode_is_told_beside_the_others(source: HBaseZNodes, zookeeper: ZooKeeperServer) -> None:
    source.zk.create(source.nodes.region_in_transition("{{conn.slack.password}}"), b"\x1b[2J" * 100_000)
    write(source, 1)
    event = StuckRegionsTrigger(0.1).payload(asyncio.run(found(source, zookeeper.quorum, 0.1)))
    assert {region["state"] for region in event["regions"]} <= {BROKEN, "OPENING"}
    assert len(json.dumps(event)) < 1000


def test_a_lost_session_is_survived_and_nothing_is_polled(
    source: HBaseZNodes, zookeeper: ZooKeeperServer, later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    look = StuckRegionsStream._look

    def counted(self: StuckRegionsStream, zk: KazooClient, watch: Any) -> Any:
        nonlocal looks
        looks += 1
        return look(self, zk, watch)

    monkeypatch.setattr(StuckRegionsStream, "_look", counted)

    async def scenario() -> tuple[StuckRegion, ...]:
        at = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=source.nodes.base)
        async with StuckRegionsStream(at, 1.0) as stream:
            await stream.connect()
            later(1, expire, stream._zk)
            later(4, write, source, 1)
            return await asyncio.wait_for(stream.next(), LIMIT_SECONDS)

    assert [region.state for region in asyncio.run(scenario())] == ["OPENING"]
    assert looks < 10


def test_an_event_is_bounded() -> None:
    many = [StuckRegion(f"{n:032x}", "OPENING", SERVER, float(n)) for n in range(5000)]
    event = StuckRegionsTrigger(0.1).payload(many)
    assert (len(event["regions"]), event["stuck"]) == (MAX_REGIONS, 5000)
    assert event["regions"][0]["seconds"] == 4999.0


def test_a_cancelled_sensor_s_trigger_leaves_no_thread(source: HBaseZNodes) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        event = asyncio.ensure_future(fired(2.0))
        await asyncio.sleep(1)
        event.cancel()
        with pytest.raises(asyncio.CancelledError):
            await event

    asyncio.run(scenario())
    assert set(threading.enumerate()) <= before
