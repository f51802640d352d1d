"""The DAG complete_hours, run by Airflow itself, over a ZooKeeper with HBase's znodes. There is no HMaster: tables are given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.airflow.tasks import complete_hours as module
from walferry.observe import complete_hours as complete
from walferry.observe.complete_hours import HOUR_MS, hour_text

from .conftest import Run, load
from .recovery_stubs import hbase, new_client, refused_at_once

__all__ = ["hbase", "new_client", "refused_at_once"]  # fixtures

pytestmark = pytest.mark.usefixtures("refused_at_once")

DAG, PEER = "complete_hours", "p"
ORDERS = "hbase://p.hbase_source/default:orders"
DOWNSTREAM = f"""
from airflow.sdk import Asset, PartitionedAssetTimetable, dag, task

@dag(schedule=PartitionedAssetTimetable(assets=Asset({ORDERS!r})))
def hourly_orders():
    @task
    def read(dag_run=None):
        print(dag_run.partition_key)
    read()

hourly_orders()
"""


@pytest.fixture
def site(
    tmp_path: Path, zookeeper: Any, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch, airflow_db: None
) -> Iterator[HBaseZNodes]:
    """A source with a managed peer, whose tables are `orders` and `shop:items`. A DAG waits for the first of them."""
    (tmp_path / "oldWALs").mkdir()
    (tmp_path / "dags").mkdir()
    extra = {"wal_root": f"file://{tmp_path}", "znode_parent": hbase.nodes.base, "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    monkeypatch.setattr(complete, "tables_of", lambda source, peers: {peer: ["orders", "shop:items"] for peer in peers})
    load(tmp_path / "dags" / "hourly_orders.py", DOWNSTREAM)
    unpause("hourly_orders")
    forget()
    yield hbase
    forget()


def unpause(dag_id: str) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(DagModel).filter(DagModel.dag_id == dag_id).update({"is_paused": False})


def forget() -> None:
    from airflow.models.asset import AssetEvent, AssetPartitionDagRun
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(AssetPartitionDagRun).delete()
        session.query(Variable).filter(Variable.key.startswith(module.VARIABLE)).delete()
        session.query(AssetEvent).delete()


def announced() -> list[tuple[str, str]]:
    """All events that Airflow has: the asset's URI, and the hour."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        uris = {asset.id: asset.uri for asset in session.query(AssetModel).all()}
        return [(uris[event.asset_id], str(event.partition_key)) for event in session.query(AssetEvent).order_by(AssetEvent.id)]


def marked(since: int) -> None:
    """Let hours since then count as not announced."""
    from airflow.models.variable import Variable

    Variable.set(module.VARIABLE, {PEER: {"sure_ms": since, "told_ms": 0, "by": ""}}, serialize_json=True)


def hours(*begins: int) -> list[tuple[str, str]]:
    return [(ORDERS, hour_text(ms)) for ms in begins]


def test_hours_are_announced_once_a_dead_server_s_wals_are_gone(site: HBaseZNodes, run_dag: Callable[..., Run]) -> None:
    now = int(time.time() * 1000)
    last = now // HOUR_MS * HOUR_MS  # the present hour
    site.add_wal(SERVER, PEER, wal(now))
    killed = [site.add_wal(SERVER, f"{PEER}-{DEAD}", wal(ms, DEAD)) for ms in (last - 2 * HOUR_MS + 120_000, last + 1)]
    assert run_dag(DAG).state == "success"
    assert announced() == []  # a peer that was never seen begins with its next whole hour

    marked(last - 4 * HOUR_MS)
    assert run_dag(DAG).state == "success"
    assert sorted(announced()) == hours(last - 4 * HOUR_MS, last - 3 * HOUR_MS)
    assert run_dag(DAG).state == "success"
    assert len(announced()) == 2  # nothing new

    site.zk.delete(killed[0])
    assert run_dag(DAG).state == "success"
    # The second WAL is of the present hour, of whose first minute nothing is known to be complete.
    assert sorted(announced()) == hours(*(last - back * HOUR_MS for back in (4, 3, 2)))


def test_the_runs_of_a_dag_that_waits_have_the_hour_as_their_partition(site: HBaseZNodes, run_dag: Callable[..., Run]) -> None:
    from airflow.models.asset import AssetPartitionDagRun
    from airflow.utils.session import create_session

    now = int(time.time() * 1000)
    last = now // HOUR_MS * HOUR_MS
    site.add_wal(SERVER, PEER, wal(last - HOUR_MS + 120_000))
    marked(last - 3 * HOUR_MS)
    run_dag(DAG)
    with create_session() as session:
        runs = session.query(AssetPartitionDagRun).filter(AssetPartitionDagRun.target_dag_id == "hourly_orders").all()
        assert sorted(run.partition_key for run in runs) == [hour_text(last - back * HOUR_MS) for back in (3, 2)]


def test_hours_of_a_run_that_did_not_succeed_are_announced_again(
    site: HBaseZNodes, run_dag: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time() * 1000)
    last = now // HOUR_MS * HOUR_MS
    site.add_wal(SERVER, PEER, wal(last - HOUR_MS + 120_000))
    marked(last - 2 * HOUR_MS)
    keep = module._keep

    def killed(*args: Any) -> None:
        keep(*args)
        raise OSError("killed once the mark was written")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_keep", killed)
        assert run_dag(DAG).state == "failed"
    assert announced() == []
    assert run_dag(DAG).state == "success"
    assert announced() == hours(last - 2 * HOUR_MS)


def test_no_run_announces_more_events_than_it_may_and_the_next_goes_on(
    site: HBaseZNodes, run_dag: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time() * 1000)
    last = now // HOUR_MS * HOUR_MS
    site.add_wal(SERVER, PEER, wal(last + 1))
    marked(last - 6 * HOUR_MS)
    monkeypatch.setattr(module, "MOST_EVENTS", 2)
    found = []
    for _ in range(4):
        run_dag(DAG)
        found.append(len(announced()))
    assert found == [1, 2, 3, 4]  # each hour has two tables, of which a DAG names one


@pytest.mark.parametrize("value", ['"x"', '{"p": 5}', '{"p": {"sure_ms": 17, "told_ms": 0, "by": ""}}', "[[[", "{}"])
def test_a_variable_that_makes_no_sense_ends_no_run(site: HBaseZNodes, run_dag: Callable[..., Run], value: str) -> None:
    from airflow.models.variable import Variable

    Variable.set(module.VARIABLE, value)
    site.add_wal(SERVER, PEER, wal(int(time.time() * 1000)))
    assert run_dag(DAG).state == "success"
    assert announced() == []


def test_nothing_is_announced_while_a_queue_may_be_hidden(
    site: HBaseZNodes, run_dag: Callable[..., Run], logged: Callable[[], str]
) -> None:
    last = int(time.time() * 1000) // HOUR_MS * HOUR_MS
    site.add_wal(SERVER, PEER, wal(last))
    site.zk.create(f"{site.nodes.queues}/junk", makepath=True)
    site.zk.create(f"{site.nodes.queues}/junk/{PEER}", makepath=True)
    marked(last - 3 * HOUR_MS)
    assert run_dag(DAG).state == "success"
    assert announced() == []


def test_a_source_that_does_not_answer_fails_the_run_and_says_why(
    site: HBaseZNodes, run_dag: Callable[..., Run], last_words: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "generic", "host": "127.0.0.1:1", "extra": {"wal_root": "file:///nowhere"}}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    assert run_dag(DAG).state == "failed"
    assert "which hours are complete is not known" in last_words()
