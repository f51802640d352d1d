"""A replay's task when its job has failed: it is tried again, unless its peer was paused."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.tasks.replay import ReplayIntervalOperator, interval_of
from walferry.base.zk.errors import ConnectError
from walferry.hbase.errors import PausedPeer
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.input import InputError
from walferry.runs.reports.replay import PlannedInterval
from walferry.runs.steps import batch

PARAMS = {"source_conn_id": "hbase_source", "deadline": 60, "tables": None, "dry_run": False, "what_is_there": False}
TEN, ELEVEN, NOON = (datetime(2025, 3, 1, hour, tzinfo=UTC) for hour in (10, 11, 12))


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> ReplayIntervalOperator:
    """The task of a replay whose job fails."""

    def fail(*_: object) -> None:
        raise AirflowException("the job has failed")

    source = SourceCluster(quorum="zk:2181", wal_root="file:///none")
    monkeypatch.setattr(HBaseSourceHook, "get_conn", lambda hook: source)
    monkeypatch.setattr(batch, "for_job", lambda source, peer: source)
    monkeypatch.setattr("walferry.airflow.tasks.replay.ProgressLog", lambda *_: nullcontext())
    monkeypatch.setattr(ReplayIntervalOperator, "run_job", fail)
    plan = PlannedInterval.of("run", "p", 0, 3_600_000, problems=[], groups=1, wals=2, bytes=100)
    return ReplayIntervalOperator(task_id="ship", plan=plan.to_xcom())


def test_a_replay_whose_peer_was_paused_is_not_submitted_again(
    replay: ReplayIntervalOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "why_paused", lambda source, peer: str(PausedPeer(peer)))
    with pytest.raises(AirflowFailException, match=r"peers resume p.*clear the task ship"):
        replay.execute({"params": PARAMS})  # type: ignore[arg-type]


def test_a_replay_that_fails_otherwise_is_tried_again(replay: ReplayIntervalOperator, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise ConnectError("away")

    for name, found in (("open_session", away), ("why_paused", lambda *_: None)):
        monkeypatch.setattr(batch, name, found)
        with pytest.raises(AirflowException, match="the job has failed") as raised:
            replay.execute({"params": PARAMS})  # type: ignore[arg-type]
        assert raised.type is AirflowException


def context(kind: str, start: datetime | None = None, end: datetime | None = None, **conf: Any) -> Any:
    run = SimpleNamespace(dag_id="d", run_type=kind, conf=conf, data_interval_start=start, data_interval_end=end)
    params = {"from_date": None, "to_date": None}
    # Airflow adds whatever the conf has to a run's parameters.
    return {"dag_run": run, "dag": SimpleNamespace(params=params), "params": params | conf}


def test_a_backfill_s_run_has_its_data_interval_and_a_run_by_hand_what_it_is_given():
    assert interval_of(context("backfill", TEN, ELEVEN), NOON) == (TEN, ELEVEN)
    given = {"from_date": "2025-03-01T10:00:00Z", "to_date": "2025-03-01T12:00:00+01:00"}
    assert interval_of(context("manual", TEN, NOON, **given), NOON) == (TEN, ELEVEN)


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (context("manual", TEN, ELEVEN), "needs both from_date and to_date"),
        (context("manual", from_date="2025-03-01T10:00:00Z"), "needs both"),
        (context("manual", from_date="2025-03-01T10:00:00", to_date="2025-03-01T11:00:00Z"), "from_date is .* with its zone"),
        (context("manual", from_date="now", to_date="2025-03-01T11:00:00Z"), "from_date is 'now'"),
        (context("manual", from_date="2025-03-01T11:00:00Z", to_date="2025-03-01T11:00:00Z"), "is empty"),
        (context("manual", from_date="2025-03-01T11:00:00Z", to_date="2025-03-01T12:00:01Z"), "is not over yet"),
        (context("backfill", TEN, ELEVEN, to_date="2025-03-01T11:00:00Z"), "a backfill has intervals .* leave out to_date"),
        (context("backfill", TEN, ELEVEN, pear="2"), "there is no parameter 'pear'"),
    ],
)
def test_a_run_without_an_interval_of_the_past_is_refused(refused: Any, why: str):
    with pytest.raises(InputError, match=why):
        interval_of(refused, NOON)
