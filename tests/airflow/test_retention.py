"""The DAG retention, run by Airflow itself, over a ZooKeeper with HBase's znodes and a folder of WALs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.base.findings import Finding

from .conftest import Run
from .recovery_stubs import hbase, new_client

__all__ = ["hbase", "new_client"]  # fixtures
DAY = 86400.0


@pytest.fixture
def folder(tmp_path: Path, zookeeper, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source's root, with one WAL that the peer p has held for two days."""
    extra = {
        "wal_root": f"file://{tmp_path}/hbase", "znode_parent": hbase.nodes.base, "walferry_root": hbase.root,
        "archive": f"file://{tmp_path}/archive", "archive_days": 1,
    }  # fmt: skip
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    group = wal(1).rpartition(".")[0].replace("%", "%25")
    for path in (tmp_path / "hbase" / "oldWALs" / wal(1), tmp_path / "archive" / group / wal(2)):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"edits")
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    hbase.add_wal(SERVER, "p", wal(1))
    return tmp_path


def test_a_warning_shows_in_the_run_and_old_copies_are_deleted(
    folder: Path, run_dag: Callable[..., Run], logged: Callable[[], str]
) -> None:
    ended = run_dag("retention")
    assert ended.state == "failed"
    assert {name: state for (name, _), state in ended.tasks.items()} == {
        "report": "success", "check": "failed", "expire_archive": "success"
    }  # fmt: skip
    assert ended.tries["check", None] == 1
    (finding,) = ended.report["findings"]
    assert (finding["about"], finding["kind"], finding["severity"]) == ("peer p", "old-wals", "wrong")
    assert finding["text"].startswith("it holds 1 WALs in oldWALs (0.0 GiB), the oldest for 47.8 hours; shipped by Walferry")
    (listed,) = ended.report["wals"]
    assert (listed["name"], listed["size"], listed["fate"], listed["queues"]) == (wal(1), 5, "held by queues", [f"{SERVER}/p"])
    reported = logged()
    assert Finding(**finding).line in reported
    assert "1 copies older than 1 days (5 bytes) were deleted, 0 (0 bytes) are kept" in reported
    assert list((folder / "archive").iterdir()) == []


def test_a_run_without_a_warning_succeeds(folder: Path, run_dag: Callable[..., Run]) -> None:
    ended = run_dag("retention", warn_blocked_hours=72)
    assert (ended.state, ended.report["ok"]) == ("success", True)
    assert ended.report["blockers"][0]["heldLogs"] == 1


def test_an_unknown_parameter_is_refused(folder: Path, run_dag: Callable[..., Run]) -> None:
    ended = run_dag("retention", warn_days=7)
    assert {name: state for (name, _), state in ended.tasks.items()}["report"] == "failed"
