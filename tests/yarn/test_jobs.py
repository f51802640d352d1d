"""Jobs on a real YARN, as Airflow's operator submits them: both sinks, in client and in cluster mode."""

from __future__ import annotations

import re

import pytest
from airflow.sdk.exceptions import AirflowException

from embedded.processes import wait_until
from tests.yarn.conftest import CLUSTER, MODES, ROWS, TEST_SECONDS, WALS, Backlog, OnYarn, ship
from walferry.airflow.operators import spark_job
from walferry.base.zk.client import children
from walferry.initial_snapshot.job import CopyRun
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.session import open_session
from walferry.verification.results import read_result
from walferry.verification.verify_run import VerifyRun


def tasks_waiting(backlog: Backlog) -> list[str]:
    with open_session(backlog.at) as session:
        return children(session.zk, session.own.waiting("x").rpartition("/")[0]) or []


@pytest.mark.timeout(TEST_SECONDS)
@MODES
def test_a_backlog_is_shipped_and_its_task_learns_where_it_ran(on_yarn: OnYarn, backlog: Backlog, mode: str) -> None:
    """In cluster mode Spark's driver runs in a container of YARN."""
    operator = on_yarn.run(ship(backlog))
    backlog.check_shipped()
    (application,) = [app for app in on_yarn.yarn.applications() if app in operator.tracked] or pytest.fail(on_yarn.told())
    assert operator.tracked.rstrip("/") == f"{on_yarn.yarn.web}/proxy/{application}"
    assert on_yarn.yarn.applications()[application]["finalStatus"] == "SUCCEEDED", on_yarn.told()
    assert tasks_waiting(backlog) == []
    # The master tells YARN the outcome, and ends a moment later.
    wait_until(lambda: not on_yarn.yarn.containers(application), "the containers end", processes=[], timeout=30)
    summaries = [line for line in [*on_yarn.lines, *on_yarn.printed(application)] if line.startswith("[{")]
    assert len(summaries) == 1
    assert on_yarn.lines.count(summaries[0]) == (mode == "client")


@pytest.mark.timeout(TEST_SECONDS)
@CLUSTER
def test_files_of_a_backlog_are_loaded_and_the_outcome_reaches_the_task(
    on_yarn: OnYarn, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(spark_job, "_say", said.append)
    operator = on_yarn.run(ship(backlog, sink=SinkKind.HFILES))
    backlog.check_shipped()
    assert [line for line in said if re.search(rf"done, shipped {WALS} WALs, {WALS * ROWS} operations", line)], said
    (application,) = [app for app in on_yarn.yarn.applications() if app in operator.tracked]
    printed = on_yarn.printed(application)
    assert [line for line in printed if re.match(r"loaded [1-9][\d,]* files with", line)], on_yarn.told()


@pytest.mark.timeout(TEST_SECONDS)
@CLUSTER
def test_tables_are_copied_and_compared(on_yarn: OnYarn, backlog: Backlog) -> None:
    backlog.source.flush(backlog.table)
    on_yarn.run(CopyRun(source=backlog.at, peer_id=backlog.peer, run_id="copy", tables=(backlog.table,)))
    assert backlog.source.compare(backlog.table, backlog.peer_cluster, raw=True).same
    backlog.peer_cluster.put_many(backlog.table, 1, ["f:only"], first=0)
    table = (backlog.table,)
    on_yarn.run(VerifyRun(source=backlog.at, peer_id=backlog.peer, run_id="compare", tables=table))
    with open_session(backlog.at) as session:
        outcomes = read_result(session, backlog.peer, "compare")
    assert outcomes is not None
    (outcome,) = outcomes
    assert (outcome.table, outcome.good, outcome.bad_rows) == (backlog.table, WALS * ROWS - 1, 1), outcome


@pytest.mark.timeout(TEST_SECONDS)
@CLUSTER
def test_why_a_job_has_failed_comes_from_a_driver_elsewhere(on_yarn: OnYarn, backlog: Backlog) -> None:
    backlog.source.enable_peer(backlog.peer)
    with pytest.raises(AirflowException, match=rf"peer {backlog.peer}.*ENABLED.*yarn logs -applicationId application_\d+_\d+$"):
        on_yarn.run(ship(backlog))
    assert "an earlier driver has brought this job to its end" in on_yarn.told()
