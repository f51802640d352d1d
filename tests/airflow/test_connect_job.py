"""Batches through a Spark Connect server, in Airflow: who ships, and the effect of a failing server. No server runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.operators import spark_job
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.operators.spark_job import ThroughConnect
from walferry.base.errors import WalferryError
from walferry.base.jobs import MAX_LINE_CHARS, JobOutcome
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs.connect.connect_job import ConnectJob
from walferry.jobs.connect.errors import Interrupted, ServerGone
from walferry.replication.peers.settings import SinkKind

from .conftest import Run
from .connect_stubs import DONE, RUN, TOKEN, Cluster, cluster, run
from .submitted_jobs import job_in

__all__ = ["cluster", "run"]  # fixtures


def test_the_server_of_the_connection_ships_and_no_spark_is_started(run: Callable[..., Run], cluster: Cluster) -> None:
    ended = run(deadline=60, broken_wals="whole-entries")
    assert ended.state == "success"
    ((address, shipped),) = cluster.through_server
    assert (address.host, address.port, address.token, address.user) == ("127.0.0.1", 15002, TOKEN, "walferry")
    assert (shipped.peer_id, shipped.deadline, shipped.broken_wals, shipped.groups) == ("p", 60, "whole-entries", None)
    assert shipped.run_id == f"replicate_peer/{ended.run_id}.1"
    assert cluster.submitted == []
    assert ended.reports["p"]["totals"]["shippedOps"] == 7
    assert ended.reports["p"]["by_spark_submit"] == ""


def test_a_server_that_is_gone_means_spark_submit_once_with_a_word(run: Callable[..., Run], cluster: Cluster) -> None:
    cluster.error = ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")
    ended = run(deadline=60)
    assert ended.state == "success"
    assert (len(cluster.through_server), len(cluster.submitted)) == (1, 1)
    (command,) = cluster.submitted
    assert job_in(command).run_id == f"replicate_peer/{ended.run_id}.1"
    assert 0 < job_in(command).deadline <= 60  # the rest of the deadline
    assert "connection refused" in ended.reports["p"]["by_spark_submit"]
    assert TOKEN not in json.dumps(ended.reports) + " ".join(command)


@pytest.mark.parametrize(("sink", "of_run"), [("configured", None), *((kind.value, kind) for kind in SinkKind)])
def test_the_run_s_sink_is_that_of_the_job_wherever_it_runs(
    run: Callable[..., Run], cluster: Cluster, sink: str, of_run: SinkKind | None
) -> None:
    cluster.error = ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")
    assert run(deadline=60, sink=sink).state == "success"
    ((_, shipped),) = cluster.through_server
    assert shipped.sink is of_run
    (command,) = cluster.submitted
    assert job_in(command).sink is of_run


@pytest.mark.parametrize(("megabytes", "octets"), [(None, None), (0, 0), (512, 512 << 20)])
def test_the_size_from_which_files_are_made_is_the_job_s_in_bytes(
    run: Callable[..., Run], cluster: Cluster, megabytes: int | None, octets: int | None
) -> None:
    cluster.error = ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")
    assert run(deadline=60, sink="auto", hfiles_from=megabytes).state == "success"
    ((_, shipped),) = cluster.through_server
    assert (shipped.sink, shipped.hfiles_from) == (SinkKind.AUTO, octets)
    (command,) = cluster.submitted
    assert job_in(command).hfiles_from == octets


def test_the_task_s_log_says_that_spark_submit_ships_and_never_the_token(
    run: Callable[..., Run], cluster: Cluster, logged: Callable[[], str]
) -> None:
    cluster.error = ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")
    run()
    logged = logged()
    assert logged.count("spark-submit runs the job instead: Spark Connect server 127.0.0.1:15002: connection refused") == 1
    assert TOKEN not in logged


def test_a_group_that_the_server_could_not_ship_is_no_reason_for_spark_submit(run: Callable[..., Run], cluster: Cluster) -> None:
    cluster.left = [DONE, GroupSummary(group="g2", server="s2", status=Status.FAILED, error="table t does not exist")]
    ended = run()
    assert ended.state == "failed"
    assert ended.reports["p"]["failures"] == ["s2 g2: failed: table t does not exist"]
    assert (len(cluster.through_server), ended.tries["peer.ship", "p"], cluster.submitted) == (1, 1, [])


def test_a_job_that_was_ended_on_purpose_is_tried_again_by_airflow_alone(run: Callable[..., Run], cluster: Cluster) -> None:
    cluster.error, cluster.left = Interrupted("[OPERATION_CANCELED] Operation has been canceled."), []
    ended = run()
    assert ended.state == "failed"
    assert (len(cluster.through_server), ended.tries["peer.ship", "p"], cluster.submitted) == (2, 2, [])


def test_a_run_that_may_not_begin_fails_as_it_does_through_spark_submit(run: Callable[..., Run], cluster: Cluster) -> None:
    cluster.error, cluster.left = WalferryError("peer p: it is ENABLED"), []
    assert run().state == "failed"
    assert cluster.submitted == []


def test_without_the_connection_spark_submit_ships_and_nothing_is_said(
    run: Callable[..., Run], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_CONNECT")
    ended = run(deadline=60)
    assert (ended.state, cluster.through_server, len(cluster.submitted)) == ("success", [], 1)
    assert ended.reports["p"]["by_spark_submit"] == ""
    command = cluster.submitted[0]
    assert 59 < job_in(command).deadline <= 60


def test_a_killed_task_ends_its_job_on_the_server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    operator = ShipWalsOperator(task_id="ship", peer="p", plan={})
    ended: list[object] = []
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(ConnectJob, "interrupt", lambda job: ended.append(job))
    monkeypatch.setattr(ConnectJob, "run_job", lambda job, say: operator.on_kill() or JobOutcome())
    operator._connect.run(RUN)
    assert len(ended) == 1


@pytest.mark.parametrize("server", [None, ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")])
def test_a_killed_task_begins_no_job_though_airflow_lets_it_go_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Exception | None
) -> None:
    operator = ShipWalsOperator(task_id="ship", peer="p", plan={})
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    if server is None:  # killed before the server is asked
        operator.on_kill()
    else:  # and while the server goes away
        cluster.error = server
        monkeypatch.setattr(ConnectJob, "run_job", lambda job, say: operator.on_kill() or cluster.ship(job))
    with pytest.raises(AirflowException, match="the task was killed"):
        operator.run_job({}, RUN)  # type: ignore[typeddict-item]
    assert cluster.submitted == []
    assert len(cluster.through_server) == (server is not None)


def test_a_task_that_is_killed_before_the_server_is_known_begins_no_job_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    through = ThroughConnect("spark_connect")
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(spark_job, "build_archive", lambda folder: through.interrupt() or tmp_path / "walferry-0.zip")
    with pytest.raises(AirflowException, match="the task was killed"):
        through.run(RUN)
    assert cluster.through_server == []


def test_a_server_that_cannot_be_told_of_the_end_does_not_hold_up_a_killed_task(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    through = ThroughConnect("spark_connect")

    def gone(ship: object) -> None:
        raise ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")

    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(ConnectJob, "interrupt", gone)
    monkeypatch.setattr(ConnectJob, "run_job", lambda job, say: through.interrupt() or JobOutcome())
    assert through.run(RUN) is None


def test_what_a_server_says_can_neither_end_a_line_of_the_log_nor_control_a_terminal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forged = "r1: no\n::group::\x1b[8m" + "A" * 100_000
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(ConnectJob, "run_job", lambda job, say: say(forged) or JobOutcome(lines=[forged], errors=[forged]))
    with caplog.at_level("INFO", "walferry.airflow.operators.spark_job"):
        assert ThroughConnect("spark_connect").run(RUN) is None
    said = [record.getMessage() for record in caplog.records if record.name == "walferry.airflow.operators.spark_job"]
    assert len(said) == 3
    assert all(text.isprintable() and len(text) <= MAX_LINE_CHARS for text in said)
