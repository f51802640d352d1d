"""The time up to which a peer cluster has all edits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.observe.status.described import peer_of
from tests.unit.observe.status.views import DEAD, HOUR, MINUTE, NOW, SERVER, queue, view, wal
from walferry.hbase.errors import PositionError
from walferry.observe.status.files import FilesSeen, Read
from walferry.replication.queues.queue import EARLIER_MS, Queue

SHIPPED, WAITING = Read(None), Read(NOW - HOUR)


def minutes(*queues: Queue, reads: dict[int, Read] | None = None, **fields: object) -> float | None:
    """How many minutes before now, apart from the margin, the peer is valid. `reads` are by the WAL's begin."""
    seen = view(*queues, **fields)
    files = FilesSeen(reads={(wal(begun).name.text, 100): read for begun, read in (reads or {}).items()})
    found = peer_of(seen, files).valid_through_ms
    return None if found is None else (NOW - EARLIER_MS - found) / MINUTE


def test_edits_are_younger_than_the_oldest_wal_that_is_not_shipped() -> None:
    assert minutes(queue(wal(NOW - 3 * HOUR, 100), wal(NOW - HOUR))) == 180


def test_a_closed_wal_with_nothing_behind_its_position_is_shipped() -> None:
    two = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - HOUR))
    assert minutes(two, reads={NOW - 3 * HOUR: SHIPPED}) == 60
    assert minutes(two, reads={NOW - 3 * HOUR: WAITING}) == 180
    assert minutes(two, reads={NOW - 3 * HOUR: Read(None, NOW)}) == 180  # entries may have been added since


def test_the_open_wal_is_never_shipped_though_nothing_is_seen_in_it() -> None:
    assert minutes(queue(wal(NOW - HOUR, 100)), reads={NOW - HOUR: SHIPPED}) == 60


def test_a_batch_that_has_seen_a_server_idle_proves_nothing() -> None:
    """It does not notice edits of a region that was moved to the server and away again between two looks."""
    assert minutes(queue(wal(NOW - HOUR)), quiet={SERVER: NOW - MINUTE}) == 60


def test_a_wal_of_a_dead_server_holds_the_time_back_until_it_has_left_its_queue() -> None:
    live, dead = queue(wal(NOW - HOUR)), queue(wal(NOW - 5 * HOUR, server=DEAD), queue_id=f"p-{DEAD}")
    assert minutes(live, dead) == 300
    assert minutes(live, replace(dead, wals=())) == 60
    died_unseen = queue(wal(NOW - 5 * HOUR, server=DEAD), server=DEAD, live=False)
    assert minutes(live, died_unseen) == 300


def test_the_slowest_group_of_a_server_counts() -> None:
    assert minutes(queue(wal(NOW - HOUR), wal(NOW - 2 * HOUR, server=DEAD))) == 120


def test_a_peer_without_queued_wals_is_valid_until_the_look() -> None:
    assert minutes() == 0


def test_a_wal_of_the_future_does_not_make_the_peer_valid_until_then() -> None:
    assert minutes(queue(wal(NOW + 50 * HOUR))) == 0


def test_a_position_that_makes_no_sense_holds_the_time_back() -> None:
    broken = wal(NOW - HOUR, PositionError("/rs/x", b"", "it is empty"))
    assert minutes(queue(broken, wal(NOW - MINUTE))) == 60


@pytest.mark.parametrize("fields", [{"odd": True}, {"queues": None}], ids=["something odd", "queues unread"])
def test_nothing_is_said_if_a_queue_may_be_hidden(fields: dict[str, object]) -> None:
    assert minutes(queue(wal(NOW - HOUR)), **fields) is None
