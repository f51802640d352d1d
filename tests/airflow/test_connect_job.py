"""Batches through a Spark Connect server, in Airflow: the connection, who ships, and what a failing server means. None runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.hooks.spark_connect import SparkConnectError, WalferryConnectHook
from walferry.airflow.operators import connect_job, spark_job
from walferry.airflow.operators.connect_job import ThroughConnect
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.steps import batch, slaves
from walferry.airflow.values import Chosen, Planned
from walferry.engine.summary import GroupSummary, Status
from walferry.errors import WalferryError
from walferry.source.cluster import SourceCluster
from walferry.source.knobs import SinkKind
from walferry.spark import connect_ship
from walferry.spark.connect.errors import Interrupted, ServerGone
from walferry.spark.connect.server import Address
from walferry.spark.ship_run import ShipRun

from .conftest import Run

TOKEN = "a-secret-token"
CONNECTION = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 15002, "password": TOKEN}
DONE = GroupSummary(group="g1", server="s1", status=Status.DONE, shippedOps=7)
RUN = ShipRun(source=SourceCluster(quorum="zk1:2181", wal_root="file:///hbase"), peer_id="p", run_id="r", deadline=60)


@dataclass
class Cluster:
    """What the server and spark-submit do, and what they were asked."""

    error: Exception | None = None  # of the server
    left: list[GroupSummary] = field(default_factory=lambda: [DONE])  # by a job
    through_server: list[tuple[Address, ShipRun]] = field(default_factory=list)
    submitted: list[list[str]] = field(default_factory=list)

    def ship(self, ship: connect_ship.ConnectShip) -> list[GroupSummary]:
        self.through_server.append((ship._address, ship._run))
        if self.error is not None:
            raise self.error
        return self.left

    def submit(self, hook: WalferrySubmitHook, application: str) -> None:
        self.submitted.append(hook._build_spark_submit_command(application))

    def summaries(self, *_: object) -> list[GroupSummary]:
        return self.left if self.through_server or self.submitted else []


@contextmanager
def nothing(*_: object) -> Iterator[None]:
    yield


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, source_conn: None) -> Cluster:
    cluster = Cluster()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps(CONNECTION))
    monkeypatch.setattr(batch, "choose", lambda source, asked: Chosen(["p"], [], 0.0))
    monkeypatch.setattr(batch, "plan", lambda source, peer, attempt, *_: Planned(attempt, peer, groups=1, wals=1, bytes=100))
    monkeypatch.setattr(batch, "in_hand", nothing)
    monkeypatch.setattr(batch, "why_down", lambda *_: None)
    monkeypatch.setattr(batch, "why_paused", lambda *_: None)
    monkeypatch.setattr(batch, "summaries", cluster.summaries)
    monkeypatch.setattr(slaves, "for_job", lambda source, _: source)
    monkeypatch.setattr(connect_ship.ConnectShip, "ship", lambda ship: cluster.ship(ship))
    monkeypatch.setattr(WalferrySubmitHook, "submit", lambda hook, application="": cluster.submit(hook, application))
    return cluster


@pytest.fixture
def run(replicate_peer: Callable[..., Run], cluster: Cluster) -> Callable[..., Run]:
    return lambda **params: replicate_peer(**{"roll": False, **params})


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
    assert command[command.index("--run-id") + 1] == f"replicate_peer/{ended.run_id}.1"
    assert 0 < int(command[command.index("--deadline") + 1]) <= 60  # what is left of it
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
    assert [word for word in command if word.startswith("--sink")] == ([f"--sink={sink}"] if of_run else [])


@pytest.mark.parametrize(("megabytes", "octets"), [(None, None), (0, 0), (512, 512 << 20)])
def test_the_size_from_which_files_are_made_is_the_job_s_in_bytes(
    run: Callable[..., Run], cluster: Cluster, megabytes: int | None, octets: int | None
) -> None:
    cluster.error = ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")
    assert run(deadline=60, sink="auto", hfiles_from=megabytes).state == "success"
    ((_, shipped),) = cluster.through_server
    assert (shipped.sink, shipped.hfiles_from) == (SinkKind.AUTO, octets)
    (command,) = cluster.submitted
    said = [word for word in command if word.startswith("--hfiles-from")]
    assert said == ([] if octets is None else [f"--hfiles-from={octets}"])


def test_the_task_s_log_says_that_spark_submit_ships_and_never_the_token(
    run: Callable[..., Run], cluster: Cluster, logged: Callable[[], str]
) -> None:
    cluster.error = ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")
    run()
    logged = logged()
    assert logged.count("spark-submit ships instead: Spark Connect server 127.0.0.1:15002: connection refused") == 1
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
    assert command[command.index("--deadline") + 1] == "60"


def test_a_killed_task_ends_its_job_on_the_server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    operator = ShipWalsOperator(task_id="ship", peer="p", plan={})
    ended: list[object] = []
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(connect_ship.ConnectShip, "interrupt", lambda ship: ended.append(ship))
    monkeypatch.setattr(connect_ship.ConnectShip, "ship", lambda ship: operator.on_kill() or [])
    operator._connect.ship(RUN)
    assert len(ended) == 1


@pytest.mark.parametrize("server", [None, ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")])
def test_a_killed_task_begins_no_job_though_airflow_lets_it_go_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Exception | None
) -> None:
    operator = ShipWalsOperator(task_id="ship", peer="p", plan={}, deadline=60)
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    if server is None:  # killed before the server is asked
        operator.on_kill()
    else:  # and while the server goes away
        cluster.error = server
        monkeypatch.setattr(connect_ship.ConnectShip, "ship", lambda ship: operator.on_kill() or cluster.ship(ship))
    with pytest.raises(AirflowException, match="the task was killed"):
        operator._run({}, RUN)  # type: ignore[typeddict-item]
    assert cluster.submitted == []
    assert len(cluster.through_server) == (server is not None)


def test_a_task_that_is_killed_while_spark_submit_is_made_ready_does_not_start_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    operator = ShipWalsOperator(task_id="ship", peer="p", plan={}, deadline=60)
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_CONNECT")
    monkeypatch.setattr(spark_job, "build_archive", lambda folder: operator.on_kill() or tmp_path / "walferry-0.zip")
    with pytest.raises(AirflowException, match="the task was killed"):
        operator._run({}, RUN)  # type: ignore[typeddict-item]
    assert cluster.submitted == []


def test_a_task_that_is_killed_before_the_server_is_known_begins_no_job_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    through = ThroughConnect("spark_connect")
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(connect_job, "build_archive", lambda folder: through.interrupt() or tmp_path / "walferry-0.zip")
    with pytest.raises(AirflowException, match="the task was killed"):
        through.ship(RUN)
    assert cluster.through_server == []


def test_a_server_that_cannot_be_told_of_the_end_does_not_hold_up_a_killed_task(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    through = ThroughConnect("spark_connect")

    def gone(ship: object) -> None:
        raise ServerGone("Spark Connect server 127.0.0.1:15002: connection refused")

    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setattr(connect_ship.ConnectShip, "interrupt", gone)
    monkeypatch.setattr(connect_ship.ConnectShip, "ship", lambda ship: through.interrupt() or [DONE])
    assert through.ship(RUN) is None


@pytest.mark.parametrize(
    ("changed", "address"),
    [
        ({"port": None}, Address("127.0.0.1", 15002, token=TOKEN)),
        ({"host": "sc://localhost", "login": "ops"}, Address("localhost", 15002, "ops", TOKEN)),
        ({"host": "spark.example.org", "extra": {"use_ssl": True}}, Address("spark.example.org", token=TOKEN, tls=True)),
        ({"host": "spark.example.org", "extra": {"use_ssl": "true"}}, Address("spark.example.org", token=TOKEN, tls=True)),
        ({"host": "spark.example.org", "password": None}, Address("spark.example.org")),
        ({"host": "::1"}, Address("::1", token=TOKEN)),
        ({"host": "[::1]"}, Address("[::1]", token=TOKEN)),
        ({"extra": {"tasks": 32}}, Address("127.0.0.1", token=TOKEN, tasks=32)),
    ],
)
def test_the_connection_says_where_the_server_is(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], address: Address
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps({**CONNECTION, **changed}))
    assert WalferryConnectHook("spark_connect").address() == address


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"host": ""}, "connection 'spark_connect': its host must be"),
        ({"extra": {"tasks": 0}}, "`tasks` in its extra must be a number from 1 to 1000"),
        ({"extra": {"tasks": "many"}}, "`tasks` in its extra must be a number from 1 to 1000"),
        ({"host": f"sc://server:15002/;token={TOKEN};use_ssl=true"}, "its host must be just a server's name or address"),
        ({"host": f"127.0.0.1;token={TOKEN}"}, "The port and the token .the password. have fields of their own"),
        ({"host": "localhost:15002"}, "its host must be just a server's name or address"),
        ({"host": "ser ver"}, "its host must be just a server's name or address"),
        ({"host": "fe80::1%eth0"}, "its host must be just a server's name or address"),
        ({"password": f"{TOKEN}\n"}, "its password, the server's token, has a blank, a line break"),
        ({"password": f"{TOKEN}\u00e9"}, "a character that is not ASCII, and so cannot be sent"),
        ({"host": "spark.example.org"}, "the token would travel to spark.example.org:15002 unencrypted.*use_ssl"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_and_spark_submit_ships(
    run: Callable[..., Run], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps({**CONNECTION, **changed}))
    with pytest.raises(SparkConnectError, match=message) as refused:
        WalferryConnectHook("spark_connect").address()
    assert TOKEN not in str(refused.value)
    ended = run()
    assert ended.reports["p"]["by_spark_submit"] == str(refused.value)
    assert (cluster.through_server, len(cluster.submitted)) == ([], 1)


def test_without_a_connection_there_is_no_server(monkeypatch: pytest.MonkeyPatch, airflow_db: None) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_CONNECT", raising=False)
    assert WalferryConnectHook("spark_connect").address() is None
