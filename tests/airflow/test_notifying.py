"""The first run reports notifiers that Airflow's configuration names wrongly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.zk.hbase_znodes import HBaseZNodes

from .conftest import Run
from .recovery_stubs import hbase, new_client, refused_at_once
from .test_watch_replication import notified, site, state

__all__ = ["hbase", "new_client", "notified", "refused_at_once", "site"]  # fixtures

pytestmark = pytest.mark.usefixtures("refused_at_once")


@pytest.mark.parametrize(
    ("named", "expected"), [("no_such.THING", "cannot be imported"), ("alerting_of_ours.NONSENSE", "is neither")]
)
def test_notifiers_that_are_none_are_told_at_once_not_when_there_is_an_alert(
    site: HBaseZNodes, notified: object, run_dag: Callable[..., Run], logged: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch, named: str, expected: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("AIRFLOW__WALFERRY__NOTIFIERS", named)
    assert state(run_dag("watch_replication")) == ("failed", "failed")
    log = logged()
    assert expected in log
    assert named in log
