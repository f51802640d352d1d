"""The task that keeps the master's role: what it waits for, and how it ends. Real servers: test_region_master_standalone_on_…"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, TaskDeferred

from walferry.airflow.endings import Ended
from walferry.airflow.sources import WrongSources, check_names
from walferry.airflow.tasks import region_master, regions
from walferry.airflow.tasks.region_master import STALE_SECONDS, RegionMasterOperator, kept_for, kept_params
from walferry.airflow.triggers.no_master import NoMasterTrigger
from walferry.master import keeping
from walferry.master.errors import LiveMaster, RoleLost
from walferry.replication.source import session
from walferry.replication.source.cluster import SourceCluster

from .conftest import DEFAULTS

PARAMS = {**DEFAULTS["region_master"], "source_conn_id": "hbase_source", "listen": None, "port": 0, "patience": 7}
SOURCE = SourceCluster(quorum="zk", wal_root="file:///hbase")


class Kept:
    """Stands for the master's work."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.checked: list[Any] = []
        self.work: Callable[[threading.Event], Any] = lambda stop: ("an HMaster",)

    def check_keepable(self, at: Any) -> None:
        self.checked.append(at)

    def keep_role(self, at: Any, terms: Any, stop: threading.Event, tell: Any, **others: Any) -> Any:
        self.calls.append({"at": at, "terms": terms, **others})
        return self.work(stop)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    found = Kept()

    class Open:
        def __init__(self, source: SourceCluster, **_: Any) -> None:
            self.source = source

        def __enter__(self) -> str:
            return f"a session of {self.source.quorum}"

        def __exit__(self, *_: object) -> None:
            pass

    ti = SimpleNamespace(dag_id="region_master", run_id="r", task_id="keep")
    monkeypatch.setattr(keeping, "keep_role", found.keep_role)
    monkeypatch.setattr(keeping, "check_keepable", found.check_keepable)
    monkeypatch.setattr(session, "open_session", Open)
    monkeypatch.setattr(region_master, "source", lambda: SOURCE)
    monkeypatch.setattr(region_master, "check_run", lambda: None)
    monkeypatch.setattr("walferry.airflow.tasks.regions.get_current_context", lambda: {"params": PARAMS, "ti": ti})
    return found


@pytest.fixture
def operator() -> RegionMasterOperator:
    from airflow.sdk import DAG

    from walferry.airflow.endings import RetryIfItHelps

    with DAG("any", schedule=None):
        return RegionMasterOperator(task_id="keep", retry_policy=RetryIfItHelps())


CONTEXT: Any = {"params": PARAMS}


def event(age: float = 1.0) -> dict[str, Any]:
    """The trigger's event."""
    return {"seconds": 7.0, "at": time.time() - age}


def test_the_run_waits_without_a_worker_until_there_is_no_master(operator: RegionMasterOperator, kept: Kept) -> None:
    with pytest.raises(TaskDeferred) as waits:
        operator.execute(CONTEXT)
    assert isinstance(waits.value.trigger, NoMasterTrigger)
    assert waits.value.trigger.arguments == {"patience_seconds": 7, "source_conn_id": "hbase_source"}
    assert waits.value.timeout is None
    assert (kept.calls, kept.checked) == ([], ["a session of zk"])


def test_then_it_keeps_the_role_until_an_hmaster_waits_and_waits_again(operator: RegionMasterOperator, kept: Kept) -> None:
    with pytest.raises(TaskDeferred):
        operator.execute_complete(CONTEXT, event())
    (call,) = kept.calls
    terms = call.pop("terms")
    assert call == {"at": "a session of zk", "balance_seconds": None, "yields": True}
    assert (terms.run, terms.holder) == (None, "region_master r keep")  # no other run is displaced
    assert (terms.limit_seconds, terms.serves_clients, terms.host) == (600, True, "localhost")


def test_an_old_event_is_not_believed(operator: RegionMasterOperator, kept: Kept) -> None:
    """A worker may come late: an HMaster may have come back, and gone again for a moment."""
    with pytest.raises(TaskDeferred):
        operator.execute_complete(CONTEXT, event(STALE_SECONDS + 1))
    assert kept.calls == []


def test_a_master_that_was_faster_is_waited_for(operator: RegionMasterOperator, kept: Kept) -> None:
    def faster(_: threading.Event) -> None:
        raise LiveMaster("m1", "/hbase/master")

    kept.work = faster
    with pytest.raises(TaskDeferred):
        operator.execute_complete(CONTEXT, event())


def test_a_killed_task_gives_the_role_back_and_does_not_wait_again(operator: RegionMasterOperator, kept: Kept) -> None:
    def until_killed(stop: threading.Event) -> None:
        operator.on_kill()
        assert stop.wait(10)

    kept.work = until_killed
    with pytest.raises(Ended, match="the task was killed, and has given the master's role back"):
        operator.execute_complete(CONTEXT, event())


def test_a_lost_role_is_a_failure_that_another_try_may_repair(operator: RegionMasterOperator, kept: Kept) -> None:
    def lose(_: threading.Event) -> None:
        raise RoleLost("the ZooKeeper session ended")

    kept.work = lose
    with pytest.raises(Ended, match="no longer acts as the cluster's master") as ended:
        operator.execute_complete(CONTEXT, event())
    assert ended.value.retry_helps


def test_a_source_that_cannot_be_watched_is_told(operator: RegionMasterOperator, kept: Kept) -> None:
    with pytest.raises((AirflowException, Ended), match="no cluster"):
        operator.execute_complete(CONTEXT, {"error": "no cluster there"})
    assert kept.calls == []


def test_it_runs_by_itself_only_for_the_sources_that_the_option_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__WALFERRY__REGION_MASTERS", raising=False)
    assert kept_for("hbase_source") is None
    monkeypatch.setenv("AIRFLOW__WALFERRY__REGION_MASTERS", "legacy, west")
    assert [kept_for(name) for name in ("legacy", "west", "hbase_source")] == ["*/5 * * * *", "*/5 * * * *", None]
    check_names("region_masters", ["hbase_source", "legacy", "west"])
    with pytest.raises(WrongSources, match="'legacy' is not among the option sources"):
        check_names("region_masters", ["hbase_source", "west"])


def test_the_option_says_where_runs_by_themselves_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WALFERRY__REGION_MASTER_ADDRESS", "one.example.org:16000; west=two; south=:7")
    found = {name: kept_params(name) for name in ("any", "west", "south")}
    addresses = {name: (params["host"].value, params["port"].value) for name, params in found.items()}
    assert addresses == {"any": ("one.example.org", 16000), "west": ("two", 0), "south": (None, 7)}
    assert found["any"]["limit_minutes"].schema["minimum"] == 1
    assert found["any"]["host"].description == regions.ROLE_PARAMS["host"].description
    assert regions.ROLE_PARAMS["host"].value is None
