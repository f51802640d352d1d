"""Two sources in one Airflow that share a ZooKeeper and Walferry's root there, with peers and dead servers of the same names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, LastingZNodes, wal
from walferry.airflow.forms import choices
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.tasks import watch
from walferry.replication.source.cluster import SourceCluster

from .conftest import DEFAULTS, Run, end_of, known_dags
from .recovery_stubs import Spark, at, hbase, new_client, refused_at_once, zk
from .submitted_jobs import job_in
from .test_watch_replication import notified, state

__all__ = ["at", "hbase", "new_client", "notified", "refused_at_once", "zk"]  # fixtures

VARIABLES = (choices.VARIABLE, watch.VARIABLE)


@pytest.fixture(scope="module")
def dags_of_both(airflow_db: None) -> dict[str, Any]:
    """The DAGs of `hbase_source` and `west`, known to the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__WALFERRY__SOURCES", "hbase_source,west")
        return known_dags()


@pytest.fixture
def run(dags_of_both: dict[str, Any]) -> Callable[..., Run]:
    """`run("retention", "west", …)` runs the DAG of that source to its end."""

    def run(dag: str, of: str = "", **params: Any) -> Run:
        dag_id = f"{dag}-{of}" if of else dag
        conf = {name: value for name, value in DEFAULTS[dag].items() if name != "source_conn_id"}
        return end_of(dags_of_both[dag_id].test(run_conf={**conf, **params}).run_id)

    return run


@pytest.fixture
def west(
    at: SourceCluster, hbase: HBaseZNodes, new_client: Callable[[], KazooClient], zookeeper: ZooKeeperServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[HBaseZNodes]:  # fmt: skip
    """The second source. Its znodes differ from those of the first one only in `znode_parent`."""
    cluster = LastingZNodes.new(new_client())
    cluster.add_peer("p")
    (tmp_path / "west" / "oldWALs").mkdir(parents=True)
    extra = {"znode_parent": cluster.nodes.base, "wal_root": f"file://{tmp_path}/west", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_WEST", json.dumps(connection))
    forget()
    yield cluster
    forget()


@pytest.fixture
def spark(at: SourceCluster, west: HBaseZNodes, zk: KazooClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bases of the sources whose jobs were run, by stubs that take the queues away."""
    ran: list[str] = []

    def submit(hook: WalferrySubmitHook, application: str = "") -> None:
        source = job_in(hook._build_spark_submit_command(application)).source
        ran.append(source.znode_parent)
        Spark(zk, source).submit(hook, application)

    monkeypatch.setattr(WalferrySubmitHook, "submit", submit)
    return ran


def variables() -> dict[str, Any]:
    """Return Walferry's Variables of all sources."""
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    with create_session() as session:
        return {each.key: json.loads(each.val) for each in session.query(Variable) if each.key.startswith(VARIABLES)}


def forget() -> None:
    """Delete these Variables."""
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    with create_session() as session:
        for key in variables():
            session.query(Variable).filter(Variable.key == key).delete()


def test_a_dead_server_is_recovered_at_its_own_source_only(
    run: Callable[..., Run], hbase: HBaseZNodes, west: HBaseZNodes, spark: list[str]
) -> None:
    for cluster in (hbase, west):
        cluster.add_wal(DEAD, "p", wal(1, DEAD))
    hbase.add_wal(DEAD, "p", wal(2, DEAD))
    there = hbase.everything()

    assert run("drain_recovered_queue", dry_run=True).state == "success"
    assert run("regionserver_failover", "west").state == "success"
    assert spark == [west.nodes.base]
    assert west.queued("p") == []
    assert hbase.everything() == there
    assert variables() == {"walferry_recovered_queues": [f"{DEAD}/p"], "walferry_recovered_queues-west": []}

    ended = run("regionserver_failover")
    assert ended.state == "success"
    assert spark == [west.nodes.base, hbase.nodes.base]
    assert hbase.queued("p") == []
    assert ended.report["totals"]["completedLogs"] == 2


def test_people_are_notified_of_each_source_by_itself(
    run: Callable[..., Run], hbase: HBaseZNodes, west: HBaseZNodes, notified: Callable[[], list[str]]
) -> None:
    for cluster in (hbase, west):
        cluster.set_config("p", {"walferry.managed": "true", "walferry.paused": "true"})
    west.add_wal(SERVER, "gone", wal(1))
    assert state(run("watch_replication")) == ("success", "success")
    assert state(run("watch_replication", "west")) == ("failed", "failed")
    (text,) = notified()
    assert text.startswith("watch_replication-west: orphaned queues: 1 queue with 1 WAL")

    hbase.add_wal(SERVER, "gone", wal(1))  # the same finding at the other source is a new one
    assert state(run("watch_replication")) == ("failed", "failed")
    (text,) = notified()
    assert text.startswith("watch_replication: orphaned queues: 1 queue with 1 WAL")
    for of in ("", "west"):
        assert state(run("watch_replication", of)) == ("success", "skipped")
    kept = variables()
    assert kept.keys() == {"walferry_notified", "walferry_notified-west"}
    assert all(len(of_source["notified"]) == 1 for of_source in kept.values())


@pytest.mark.usefixtures("refused_at_once")
def test_a_source_that_is_away_fails_its_own_runs_only(
    run: Callable[..., Run], west: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = {"conn_type": "generic", "host": "127.0.0.1", "port": 1, "extra": {"wal_root": "file:///hbase"}}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(nowhere))
    for dag in ("retention", "replicate_peer"):
        params = {"peer": "p", "roll": False} if dag == "replicate_peer" else {}
        assert run(dag, **params).state == "failed"
        assert run(dag, "west", **params).state == "success"
