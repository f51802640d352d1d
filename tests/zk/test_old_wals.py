"""The reasons that keep files in oldWALs, in queues of a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from tests.zk.test_retention import Site
from walferry.observe.status.statuses import look_at_old_wals
from walferry.observe.status.view import view
from walferry.replication.retention.survey import Amount, Fate
from walferry.replication.source.session import Session

HOUR = 3600.0


def test_what_keeps_old_wals_and_until_when_there_is_room(hbase: HBaseZNodes, session: Session, tmp_path: Path) -> None:
    site = Site(hbase, session.zk, tmp_path)
    hbase.add_peer("q", config={})
    site.add(wal(1), (SERVER, "p"), (SERVER, "q"), age=7200, size=1000)
    site.add(wal(2), (SERVER, "q"), age=0, size=3600)
    site.add(wal(3), size=50)
    hbase.zk.create(f"{hbase.nodes.queues}/{SERVER}/p-junk")
    old = look_at_old_wals(site.session.store, view(site.session))
    assert (old.problem, old.forecast.why_unknown) == ("", "")
    assert (sums(old.amount()), sums(old.amount(Fate.HELD))) == ((3, 4650), (2, 4600))
    q, p = old.blockers
    assert (q.peer_id, sums(q.held), sums(q.held_alone)) == ("q", (2, 4600), (1, 3600))
    assert {queue: sums(amount) for queue, amount in q.queues.items()} == {f"{SERVER}/q": (2, 4600)}
    assert (p.peer_id, p.shipped_by, sums(p.held), sums(p.held_alone)) == ("p", "Walferry", (1, 1000), (0, 0))
    assert p.held.oldest == pytest.approx(site.now - 2 * HOUR, abs=60)
    rate, left, space = old.forecast.bytes_per_second, old.forecast.seconds_left, old.forecast.space
    assert rate == pytest.approx(0.5, rel=0.05)
    assert space is not None
    assert left == pytest.approx(space.remaining / rate, rel=0.01)


def sums(amount: Amount) -> tuple[int, int]:
    return amount.files, amount.bytes


def test_a_folder_that_is_no_root_of_wals_is_told(session: Session) -> None:
    old = look_at_old_wals(session.store, view(session))
    assert "/hbase" in old.problem
    assert (old.amounts, old.forecast.seconds_left) == ({}, None)
