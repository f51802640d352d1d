"""Gives these tests their own Airflow: a temporary home, SQLite, this repo's dags and plugins.

Importing this file sets the environment. That happens before any test imports airflow.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
BUNDLE = "dags-folder"
RETRY_SECONDS, LOOK_SECONDS = 0.1, 0.15
DEFAULTS = {  # dag.test() keeps a run's parameters for the next
    "replicate_peer": {"peer": None, "roll": True, "deadline": 1800, "sink": "configured"},
    "initial_snapshot": {"peer": None, "tables": None, "allow_not_empty": False},
    "hand_back_peer": {"peer": None, "new_peer": None},
    "quarantine_wal": {"peer": None, "wal": None},
    "regionserver_failover": {"server": None, "deadline": 120},
    "replay_interval": {
        **{"peer": None, "from_date": None, "to_date": None, "tables": None},
        **{"dry_run": False, "roll": True, "what_is_there": False, "deadline": 120},
    },
    "drain_recovered_queue": {"peer": None, "queue": None, "dry_run": False, "delete_orphan": False, "deadline": 120},
    "verify_peer": {
        "peer": None, "tables": None, "start_row": None, "stop_row": None, "start_time": None, "end_time": None, "versions": 1,
        "deleted": False, "recompares": 0, "recompare_seconds": 1, "repair": False, "from_files": False,
    },
    "merge_changes": {"peer": None, "tables": None},
    "region_transitions": {"dry_run": True, "limit_minutes": 10, "wait_minutes": 1, "host": "localhost"},
    "emergency_start": {"min_servers": 1, "limit_minutes": 10, "wait_minutes": 1, "host": "localhost"},
    "region_master": {
        "patience": 0, "balance_minutes": 0, "yields": True, "clients": True, "limit_minutes": 10, "host": "localhost",
    },
    "retention": {"ttl": 600, "warn_held_gib": 100, "warn_blocked_hours": 24, "warn_days_left": 0, "listed": 200},
    "check_connections": {"source_conn_id": "hbase_source", "peer": None},
    "watch_replication": {"source_conn_id": "hbase_source", "warn_days_left": 0},
    "complete_hours": {"source_conn_id": "hbase_source"},
}  # fmt: skip

assert "airflow" not in sys.modules, "airflow was imported before its environment was set: run tests/airflow in its own process"
HOME = Path(tempfile.mkdtemp(prefix="walferry-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
ENVIRON = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__WALFERRY__REPLAY_INTERVALS": "* * * * * */6",  # the last field is seconds
}
os.environ.update(ENVIRON)


@pytest.fixture(scope="session")
def airflow_db() -> Iterator[None]:
    """The metadata database, migrated.

    Before each run, dag.test() parses all DAG files and writes them to the database, which takes longer than a run of ours.
    Here `dags` and `load` do so, once. It also looks once a second whether a task may be tried again; here more often.
    """
    from airflow.dag_processing import dagbag
    from airflow.sdk.definitions import dag
    from airflow.utils.db import initdb

    initdb()
    sync, sleep = dagbag.sync_bag_to_db, time.sleep

    def sync_unless_known(bag: Any, *more: Any) -> None:
        if bag is not None:
            sync(bag, *more)

    def sleep_less(seconds: float) -> None:
        sleep(LOOK_SECONDS if sys._getframe(1).f_code.co_filename == dag.__file__ else seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dagbag, "BundleDagBag", lambda **_: None)  # only dag.test() and commands make it
        patch.setattr(dagbag, "sync_bag_to_db", sync_unless_known)
        patch.setattr(time, "sleep", sleep_less)  # dag.test() imports it at each call
        yield


@pytest.fixture
def source_conn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid source connection that leads nowhere."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_HBASE_SOURCE", '{"conn_type": "generic", "host": "zk1", "extra": {"wal_root": "file:///hbase"}}'
    )


@dataclass(frozen=True)
class Run:
    """A run's end: its state, the tasks' states and tries by task and label of the mapped instance, and the reports by peer."""

    run_id: str
    state: str
    tasks: dict[tuple[str, str | None], str]
    tries: dict[tuple[str, str | None], int]
    reports: dict[str, dict[str, Any]]

    @property
    def report(self) -> dict[str, Any]:
        """The report of a run that is not split by peer."""
        return self.reports[""]


@pytest.fixture(scope="session")
def dags(airflow_db: None) -> dict[str, Any]:
    """This repo's DAGs of one source, known to the database; retries come at once."""
    return known_dags()


def known_dags() -> dict[str, Any]:
    """Make this repo's DAGs known to the database, with retries that come at once. Returns the DAGs."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(REPO / "dags"), bundle_name=BUNDLE)
    for dag in bag.dags.values():
        for task in dag.tasks:
            (task.partial_kwargs if task.is_mapped else task.__dict__)["retry_delay"] = timedelta(seconds=RETRY_SECONDS)
    sync_bag_to_db(bag, BUNDLE, None)
    return dict(bag.dags)


def load(path: Path, text: str) -> Any:
    """Make a DAG file known to Airflow's database. Returns the DAG, which has the file's name."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    path.write_text(text)
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(path.parent), bundle_name=BUNDLE)
    assert not bag.import_errors
    sync_bag_to_db(bag, BUNDLE, None)
    return bag.dags[path.stem]


def run_sensor(dag: Any, task_id: str, conf: dict[str, Any]) -> tuple[str, Any]:
    """Run a DAG of one sensor to its end. Returns the sensor's state and its result."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    ended = dag.test(run_conf=conf)
    with create_session() as session:
        instance = session.query(TaskInstance).filter(TaskInstance.run_id == ended.run_id).one()
        xcom = session.scalars(XComModel.get_many(run_id=ended.run_id, key="return_value", task_ids=task_id)).first()
        return str(instance.state), xcom and XComModel.deserialize_value(xcom)


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """The tasks' output since the last call, and everything that was logged, where the ends of tasks are not wrapped."""
    return lambda: "".join(capfd.readouterr()) + "\n".join(message.replace("\n  ", " ") for message in caplog.messages)


@pytest.fixture
def last_words(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """The end of the log of the task that failed first."""

    def reported() -> str:
        with_words = [record.getMessage() for record in caplog.records if record.name == "walferry.airflow.endings"]
        return next(text for text in with_words if text != "::endgroup::")

    return reported


@pytest.fixture
def later() -> Iterator[Callable[..., None]]:
    """`later(seconds, function, *args)`: something that happens while Airflow waits."""
    timers: list[threading.Timer] = []

    def start(delay: float, function: Callable[..., Any], *args: Any) -> None:
        timers.append(threading.Timer(delay, function, args))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.join()


@pytest.fixture
def run_dag(dags: dict[str, Any]) -> Callable[..., Run]:
    """`run_dag("replicate_peer", peer="2", …)` runs that DAG to its end, in this process."""

    def run(dag_id: str, **params: Any) -> Run:
        return end_of(dags[dag_id].test(run_conf={**DEFAULTS[dag_id], **params}).run_id)

    return run


@pytest.fixture
def clear(dags: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """`clear("replicate_peer", run, "task", …)` clears these tasks of a run with all that follows, as people do; without a task
    the whole run. Then the run goes on to its end, as with `run_dag`."""
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session

    def clear(dag_id: str, run: Run, *tasks: str) -> Run:
        dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dags[dag_id]))
        those = dag.partial_subset(tasks, include_downstream=True, include_upstream=False).task_ids if tasks else dag.task_ids
        with create_session() as session:
            dag.clear(run_id=run.run_id, task_ids=list(those), session=session)
        return go_on(dags[dag_id], run.run_id, monkeypatch)

    return clear


def go_on(dag: Any, run_id: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the remaining tasks of a run that is in the database already."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    def resumed(*, dag: Any, session: Any, **_: Any) -> DagRun:
        run = session.scalars(select(DagRun).where(DagRun.run_id == run_id, DagRun.dag_id == dag.dag_id)).one()
        run.dag, run.state = dag, "running"
        session.commit()
        return run

    with monkeypatch.context() as patch:
        patch.setattr("airflow.models.dagrun.get_or_create_dagrun", resumed)
        return end_of(dag.test().run_id)


def end_of(run_id: str) -> Run:
    """Return how a run ended, from Airflow's database."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        (run,) = session.query(DagRun).filter(DagRun.run_id == run_id).all()
        instances = session.query(TaskInstance).filter(TaskInstance.run_id == run_id).all()
        tasks = {(ti.task_id, ti.rendered_map_index): str(ti.state) for ti in instances}
        tries = {(ti.task_id, ti.rendered_map_index): ti.try_number for ti in instances}
        values = XComModel.get_many(run_id=run_id, key="return_value", task_ids=["peer.report", "report"])
        reports = [XComModel.deserialize_value(x) for x in session.scalars(values).all()]
    return Run(run_id, str(run.state), tasks, tries, {report.get("peer", ""): report for report in reports})


@pytest.fixture
def replicate_peer(run_dag: Callable[..., Run]) -> Callable[..., Run]:
    """`replicate_peer(peer="2", …)` runs that DAG."""
    return partial(run_dag, "replicate_peer")
