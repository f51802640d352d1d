"""Snapshots that jobs leave: killed ones, whose snapshots HBase has not completed yet, and overtaken ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.initial_snapshot import snapshots
from walferry.initial_snapshot.snapshots import delete_snapshots

OURS = "walferry-initial-snapshot-2-1700000000000-0"


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Where HBase puts snapshots together; it holds one of ours, and two of others."""
    folder = tmp_path / ".hbase-snapshot" / ".tmp"
    for name in (OURS, "walferry-initial-snapshot-22-1700000000000-0", "someone-else-s"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def session(tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose master knows a snapshot as complete once it is no longer being put together."""
    source = SimpleNamespace(hbase_root=tmp_path.as_uri(), login=None)
    monkeypatch.setattr(snapshots, "active_master", lambda *_: None)
    monkeypatch.setattr(snapshots.master, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(snapshots.master, "completed_snapshots", lambda _: [] if (begun / OURS).exists() else [OURS, "another"])
    monkeypatch.setattr(snapshots.master, "delete_snapshot", lambda *_: None)
    return SimpleNamespace(zk=None, nodes=None, source=source)


@pytest.fixture
def delete(session: Any) -> Callable[[], list[str]]:
    """Deletes peer 2's snapshots."""
    return lambda: delete_snapshots(session, "2")


def test_a_snapshot_that_is_being_taken_is_deleted_once_it_is_complete(delete, begun, monkeypatch):
    monkeypatch.setattr(snapshots.time, "sleep", lambda _: (begun / OURS).rmdir())
    assert delete() == [OURS]


def test_a_folder_that_a_dead_master_has_left_behind_is_not_waited_for_for_ever(delete, monkeypatch, caplog):
    monkeypatch.setattr(snapshots, "BEGUN_SECONDS", 0.1)
    monkeypatch.setattr(snapshots, "_POLL_SECONDS", 0.05)
    assert delete() == []
    assert OURS in caplog.text


@pytest.mark.parametrize(("turn", "deleted"), [(4, [OURS]), (None, [])], ids=["holds the peer", "was overtaken"])
def test_at_its_end_a_run_deletes_no_snapshots_of_a_run_that_has_overtaken_it(session, begun, monkeypatch, turn, deleted):
    """The other run copies files that only its snapshots keep."""
    (begun / OURS).rmdir()
    seen: list[str] = []
    with snapshots.snapshots(session, "2", "our attempt"):
        monkeypatch.setattr(snapshots, "turn_of_attempt", lambda *_: turn)
        monkeypatch.setattr(snapshots.master, "delete_snapshot", lambda _, name: seen.append(name))
    assert seen == deleted
