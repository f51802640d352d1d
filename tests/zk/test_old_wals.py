"""What keeps files in oldWALs, in queues of a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from tests.zk.test_retention import Site
from walferry.observe.status.old_wals import KeptByQueue, KeptWals, look_at_old_wals
from walferry.observe.status.view import view
from walferry.replication.source.session import Session

HOUR = 3_600_000


def test_what_keeps_old_wals_and_until_when_there_is_room(hbase: HBaseZNodes, session: Session, tmp_path: Path) -> None:
    site = Site(hbase, session.zk, tmp_path)
    hbase.add_peer("q", config={})
    site.add(wal(1), (SERVER, "p"), (SERVER, "q"), age=7200, size=1000)
    site.add(wal(2), (SERVER, "q"), age=0, size=3600)
    site.add(wal(3), size=50)
    hbase.zk.create(f"{hbase.nodes.queues}/{SERVER}/p-junk")
    old = look_at_old_wals(site.session.store, view(site.session))
    assert (old.problem, old.forecast_problem) == (None, None)
    assert (old.all, old.held) == (KeptWals(3, 4650), KeptWals(2, 4600))
    q, p = old.keepers
    assert (q.peer_id, q.kept, q.alone, q.queues) == (
        "q", KeptWals(2, 4600), KeptWals(1, 3600), (KeptByQueue(f"{SERVER}/q", KeptWals(2, 4600)),)
    )  # fmt: skip
    assert (p.peer_id, p.shipped_by, p.kept, p.alone) == ("p", "Walferry", KeptWals(1, 1000), KeptWals(0, 0))
    assert p.oldest_ms == pytest.approx(site.now * 1000 - 2 * HOUR, abs=60_000)
    assert old.bytes_per_second == pytest.approx(0.5, rel=0.05)
    assert old.full_ms is not None
    assert (old.full_ms - old.at_ms) / 1000 == pytest.approx((old.remaining or 0) / old.bytes_per_second, rel=0.01)


def test_a_folder_that_is_no_root_of_wals_is_told(session: Session) -> None:
    old = look_at_old_wals(session.store, view(session))
    assert "/hbase" in (old.problem or "")
    assert (old.all, old.held, old.full_ms) == (None, None, None)
