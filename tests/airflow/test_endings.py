"""The end of a failed task's log, as Airflow's own task runner writes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from airflow.sdk import BaseOperator, RetryDecision
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.endings import END_OF_GROUP, Ended, RetryIfItHelps
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.run_notes import DAGS
from walferry.base.zk.errors import ConnectError
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.queues.needed_rolls import RollChoice
from walferry.replication.queues.rolling import Rolled
from walferry.runs.steps import batch

from .conftest import Run
from .recovery_stubs import at, hbase, new_client, zk
from .test_replicate_peer import DONE, Cluster, cluster, run

ROLL = batch.roll  # before the cluster of these tests takes its place

__all__ = ["at", "cluster", "hbase", "new_client", "run", "zk"]  # fixtures


@pytest.fixture
def endings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The last words of each failed task, and of each of its tries, without the line that ends a fold of the UI."""
    return lambda: [
        f"{record.levelname} {record.getMessage()}"
        for record in caplog.records
        if record.name == "walferry.airflow.endings" and record.getMessage() != END_OF_GROUP
    ]


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The errors that have left the failed tasks."""
    found: list[BaseException] = []
    ask = RetryIfItHelps.evaluate

    def evaluate(policy: RetryIfItHelps, exception: BaseException, *args: Any, **kwargs: Any) -> RetryDecision:
        found.append(exception)
        return ask(policy, exception, *args, **kwargs)

    monkeypatch.setattr(RetryIfItHelps, "evaluate", evaluate)
    return found


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> Any:
        raise error

    return call


def test_a_known_failure_ends_the_log_of_each_try_without_a_traceback(
    run: Callable[..., Run], cluster: Cluster, endings: Callable[[], list[str]],
    raised: list[BaseException], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(batch, "choose", raising(ConnectError("no ZooKeeper server at zk1:2181 answers", "Correct the host")))
    ended = run()
    assert (ended.state, ended.tries["peers", None]) == ("failed", 3)
    assert endings() == ["ERROR no ZooKeeper server at zk1:2181 answers. Correct the host"] * 3
    assert [type(error) for error in raised] == [Ended] * 3  # Airflow's task runner logs no traceback of these


def test_what_is_not_known_keeps_its_traceback_and_is_named_below_it(
    run: Callable[..., Run], cluster: Cluster, endings: Callable[[], list[str]],
    raised: list[BaseException], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(batch, "choose", raising(KeyError("nobody thought of this")))
    ended = run()
    assert (ended.state, ended.tries["peers", None]) == ("failed", 3)
    assert endings()[0].startswith("ERROR KeyError: 'nobody thought of this'. Walferry does not know this error")
    assert [type(error) for error in raised] == [KeyError] * 3  # the runner has logged their tracebacks by then


def test_each_failure_of_a_report_is_a_line_at_the_end_of_its_log(
    run: Callable[..., Run], cluster: Cluster, endings: Callable[[], list[str]], raised: list[BaseException]
) -> None:
    cluster.job_fails = 9
    cluster.left = [DONE, *(GroupSummary(group=g, status=Status.FAILED, error=f"no table {g}") for g in ("g2", "g3"))]
    ended = run()
    assert ended.tries["peer.ship", "p"] == 1
    ship, report = endings()
    assert ship.startswith("ERROR peer p: 2 WAL groups failed: g2: failed: no table g2; g3: failed: no table g3")
    assert report == "ERROR FAILED g2: failed: no table g2\nFAILED g3: failed: no table g3"
    assert {type(error) for error in raised} == {Ended}


def test_of_many_servers_that_were_not_rolled_the_log_has_all(
    run: Callable[..., Run], cluster: Cluster, endings: Callable[[], list[str]], caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cluster.unrolled = {f"s{number:02}": "no answer" for number in range(30)}
    monkeypatch.setattr(batch, "open_session", lambda source: nullcontext())
    monkeypatch.setattr(batch, "_is_shippable", lambda *_: True)
    monkeypatch.setattr(batch.needed_rolls, "choose", lambda *_: RollChoice(frozenset()))
    monkeypatch.setattr(batch.needed_rolls, "note", lambda *_: None)
    monkeypatch.setattr(batch, "near_limit", lambda *_: [])
    monkeypatch.setattr(batch.rolling, "roll", lambda *_: Rolled(1, cluster.unrolled))
    monkeypatch.setattr(batch, "roll", ROLL)
    run()
    reported = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [f"roll of {server}: no answer" for server in cluster.unrolled] == [text for text in reported if "roll of" in text]
    assert endings()[0].endswith("roll of s09: no answer\nand 11 more: see the warnings above")


def test_a_job_that_was_killed_is_tried_again_as_before(
    run: Callable[..., Run], cluster: Cluster, endings: Callable[[], list[str]]
) -> None:
    cluster.job_fails = 1
    ended = run()
    assert (ended.state, ended.tries["peer.ship", "p"]) == ("success", 2)
    assert endings() == ["ERROR spark-submit ended with 1"]


def test_an_operator_without_the_policy_fails_as_airflow_s_own_do() -> None:
    plan = {"run_id": "r", "peer": "p", "groups": 1}
    operator = ShipWalsOperator(task_id="ship", peer="p", plan=plan)
    assert isinstance(operator, BaseOperator)
    with pytest.raises(Exception, match="connection 'nowhere' is not defined") as error:
        operator.execute({"params": {"source_conn_id": "nowhere"}})  # type: ignore[typeddict-item]
    assert not isinstance(error.value, AirflowException | SystemExit)


@pytest.mark.parametrize("dag_id", sorted(DAGS))
def test_a_parameter_that_nobody_knows_refuses_a_run_of_each_dag_at_once(
    dag_id: str, run_dag: Callable[..., Run], at: object, endings: Callable[[], list[str]]
) -> None:
    ended = run_dag(dag_id, source_con_id="x")
    assert ended.state == "failed"
    acting = ("act", "copy", "expire_archive", "ship", "start", "watch")
    assert "success" not in {state for (task, _), state in ended.tasks.items() if task in acting}
    first = endings()[0].replace("\n  ", " ")
    assert first.startswith("ERROR there is no parameter 'source_con_id' (did you mean 'source_conn_id'?). Parameters of ")
    assert f"Parameters of {dag_id}: source_conn_id" in first
    assert first.endswith("Nothing was done")
    assert max(ended.tries[task] for task, state in ended.tasks.items() if state == "failed") == 1
