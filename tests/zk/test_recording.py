"""The state of peers is recorded once in each interval, with the edits that their runs have shipped since."""

from __future__ import annotations

import time

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.engine.summary import GroupSummary, Status
from walferry.observe.status.ages import Certainty
from walferry.observe.status.describing import describe
from walferry.observe.status.history import read_histories, record, shipped_since
from walferry.observe.status.view import view
from walferry.replication.source.session import Session
from walferry.shipping.runs import begin_run, write_group


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes) -> Session:
    return session_of(zk, hbase)


def test_what_was_shipped_since_is_told_by_the_notes_of_runs(session: Session) -> None:
    now = time.time()
    for run, group, seconds in (("1", "a", 10.0), ("1", "b", 10.0), ("2", "a", 100_000.0)):
        begin_run(session, "p", run, 0)
        write_group(session, "p", run, GroupSummary(group=group, status=Status.DONE, shippedBytes=1000, seconds=seconds))
    session.zk.set(f"{session.own.runs('p')}/1/b", b"junk")
    assert shipped_since(session, "p", now - 5000) == pytest.approx(1000 + 50, abs=2)
    assert shipped_since(session, "p", now + 3600) == 0
    assert shipped_since(session, "nobody", now) == 0


def test_a_status_is_recorded_once_in_an_interval(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_peer("theirs", config={})
    begun = int(time.time() * 1000) - 3_600_000
    hbase.add_wal(SERVER, "p", wal(begun))
    hbase.add_wal(SERVER, "p", wal(begun + 1000))
    status = describe(view(session))
    assert record(session, status) == 2
    assert record(session, status) == 0
    found, _ = read_histories(session, ["p", "theirs"])
    (mine,), (other,) = found["p"], found["theirs"]
    assert (mine.wals_left, mine.bytes_left, mine.shipped_bytes, mine.certainty) == (1, None, 0, Certainty.AT_MOST)
    assert mine.lag_ms == pytest.approx(3_600_000, abs=60_000)
    assert (other.wals_left, other.lag_ms, other.shipped_bytes) == (0, 0, None)
