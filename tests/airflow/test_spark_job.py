"""A Spark job that a task submits: its input, its failures, and its ends."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.operators import spark_job
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.base.jobs import JobOutcome
from walferry.jobs import waiting

from .connect_stubs import RUN, Cluster, cluster
from .test_spark import _script

__all__ = ["cluster"]  # fixtures


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("echo all is well; kill -9 $$", "spark-submit was killed by signal 9.*Its last line was: all is well"),
        ("echo spark.secret=hunter2 went wrong; exit 1", "^The Spark job has failed: spark.secret=.* went wrong$"),
    ],
    ids=["killed", "failed"],
)
def test_a_failed_job_is_told_without_secrets(monkeypatch, tmp_path, body, reported):
    with pytest.raises(AirflowException, match=reported) as error:
        _submitted(monkeypatch, tmp_path, body)
    assert "hunter2" not in str(error.value)


def test_a_job_that_ends_with_its_killed_task_is_not_told_as_a_failure_of_spark(monkeypatch, tmp_path):
    operators = []
    monkeypatch.setattr(WalferrySubmitHook, "_process_spark_submit_log", lambda *_: operators[0].on_kill())
    with pytest.raises(AirflowException, match=r"^the task was killed, and its Spark job with it$"):
        _submitted(monkeypatch, tmp_path, "exec sleep 60", operators)


class _Waiting:
    """A task that waits for a job whose driver runs elsewhere, and what the driver has left."""

    settings: ClassVar = {"spark.yarn.appMasterEnv.X": "name"}

    def __init__(self, outcome: JobOutcome | None) -> None:
        self.report = lambda: outcome


def _on_yarn(monkeypatch, outcome=None):
    monkeypatch.setattr(waiting, "waiting", lambda source: nullcontext(_Waiting(outcome)))
    return '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}'


def test_a_killed_task_ends_spark_submit_also_if_the_driver_runs_on_yarn(monkeypatch, tmp_path):
    operators = []

    def kill(hook: WalferrySubmitHook, lines: Iterator[str]) -> None:
        hook._yarn_application_id = "application_1_0001"
        operators[0].on_kill()

    monkeypatch.setattr(WalferrySubmitHook, "_process_spark_submit_log", kill)
    with pytest.raises(AirflowException, match=r"^the task was killed, and its Spark job with it$"):
        _submitted(monkeypatch, tmp_path, "exec sleep 60", operators, _on_yarn(monkeypatch))


@pytest.mark.parametrize("code", [0, 1])
def test_a_driver_elsewhere_says_why_its_job_has_failed_and_the_error_says_where_the_logs_are(monkeypatch, tmp_path, code):
    body = f"echo 'tracking URL: http://rm/proxy/application_1_0001/'; exit {code}"
    outcome = JobOutcome(lines=["g: failed"], errors=["no table"], failed=True)
    reported = r"^The job walferry ship peer p has failed: no table\. For the logs .* -applicationId application_1_0001$"
    with pytest.raises(AirflowException, match=reported):
        _submitted(monkeypatch, tmp_path, body, connection=_on_yarn(monkeypatch, outcome))


def test_a_job_that_its_driver_has_brought_to_its_end_is_done_although_its_application_master_died_then(monkeypatch, tmp_path):
    _submitted(monkeypatch, tmp_path, "exit 1", connection=_on_yarn(monkeypatch, JobOutcome(lines=["all is copied"])))


def test_an_application_that_has_left_nothing_is_told_with_its_logs(monkeypatch, tmp_path):
    body = "echo 'tracking URL: http://rm/proxy/application_1_0001/'; echo it went wrong; exit 1"
    with pytest.raises(AirflowException, match=r"it went wrong\. For the logs .* -applicationId application_1_0001$"):
        _submitted(monkeypatch, tmp_path, body, connection=_on_yarn(monkeypatch))


LOCAL = '{"conn_type": "spark", "host": "local"}'


def _submitted(monkeypatch, tmp_path, body, operators=None, connection=LOCAL):
    """Submit a job of ours through a spark-submit that does `body`."""
    _script(tmp_path / "spark-submit", body)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    operator = SparkJobOperator(task_id="job")
    (operators if operators is not None else []).append(operator)
    operator.submit({}, RUN)


def test_a_task_that_is_killed_while_spark_submit_is_made_ready_does_not_start_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    operator = ShipWalsOperator(task_id="ship", peer="p", plan={})
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_CONNECT")
    monkeypatch.setattr(spark_job, "build_archive", lambda folder: operator.on_kill() or tmp_path / "walferry-0.zip")
    with pytest.raises(AirflowException, match="the task was killed"):
        operator.run_job({}, RUN)  # type: ignore[typeddict-item]
    assert cluster.submitted == []
