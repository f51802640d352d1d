"""The sensor for dead servers and its triggers: run by Airflow, against a real ZooKeeper."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.models.trigger import Trigger
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, expire, wal
from walferry.airflow.triggers import base
from walferry.airflow.triggers.dead_servers import DeadServersEventTrigger, DeadServersTrigger
from walferry.base.zk import watcher

from .conftest import REPO, load, run_sensor

__all__ = ["hbase", "new_client"]  # fixtures

LIMIT_SECONDS = 60
DAG_FILE = """
from airflow.sdk import dag
from walferry.airflow.sensors.dead_servers import DeadServersSensor

@dag(schedule=None, params={"conn": "hbase_source"})
def watching_servers():
    DeadServersSensor(task_id="dead_servers", source_conn_id="{{ params.conn }}", timeout=60)

watching_servers()
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(watcher, "RECONNECT_SECONDS", 0.2)
    monkeypatch.setattr(base, "RETRY_SECONDS", 0.5)


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> HBaseZNodes:
    """The cluster as the connection `hbase_source`: three live servers with a WAL each in peer p's queues."""
    host, port = zookeeper.quorum.split(":")
    extra = {"znode_parent": hbase.nodes.base, "wal_root": "file:///hbase", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": host, "port": int(port), "password": "s3cret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    for server in (DEAD, OTHER):
        hbase.start_server(server)
    for server in (SERVER, DEAD, OTHER):
        hbase.add_wal(server, "p", wal(1, server))
    return hbase


@pytest.fixture(scope="session")
def watching(airflow_db: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A DAG of one sensor, known to Airflow's database."""
    return load(tmp_path_factory.mktemp("dags") / "watching_servers.py", DAG_FILE)


def run(dag: Any, conn: str = "hbase_source") -> tuple[str, Any]:
    """Run the DAG to its end. Returns the sensor's state and its result."""
    return run_sensor(dag, "dead_servers", {"conn": conn})


def test_the_sensor_defers_and_fires_when_a_server_dies(source: HBaseZNodes, watching: Any, later: Any) -> None:
    later(3, source.stop_server, DEAD)
    assert run(watching) == ("success", {"servers": {DEAD: [f"{DEAD}/p"]}})


def test_the_sensor_finds_at_once_servers_that_died_while_it_did_not_run(source: HBaseZNodes, watching: Any) -> None:
    source.stop_server(DEAD)
    source.stop_server(OTHER)
    source.claim(OTHER, "p", SERVER)
    assert run(watching) == ("success", {"servers": {DEAD: [f"{DEAD}/p"], OTHER: [f"{SERVER}/p-{OTHER}"]}})


def test_a_connection_that_is_not_there_fails_the_sensor(
    source: HBaseZNodes, watching: Any, logged: Callable[[], str], last_words: Callable[[], str]
) -> None:
    assert run(watching, conn="nowhere") == ("failed", None)
    assert last_words().startswith("connection 'nowhere' is not defined")
    assert "Traceback" not in logged()


def test_a_cluster_that_is_not_there_fails_the_sensor_s_trigger(source: HBaseZNodes) -> None:
    source.zk.delete(source.nodes.rs, recursive=True)

    async def scenario() -> TriggerEvent:
        return await asyncio.wait_for(first(DeadServersTrigger()), LIMIT_SECONDS)

    assert f"{source.nodes.rs} is not there" in asyncio.run(scenario()).payload["error"]


@pytest.mark.parametrize("kind", [DeadServersTrigger, DeadServersEventTrigger])
def test_what_is_serialized_makes_the_same_trigger_and_holds_no_secret(source: HBaseZNodes, kind: Any) -> None:
    from airflow.sdk.module_loading import import_string

    path, kwargs = kind("east").serialize()
    assert json.loads(json.dumps(kwargs)) == kwargs == {"source_conn_id": "east"}
    again = import_string(path)(**kwargs)
    assert isinstance(again, kind)
    assert again.serialize() == (path, kwargs)


async def first(trigger: DeadServersTrigger) -> TriggerEvent:
    """Return the trigger's first event, as the triggerer gets it for a deferred task."""
    try:
        async for event in trigger.run():
            return event
        raise AssertionError("the trigger ended without an event")
    finally:
        await trigger.cleanup()


class Watching:
    """The part of Airflow's triggerer that runs an asset's watcher without a shared stream."""

    def __init__(self) -> None:
        self.trigger = DeadServersEventTrigger()
        self._fired: asyncio.Queue[list[str]] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            async for event in self.trigger.run():
                self._fired.put_nowait(list(event.payload["servers"]))
        finally:
            await self.trigger.cleanup()

    async def next(self, limit_s: float = LIMIT_SECONDS) -> list[str]:
        return await asyncio.wait_for(self._fired.get(), limit_s)

    async def is_silent(self, seconds: float = 1.5) -> bool:
        await asyncio.sleep(seconds)
        return self._fired.empty() and not self._task.done()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def watched() -> AsyncIterator[Watching]:
    watching = Watching()
    try:
        yield watching
    finally:
        await watching.stop()


def test_an_asset_s_watcher_fires_once_for_each_death_and_together_for_deaths_at_once(source: HBaseZNodes) -> None:
    source.stop_server(DEAD)
    source.stop_server(OTHER)

    async def scenario() -> list[list[str]]:
        async with watched() as watching:
            fired = [await watching.next()]
            assert await watching.is_silent()
            await asyncio.to_thread(source.claim, DEAD, "p", SERVER)
            await asyncio.to_thread(source.stop_server, SERVER)
            fired.append(await watching.next())
            assert await watching.is_silent()
            return fired

    both, chained = asyncio.run(scenario())
    assert both == [DEAD, OTHER]
    assert chained == [SERVER]


def test_what_is_undone_is_fired_again_after_a_restart_and_what_is_done_is_not(source: HBaseZNodes) -> None:
    source.stop_server(DEAD)
    source.stop_server(OTHER)

    async def scenario() -> list[str]:
        async with watched() as watching:
            return await watching.next()

    async def silent() -> bool:
        async with watched() as watching:
            return await watching.is_silent()

    assert asyncio.run(scenario()) == [DEAD, OTHER]
    source.zk.delete(source.nodes.server_queues(DEAD), recursive=True)
    assert asyncio.run(scenario()) == [OTHER]
    source.zk.delete(source.nodes.server_queues(OTHER), recursive=True)
    assert asyncio.run(silent())


def test_a_lost_session_of_the_trigger_s_is_no_death(source: HBaseZNodes) -> None:
    async def scenario() -> list[str]:
        async with watched() as watching:
            for _ in range(2):
                assert await watching.is_silent(1)
                assert watching.trigger._stream is not None
                await asyncio.to_thread(expire, watching.trigger._stream._zk)
            assert await watching.is_silent(2)
            await asyncio.to_thread(source.stop_server, DEAD)
            return await watching.next()

    assert asyncio.run(scenario()) == [DEAD]


def test_a_connection_that_is_put_right_is_taken_up_and_says_until_then_what_is_wrong(
    source: HBaseZNodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, airflow_db: None
) -> None:
    right = json.loads(os.environ["AIRFLOW_CONN_HBASE_SOURCE"])
    source.stop_server(DEAD)

    async def scenario() -> list[str]:
        monkeypatch.delenv("AIRFLOW_CONN_HBASE_SOURCE")
        async with watched() as watching:
            assert await watching.is_silent(2)
            monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({**right, "extra": {"wal_root": "file:///", "znode": 1}}))
            assert await watching.is_silent(2)
            wrong_parent = {**right["extra"], "znode_parent": "/nowhere"}
            monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({**right, "extra": wrong_parent}))
            assert await watching.is_silent(2)
            monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(right))
            return await watching.next()

    assert asyncio.run(scenario()) == [DEAD]
    notified = [record.getMessage() for record in caplog.records if "not watching" in record.getMessage()]
    for what in ("is not defined", "extra has znode", "/nowhere/hbaseid is not there"):
        assert any(what in message for message in notified), notified
    assert len(notified) < 20  # no hot loop: one per RETRY_SECONDS


def test_a_cluster_that_is_wrong_for_a_while_makes_nothing_fire_twice(source: HBaseZNodes) -> None:
    source.stop_server(DEAD)

    async def scenario() -> list[list[str]]:
        async with watched() as watching:
            fired = [await watching.next()]
            await asyncio.to_thread(source.zk.create, f"{source.nodes.rs}/no server name")
            assert await watching.is_silent()
            await asyncio.to_thread(source.zk.delete, f"{source.nodes.rs}/no server name")
            assert await watching.is_silent()
            await asyncio.to_thread(source.stop_server, OTHER)
            return [*fired, await watching.next()]

    assert asyncio.run(scenario()) == [[DEAD], [OTHER]]


@pytest.mark.parametrize("seconds", [0.0, 0.2, 1.5])
def test_a_stopped_watcher_leaves_no_thread(source: HBaseZNodes, seconds: float) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        async with watched():
            await asyncio.sleep(seconds)

    asyncio.run(scenario())
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    assert set(threading.enumerate()) <= before


def test_a_cancelled_sensor_s_trigger_leaves_no_thread(source: HBaseZNodes) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        event = asyncio.ensure_future(first(DeadServersTrigger()))
        await asyncio.sleep(1)
        event.cancel()
        with pytest.raises(asyncio.CancelledError):
            await event

    asyncio.run(scenario())
    assert set(threading.enumerate()) <= before


def test_the_failover_dag_s_watcher_is_stored_with_the_connection_s_name_only(airflow_db: None, tmp_path: Any) -> None:
    text = (REPO / "dags" / "regionserver_failover.py").read_text()
    load(tmp_path / "regionserver_failover.py", text)
    with create_session() as session:
        session.query(DagModel).filter(DagModel.dag_id == "regionserver_failover").update({"is_paused": False})
    load(tmp_path / "regionserver_failover.py", text)  # watchers are stored once their DAG is known not to be paused
    with create_session() as session:
        stored = session.query(Trigger).filter(Trigger.classpath.like("%DeadServersEventTrigger")).one()
        assert stored.kwargs == {"source_conn_id": "hbase_source"}
