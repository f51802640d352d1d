"""Runs that are refused before they do anything: backfills, and parameters that a DAG does not have."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.exceptions import DagRunTypeNotAllowed
from airflow.models.backfill import DagNonPeriodicScheduleException
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.types import DagRunType

from tests.zk.hbase_znodes import HBaseZNodes
from walferry.airflow.forms.run_checks import check_conf, peer_of
from walferry.runs.input import InputError

from .conftest import DEFAULTS, HOME, Run, end_of
from .recovery_stubs import Spark, at, dead, drain, failover, hbase, new_client, spark, zk
from .test_replicate_peer import Cluster, cluster, run

__all__ = ["at", "cluster", "dead", "drain", "failover", "hbase", "new_client", "run", "spark", "zk"]  # fixtures

DAGS = ("replicate_peer", "regionserver_failover", "drain_recovered_queue")


def test_a_parameter_that_the_dag_does_not_have_refuses_a_batch_before_anything_is_done(
    run, cluster: Cluster, caplog: pytest.LogCaptureFixture
):
    ended = run(peers="p")
    assert (ended.state, ended.tasks["peers", None], ended.tries["peers", None]) == ("failed", "failed", 1)
    assert "success" not in ended.tasks.values()
    assert cluster.rolls == cluster.commands == []
    reported = " ".join(" ".join(caplog.messages).split())
    assert "there is no parameter 'peers' (did you mean 'peer'?). Parameters of replicate_peer: source_conn_id, peer" in reported


@pytest.mark.parametrize("dag", ["failover", "drain"])
def test_a_parameter_that_the_dag_does_not_have_refuses_a_recovery_before_anything_is_done(
    dag: str, request: pytest.FixtureRequest, dead: HBaseZNodes, spark: Spark
):
    before = dead.everything()
    ended: Run = request.getfixturevalue(dag)(deadlin=60, nonsense="p")
    assert ended.state == "failed"
    (reason,) = ended.report["failures"]
    assert "there is no parameter 'deadlin' (did you mean 'deadline'?); there is no parameter 'nonsense'" in reason
    assert ". Parameters of " in reason
    assert spark.commands == []
    assert dead.everything() == before


@pytest.mark.parametrize("run_type", DagRunType)
def test_a_run_without_a_peer_is_told_how_to_name_one(run_type: DagRunType) -> None:
    """Airflow's form of a backfill leaves out what was entered, unless a box is ticked that is not below *Run Parameters*."""
    context: Any = {"params": {"peer": None}, "dag_run": SimpleNamespace(run_type=run_type)}
    with pytest.raises(InputError, match="the run needs a peer: give it as the parameter `peer`") as refused:
        peer_of(context)
    assert ("tick Override parameters on existing runs." in str(refused.value)) == (run_type == DagRunType.BACKFILL_JOB)


def test_the_message_proposes_the_nearest_name_and_lists_all() -> None:
    with pytest.raises(InputError) as refused:
        check_conf("replicate_peer", {"peers": ["a"], "zzz{{1}}": 1}, ["source_conn_id", "peer", "roll"], {})
    assert str(refused.value) == (
        "there is no parameter 'peers' (did you mean 'peer'?); there is no parameter 'zzz{{1}}'. "
        "Parameters of replicate_peer: source_conn_id, peer, roll. Nothing was done"
    )


def test_what_airflow_adds_to_a_conf_is_no_parameter_and_what_it_does_not_hand_on_is_refused() -> None:
    check_conf("d", {"openlineage": {"parentRunId": "x"}, "peer": "p"}, ["peer"], {"peer": "p"})
    check_conf("d", {}, ["peer"], {"peer": None})
    with pytest.raises(InputError, match="peer: Airflow does not hand on what the run was given"):
        check_conf("d", {"peer": "p"}, ["peer"], {"peer": None})


SINKS = [{"sink": "files"}, {"sink": None}, {"hfiles_from": -1}, {"hfiles_from": "256"}, {"hfiles_from": 1 << 31}]


@pytest.mark.parametrize("dag", DAGS)
@pytest.mark.parametrize("conf", SINKS, ids=str)
def test_airflow_refuses_to_trigger_with_a_sink_that_there_is_not(dags: dict[str, Any], dag: str, conf: dict[str, Any]):
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.types import DagRunTriggeredByType

    needed = {"drain_recovered_queue": {"peer": "p"}}.get(dag, {})
    with pytest.raises((ParamValidationError, ValueError), match=next(iter(conf))):
        trigger_dag(dag, conf={**needed, **conf}, triggered_by=DagRunTriggeredByType.CLI)


@pytest.mark.parametrize("conf", [{"deadline": "soon"}, {"peer": ["p"]}, {"roll": 1}, {"broken_wals": "ignore"}], ids=str)
def test_airflow_refuses_to_trigger_with_a_value_of_a_wrong_type(dags: dict[str, Any], conf: dict[str, Any]):
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.types import DagRunTriggeredByType

    with pytest.raises((ParamValidationError, ValueError), match=next(iter(conf))):
        trigger_dag("replicate_peer", conf=conf, triggered_by=DagRunTriggeredByType.CLI)


def airflow(*words: str) -> None:
    """Run Airflow's own command line, in this process."""
    args = get_parser().parse_args(words)
    args.func(args)


def in_database(run_id: str) -> list[Any]:
    """Return the rows of Airflow's database about a run, its tasks and its XComs."""
    queries = [
        "select run_id, run_type, state, conf from dag_run",
        "select task_id, map_index, state, try_number from task_instance",
        "select task_id, map_index, key, value from xcom",
    ]
    with sqlite3.connect(HOME / "airflow.db") as db:
        return [sorted(map(repr, db.execute(f"{query} where run_id = ?", [run_id]))) for query in queries]


@pytest.mark.parametrize("behavior", ["none", "failed", "completed"])
def test_airflow_refuses_a_backfill_and_leaves_what_the_earlier_runs_reported(
    dags: dict[str, Any], cluster: Cluster, behavior: str
):
    cluster.job_fails = 9 if behavior == "failed" else 0
    at = datetime(2025, 3, 1, 10, {"none": 0, "failed": 5, "completed": 10}[behavior], tzinfo=UTC)
    ended = end_of(dags["replicate_peer"].test(logical_date=at, run_conf=DEFAULTS["replicate_peer"]).run_id)
    before = in_database(ended.run_id)
    dates = ["--from-date", at.isoformat(), "--to-date", (at + timedelta(minutes=5)).isoformat()]
    with pytest.raises(DagRunTypeNotAllowed, match="'replicate_peer' does not allow backfill runs"):
        airflow("backfill", "create", "--dag-id", "replicate_peer", *dates, "--reprocess-behavior", behavior)
    assert in_database(ended.run_id) == before


@pytest.mark.parametrize("dag_id", DAGS)
def test_a_backfill_is_possible_of_no_dag(dags: dict[str, Any], dag_id: str):
    assert "backfill" not in {str(getattr(kind, "value", kind)) for kind in dags[dag_id].allowed_run_types}
    words = ["backfill", "create", "--dag-id", dag_id, "--from-date", "2025-03-01", "--to-date", "2025-03-02"]
    for more in ([], ["--dry-run"]):
        with pytest.raises((DagRunTypeNotAllowed, DagNonPeriodicScheduleException)):
            airflow(*words, *more)


def test_a_run_that_a_backfill_has_made_nevertheless_is_refused_in_words(
    run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Such a run may have existed before its DAG refused backfills."""
    create = DagRun.__init__

    def as_backfill(run: DagRun, *args: Any, **kwargs: Any) -> None:
        create(run, *args, **{**kwargs, "run_type": DagRunType.BACKFILL_JOB})

    monkeypatch.setattr(DagRun, "__init__", as_backfill)
    ended = run()
    assert (ended.state, ended.tasks["peers", None], ended.tries["peers", None]) == ("failed", "failed", 1)
    assert cluster.rolls == cluster.commands == []
    reported = " ".join(" ".join(caplog.messages).split())
    assert "replicate_peer cannot be backfilled: a WAL is shipped once, from where the positions in ZooKeeper are" in reported
    assert "trigger a run by hand" in reported
