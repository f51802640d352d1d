"""A Spark job that a task submits: its input, its failures, and its ends."""

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.operators import spark_job
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.operators.spark_job import SparkJobOperator

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


def _submitted(monkeypatch, tmp_path, body, operators=None):
    """Submit a job of ours through a spark-submit that does `body`."""
    _script(tmp_path / "spark-submit", body)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
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
