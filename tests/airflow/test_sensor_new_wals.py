"""The sensor for new closed WALs and its triggers: run by Airflow, against a real ZooKeeper."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.models.trigger import Trigger
from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager
from airflow.utils.session import create_session
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.fixtures import hbase, new_client, zk
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, expire, wal
from walferry.airflow.triggers.new_wals import NewWalsEventTrigger, NewWalsTrigger
from walferry.base.zk import watcher
from walferry.base.zk.client import retried
from walferry.hbase.layout import OwnZNodes
from walferry.replication.queues.new_wals import find_new

from .conftest import REPO, end_of, load, run_sensor

__all__ = ["hbase", "new_client", "zk"]  # fixtures

GROUP = wal(0).rpartition(".")[0]
LIMIT_SECONDS = 60
DAG_FILE = """
from airflow.sdk import dag
from walferry.airflow.sensors.new_wals import NewWalsSensor

@dag(schedule=None, params={"peer": "p"})
def watched():
    NewWalsSensor(task_id="new_wals", peer="{{ params.peer }}", timeout=60)

watched()
"""
ASSET_DAG_FILE = """
from airflow.sdk import Asset, AssetWatcher, dag, task
from walferry.airflow.triggers.new_wals import NewWalsEventTrigger

watcher = AssetWatcher(name="p", trigger=NewWalsEventTrigger(peer="p", key="by_asset"))

@dag(schedule=[Asset("hbase-backlog-p", watchers=[watcher])], is_paused_upon_creation=False)
def by_asset():
    @task
    def look():
        pass

    look()

by_asset()
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE_SECONDS", 0.05)


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> HBaseZNodes:
    """The cluster as the connection `hbase_source`, with one WAL, being written, in peer p's queue."""
    host, port = zookeeper.quorum.split(":")
    extra = {"znode_parent": hbase.nodes.base, "wal_root": "file:///hbase", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": host, "port": int(port), "password": "s3cret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    hbase.add_wal(SERVER, "p", wal(1))
    return hbase


@pytest.fixture(scope="session")
def watched(airflow_db: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A DAG of one sensor, known to Airflow's database."""
    return load(tmp_path_factory.mktemp("dags") / "watched.py", DAG_FILE)


def run(dag: Any, **params: str) -> tuple[str, Any]:
    """Run the DAG to its end. Returns the sensor's state and its result."""
    return run_sensor(dag, "new_wals", {"peer": "p", **params})


def test_the_sensor_defers_and_fires_when_a_wal_is_closed(source: HBaseZNodes, watched: Any, later: Any) -> None:
    later(3, source.add_wal, SERVER, "p", wal(2))
    assert run(watched) == ("success", {"peer": "p", "wals": 1, "newest": {GROUP: 1}})


def test_the_sensor_fires_at_once_for_a_backlog_and_once_only(
    source: HBaseZNodes, watched: Any, later: Any, zk: KazooClient
) -> None:
    source.add_wal(SERVER, "p", wal(2))
    assert run(watched) == ("success", {"peer": "p", "wals": 1, "newest": {GROUP: 1}})
    assert find_new(session_of(zk, source), "p", "watched.new_wals") is None
    later(3, source.add_wal, SERVER, "p", wal(3))
    assert run(watched) == ("success", {"peer": "p", "wals": 1, "newest": {GROUP: 2}})


def test_a_peer_that_must_not_be_shipped_fails_the_sensor(
    source: HBaseZNodes, watched: Any, logged: Callable[[], str], last_words: Callable[[], str]
) -> None:
    source.set_state("p", "ENABLED")
    assert run(watched)[0] == "failed"
    assert last_words().startswith("peer p: it is ENABLED")
    assert run(watched, peer="nobody")[0] == "failed"
    assert "Traceback" not in logged()


def test_a_peer_that_is_enabled_while_the_sensor_waits_fails_it(
    source: HBaseZNodes, watched: Any, later: Any, logged: Callable[[], str], last_words: Callable[[], str]
) -> None:
    later(3, source.set_state, "p", "ENABLED")
    assert run(watched)[0] == "failed"
    assert last_words().startswith("peer p: it is ENABLED")
    assert "Traceback" not in logged()


def test_a_sensor_ends_as_another_policy_says_if_it_has_one(airflow_db: None, tmp_path: Path) -> None:
    of_dag = DAG_FILE.replace("@dag(", "@dag(default_args={'retry_policy': OTHER}, ").replace("watched", "others")
    text = f"from airflow.sdk import ExceptionRetryPolicy\nOTHER = ExceptionRetryPolicy(rules=[])\n{of_dag}"
    sensor = load(tmp_path / "others.py", text).get_task("new_wals")
    assert type(sensor.retry_policy).__name__ == "ExceptionRetryPolicy"


def test_a_sensor_whose_wals_another_run_took_waits_for_the_next(source: HBaseZNodes, zk: KazooClient) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    from walferry.airflow.sensors.new_wals import NewWalsSensor

    class Ti:
        dag_id, task_id = "watched", "new_wals"

    context: Any = {"ti": Ti}
    sensor = NewWalsSensor(task_id="new_wals", peer="p", timeout=60)
    event = {"peer": "p", "wals": 1, "newest": {GROUP: 1}}
    assert sensor.execute_complete(context, event) == event
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute_complete(context, event, until=2e9)
    assert deferred.value.kwargs == {"until": 2e9}
    assert sensor.execute_complete(context, {**event, "newest": {GROUP: 2}}) is not None


@pytest.mark.parametrize("kind", [NewWalsTrigger, NewWalsEventTrigger])
def test_what_is_serialized_makes_the_same_trigger_and_holds_no_secret(source: HBaseZNodes, kind: Any) -> None:
    from airflow.sdk.module_loading import import_string

    path, kwargs = kind("p", "k").serialize()
    assert json.loads(json.dumps(kwargs)) == kwargs == {"peer": "p", "key": "k", "source_conn_id": "hbase_source"}
    again = import_string(path)(**kwargs)
    assert isinstance(again, kind)
    assert again.serialize() == (path, kwargs)


async def first(trigger: NewWalsTrigger) -> TriggerEvent:
    """Return the trigger's first event, as the triggerer gets it for a deferred task."""
    try:
        async for event in trigger.run():
            return event
        raise AssertionError("the trigger ended without an event")
    finally:
        await trigger.cleanup()


def test_the_trigger_outlives_its_session(source: HBaseZNodes) -> None:
    async def scenario() -> TriggerEvent:
        trigger = NewWalsTrigger("p", "k")
        event = asyncio.ensure_future(first(trigger))
        while trigger._stream is None or trigger._stream._zk is None:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        await asyncio.to_thread(expire, trigger._stream._zk)
        await asyncio.to_thread(source.add_wal, SERVER, "p", wal(2))
        return await asyncio.wait_for(event, LIMIT_SECONDS)

    assert asyncio.run(scenario()).payload == {"peer": "p", "wals": 1, "newest": {GROUP: 1}}


def test_a_cancelled_trigger_leaves_no_thread(source: HBaseZNodes) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        event = asyncio.ensure_future(first(NewWalsTrigger("p", "k")))
        await asyncio.sleep(1)
        event.cancel()
        with pytest.raises(asyncio.CancelledError):
            await event

    asyncio.run(scenario())
    assert set(threading.enumerate()) <= before


class Triggerer:
    """The part of Airflow's triggerer that runs an asset's watchers: its own SharedStreamManager, and its database's answers."""

    def __init__(self, trigger: NewWalsEventTrigger) -> None:
        self.manager = SharedStreamManager()
        self.key = trigger.shared_stream_key()
        stream = self.manager.subscribe(trigger_id=1, trigger=trigger, key=self.key)
        self.events = trigger.filter_shared_stream(stream)
        self.pending: asyncio.Task[TriggerEvent] | None = None

    async def next(self, limit_s: float = LIMIT_SECONDS) -> tuple[Any, int | None]:
        """Return the next event and its number for `persisted`. After a TimeoutError the trigger still waits for it."""
        self.pending = self.pending or asyncio.ensure_future(anext(self.events))
        event = await asyncio.wait_for(asyncio.shield(self.pending), limit_s)
        number = self.manager.bind_pending_event(trigger_id=1, key=self.key)
        self.pending = asyncio.ensure_future(anext(self.events))
        return event.payload, number

    def persisted(self, number: int | None) -> None:
        assert number is not None
        self.manager.confirm_persisted([number])

    async def stop(self) -> None:
        if self.pending is not None:
            self.pending.cancel()
        await self.manager.unsubscribe(1, self.key)
        await self.manager.stop_all()


async def marked(source: HBaseZNodes, timestamp: int) -> None:
    """Wait until the cursor covers `timestamp`."""
    path = OwnZNodes(source.root, source.nodes).cursor("p", "k")
    for _ in range(300):
        if await asyncio.to_thread(retried, source.zk, source.zk.exists, path):
            value, _ = await asyncio.to_thread(source.zk.get, path)
            if json.loads(value).get(GROUP) == timestamp:
                return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the cursor never came to {timestamp}")


def test_an_asset_s_watcher_fires_for_each_roll_and_for_each_once(source: HBaseZNodes) -> None:
    async def scenario() -> list[Any]:
        triggerer, fired = Triggerer(NewWalsEventTrigger("p", "k")), []
        for timestamp in (2, 3):
            await asyncio.to_thread(source.add_wal, SERVER, "p", wal(timestamp))
            event, number = await triggerer.next()
            fired.append(event["newest"][GROUP])
            with pytest.raises(TimeoutError):
                await triggerer.next(1.5)
            triggerer.persisted(number)
            await marked(source, timestamp - 1)
        with pytest.raises(TimeoutError):
            await triggerer.next(1.5)
        await triggerer.stop()
        return fired

    assert asyncio.run(scenario()) == [1, 2]


def test_an_event_that_airflow_never_stored_is_fired_again(source: HBaseZNodes) -> None:
    async def scenario(store: bool) -> list[Any]:
        triggerer, fired = Triggerer(NewWalsEventTrigger("p", "k")), []
        try:
            event, number = await triggerer.next(5)
            fired.append(event["newest"][GROUP])
            if store:
                triggerer.persisted(number)
                await marked(source, 1)
        except TimeoutError:
            pass
        await triggerer.stop()
        return fired

    source.add_wal(SERVER, "p", wal(2))
    assert asyncio.run(scenario(store=False)) == [1]
    assert asyncio.run(scenario(store=True)) == [1]
    assert asyncio.run(scenario(store=True)) == []


def test_a_stopped_watcher_leaves_no_thread(source: HBaseZNodes) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        triggerer = Triggerer(NewWalsEventTrigger("p", "k"))
        with pytest.raises(TimeoutError):
            await triggerer.next(1)
        await triggerer.stop()

    asyncio.run(scenario())
    assert set(threading.enumerate()) <= before


def test_a_watcher_without_a_shared_stream_moves_the_mark_itself(source: HBaseZNodes) -> None:
    async def scenario() -> list[int]:
        fired = []
        for timestamp in (2, 3):
            source.add_wal(SERVER, "p", wal(timestamp))
        events = NewWalsEventTrigger("p", "k").run()
        fired.append((await asyncio.wait_for(anext(events), LIMIT_SECONDS)).payload["newest"][GROUP])
        waiting = asyncio.ensure_future(anext(events))
        await marked(source, 2)
        source.add_wal(SERVER, "p", wal(4))
        fired.append((await asyncio.wait_for(waiting, LIMIT_SECONDS)).payload["newest"][GROUP])
        await events.aclose()
        return fired

    assert asyncio.run(scenario()) == [2, 3]


def test_a_watcher_can_stand_in_a_dag_file(airflow_db: None, tmp_path: Path) -> None:
    for _ in range(2):  # watchers are stored once their DAG is known not to be paused
        load(tmp_path / "by_asset.py", ASSET_DAG_FILE)
    with create_session() as session:
        stored = session.query(Trigger).filter(Trigger.classpath.like("%NewWalsEventTrigger")).one()
        assert stored.kwargs == {"peer": "p", "key": "by_asset", "source_conn_id": "hbase_source"}


@pytest.fixture(scope="session")
def follow_peer(airflow_db: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example as it is shipped, with the id of these tests' peer, as its text says."""
    text = (REPO / "dags/examples/follow_peer.py").read_text()
    mine = text.replace('PEER = "2"', 'PEER = "p"')
    assert mine != text
    return load(tmp_path_factory.mktemp("dags") / "follow_peer.py", mine)


def test_the_shipped_example_goes_on_whenever_a_wal_is_closed(
    source: HBaseZNodes, follow_peer: Any, dags: dict[str, Any], later: Any, logged: Callable[[], str]
) -> None:
    params = dags[follow_peer.get_task("ship").trigger_dag_id].params
    for name, value in follow_peer.get_task("ship").conf.items():
        params.get_param(name).resolve(value=value)
    later(3, source.add_wal, SERVER, "p", wal(2))
    assert end_of(follow_peer.test(mark_success_pattern="^ship$").run_id).tasks == {
        ("wait_for_new_wals", None): "success", ("ship", None): "success", ("go_on", None): "success",
    }  # fmt: skip
    assert "peer p has got the edits of 1 more WALs" in logged()
    for timestamp in (3, 4):
        source.add_wal(SERVER, "p", wal(timestamp))
    follow_peer.test(mark_success_pattern="^ship$")
    assert "peer p has got the edits of 2 more WALs" in logged()


def test_airflow_takes_no_example_for_a_dag_of_its_own(dags: dict[str, Any]) -> None:
    assert "replicate_peer" in dags
    assert "follow_peer" not in dags
