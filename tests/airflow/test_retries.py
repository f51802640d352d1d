"""One retry policy for all tasks: an error says itself whether trying again can help."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import RetryAction

from walferry.airflow.endings import RetryIfItHelps
from walferry.airflow.tasks.recovery import RecoveryFailed
from walferry.base.zk.errors import ConnectError
from walferry.hbase.errors import EnabledPeer, StorageError
from walferry.replication.queues.errors import LiveServer
from walferry.replication.source.cluster import SourceError
from walferry.runs.input import InputError
from walferry.runs.reports.batch import BatchFailed

FINAL = [
    SourceError("a"), EnabledPeer("p", "a", "b"), StorageError("a"), LiveServer("s,1,1"), InputError("a"), BatchFailed(["a"]),
    RecoveryFailed(["a"]),
]  # fmt: skip


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
def test_an_error_that_only_people_can_mend_fails_a_task_at_once(error: Exception) -> None:
    assert RetryIfItHelps().evaluate(error, 1, 3).action is RetryAction.FAIL


@pytest.mark.parametrize("error", [ConnectError("a"), RuntimeError("a")], ids=str)
def test_all_other_errors_follow_the_task_s_own_settings(error: Exception) -> None:
    assert RetryIfItHelps().evaluate(error, 1, 3).action is RetryAction.DEFAULT


def test_every_task_of_every_dag_has_the_policy(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        for task in dag.tasks:
            policy = task.partial_kwargs["retry_policy"] if task.is_mapped else task.retry_policy
            assert isinstance(policy, RetryIfItHelps), task.task_id
