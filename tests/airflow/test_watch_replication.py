"""The DAG watch_replication, run by Airflow itself, over a ZooKeeper with HBase's znodes."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.airflow.tasks import watch as module
from walferry.observe.status.notified import OVER_SECONDS

from .conftest import Run
from .recovery_stubs import hbase, new_client, refused_at_once

__all__ = ["hbase", "new_client", "refused_at_once"]  # fixtures

pytestmark = pytest.mark.usefixtures("refused_at_once")

HOUR = 3_600_000
NOTIFIERS = """
from pathlib import Path
from airflow.sdk import BaseNotifier

class ToFile(BaseNotifier):
    template_fields = ("message",)

    def __init__(self):
        super().__init__()
        self.message = "{{ dag.dag_id }}: {{ alert }}"

    def notify(self, context):
        with Path(__file__).with_name("notified").open("a") as messages:
            messages.write(self.message + "\\n--\\n")

def broken(context):
    raise OSError("no route to the pager")

ALL = [broken, ToFile()]
BROKEN = broken
NONSENSE = 5
"""


@pytest.fixture
def notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages of a notifier since the last call. The configuration names it next to a broken notifier."""
    (tmp_path / "alerting_of_ours.py").write_text(NOTIFIERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("AIRFLOW__WALFERRY__NOTIFIERS", "alerting_of_ours.ALL")
    monkeypatch.delitem(sys.modules, "alerting_of_ours", raising=False)
    path = tmp_path / "notified"

    def read() -> list[str]:
        found = path.read_text().split("\n--\n")[:-1] if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    return read


@pytest.fixture
def site(
    tmp_path: Path, zookeeper: Any, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch, airflow_db: None
) -> Iterator[HBaseZNodes]:
    """A source without problems: its only peer is HBase's."""
    (tmp_path / "oldWALs").mkdir()
    extra = {"wal_root": f"file://{tmp_path}", "znode_parent": hbase.nodes.base, "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    hbase.set_config("p", {"walferry.managed": "true", "walferry.paused": "true"})
    forget()
    yield hbase
    forget()


def forget() -> None:
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(Variable).filter(Variable.key.startswith(module.VARIABLE)).delete()


def orphan(site: HBaseZNodes) -> str:
    """Make a queue of a peer that does not exist. Returns its znode."""
    site.add_wal(SERVER, "gone", wal(int(time.time() * 1000) - HOUR))
    return site.nodes.queue(SERVER, "gone")


def state(run: Run) -> tuple[str, str]:
    return run.state, run.tasks["watch", None]


def test_a_finding_fails_a_run_once_and_people_are_notified_of_its_end(
    site: HBaseZNodes, notified: Callable[[], list[str]], run_dag: Callable[..., Run], logged: Callable[[], str],
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert state(run_dag("watch_replication")) == ("success", "success")
    assert notified() == []
    queue = orphan(site)
    logged()
    caplog.clear()
    assert state(run_dag("watch_replication")) == ("failed", "failed")
    line = (
        f"orphaned queues: 1 queue with 1 WAL are of peers that do not exist, and nothing ships them: {SERVER}/gone. Their WALs "
        "are kept until `walferry drain SERVER/QUEUE --delete-orphan`"
    )
    assert notified() == [f"watch_replication: {line}"]
    log = logged()
    assert line in log
    assert "Traceback" not in log
    ours = [record for record in caplog.records if record.name.startswith("walferry.airflow")]
    errors = [record.getMessage().replace("\n  ", " ") for record in ours if record.levelno >= logging.WARNING]
    assert errors == ["the notifier function has failed: OSError", line]
    assert state(run_dag("watch_replication")) == ("success", "skipped")
    assert notified() == []
    site.zk.delete(queue, recursive=True)
    assert state(run_dag("watch_replication")) == ("success", "success")
    assert notified() == []
    later = time.time() + OVER_SECONDS + 1
    monkeypatch.setattr(module.time, "time", lambda: later)
    assert state(run_dag("watch_replication")) == ("success", "success")
    (over,) = notified()
    assert over.startswith("watch_replication: over after ")
    assert over.endswith(": orphaned queues")


def test_what_no_notifier_has_sent_is_sent_by_the_next_run(
    site: HBaseZNodes, notified: Callable[[], list[str]], run_dag: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan(site)
    with monkeypatch.context() as patch:
        patch.setenv("AIRFLOW__WALFERRY__NOTIFIERS", "alerting_of_ours.BROKEN")
        assert state(run_dag("watch_replication")) == ("failed", "failed")
    assert state(run_dag("watch_replication")) == ("failed", "failed")
    assert len(notified()) == 1


def test_a_source_that_is_not_there_fails_without_a_traceback(
    site: HBaseZNodes, notified: Callable[[], list[str]], run_dag: Callable[..., Run], logged: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    nowhere = {"conn_type": "generic", "host": "127.0.0.1", "port": 1, "extra": {"wal_root": "file:///hbase"}}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(nowhere))
    logged()
    ended = run_dag("watch_replication")
    assert (state(ended), ended.tries["watch", None]) == (("failed", "failed"), 1)
    (text,) = notified()
    assert text.startswith("watch_replication: unreachable: the source cannot be read: ")
    log = logged()
    assert text.removeprefix("watch_replication: ") in log
    assert "Traceback" not in log
    monkeypatch.delenv("AIRFLOW_CONN_HBASE_SOURCE")
    forget()
    assert state(run_dag("watch_replication")) == ("failed", "failed")
    assert "connection 'hbase_source' is not defined" in notified()[0]


def test_names_in_zookeeper_are_never_templates(
    site: HBaseZNodes, notified: Callable[[], list[str]], run_dag: Callable[..., Run]
) -> None:
    site.add_wal(SERVER, "{{ var.value.secret }}", wal(1))
    run_dag("watch_replication")
    assert "{{ var.value.secret }}" in notified()[0]


def test_an_unknown_parameter_is_refused(site: HBaseZNodes, run_dag: Callable[..., Run]) -> None:
    assert state(run_dag("watch_replication", warn_days=7)) == ("failed", "failed")
