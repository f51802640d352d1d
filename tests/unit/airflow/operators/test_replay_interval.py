"""A replay's task when its job has failed: it is tried again, unless its peer was paused."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.operators import replay_interval
from walferry.airflow.operators.replay_interval import ReplayIntervalOperator
from walferry.base.zk.errors import ConnectError
from walferry.hbase.errors import PausedPeer
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports.replay import PlannedInterval
from walferry.runs.steps import batch, slaves

PARAMS = {"source_conn_id": "hbase_source", "deadline": 60, "tables": None, "dry_run": False, "what_is_there": False}


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> ReplayIntervalOperator:
    """The task of a replay whose job fails."""

    def fail(*_: object) -> None:
        raise AirflowException("the job has failed")

    source = SourceCluster(quorum="zk:2181", wal_root="file:///none")
    monkeypatch.setattr(HBaseSourceHook, "get_conn", lambda hook: source)
    monkeypatch.setattr(slaves, "for_job", lambda source, peer: source)
    monkeypatch.setattr(replay_interval, "ProgressLog", lambda *_: nullcontext())
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

    for why_paused in (lambda *_: None, away):
        monkeypatch.setattr(batch, "why_paused", why_paused)
        with pytest.raises(AirflowException, match="the job has failed") as raised:
            replay.execute({"params": PARAMS})  # type: ignore[arg-type]
        assert raised.type is AirflowException
