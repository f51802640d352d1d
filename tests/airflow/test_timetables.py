"""The intervals of replay_interval: backfills use them, and the schedule makes no run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from .test_run_checks import airflow

DAG = "replay_interval"


def test_a_backfill_divides_its_time_into_intervals(dags: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    dates = ["--from-date", "2025-03-01T10:00:00+00:00", "--to-date", "2025-03-01T10:00:12+00:00"]
    airflow("backfill", "create", "--dag-id", DAG, *dates, "--dry-run")
    reported = capsys.readouterr().out
    assert [seconds for seconds in ("10:00:00", "10:00:06", "10:00:12", "10:00:18") if seconds in reported] == [
        "10:00:00", "10:00:06", "10:00:12"
    ]  # fmt: skip


def test_the_scheduler_makes_no_run(dags: dict[str, Any]):
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.timetables.base import TimeRestriction
    from airflow.utils.session import create_session

    with create_session() as session:
        assert session.get(DagModel, DAG).next_dagrun is None
        timetable = session.scalar(SerializedDagModel.latest_item_select_object(DAG)).dag.timetable
    assert timetable.periodic  # so that Airflow offers backfills
    since = datetime(2025, 1, 1, tzinfo=UTC)
    restriction = TimeRestriction(since, None, catchup=False)
    assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction) is None
