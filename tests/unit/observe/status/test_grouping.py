"""What is told of a WAL group, given what was read."""

from __future__ import annotations

from tests.unit.observe.status.described import BEHIND, HELD, group_of_one, name, peer_of
from tests.unit.observe.status.views import HOUR, MINUTE, NOW, SERVER, note, notes, queue, view, wal
from walferry.engine.summary import Status
from walferry.hbase.errors import PositionError
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.files import FilesSeen, Read
from walferry.observe.status.model import BytesLeft


def test_without_a_look_into_files_a_wal_s_name_bounds_the_age_of_its_edits() -> None:
    group = group_of_one(view(BEHIND))
    assert group.replicationLag == group.closed_lag == Age(3 * HOUR, Certainty.AT_MOST, "no edit is older than its WAL's file")
    assert (group.sizeOfLogQueue, group.wals_left, group.bytes_left) == (3, 2, None)
    assert (group.writer, group.oldest.name, group.oldest.position) == (SERVER, name(NOW - 3 * HOUR), 100)


def test_the_note_of_a_run_bounds_it_better() -> None:
    noted = notes(note(Status.DEADLINE, timestampOfNextToReplicate=NOW - 150 * MINUTE))
    assert group_of_one(view(BEHIND, notes=noted)).closed_lag.ms == 150 * MINUTE
    older = notes(note(Status.DEADLINE, timestampOfNextToReplicate=NOW - 9 * HOUR))
    assert group_of_one(view(BEHIND, notes=older)).closed_lag.ms == 3 * HOUR


def test_an_entry_that_was_read_makes_it_exact() -> None:
    files = FilesSeen(0, reads={(name(NOW - 3 * HOUR), 100): Read(NOW - 170 * MINUTE)})
    assert group_of_one(view(BEHIND), files).replicationLag == Age(170 * MINUTE, Certainty.EXACT)


def test_wals_that_are_known_to_be_shipped_do_not_count() -> None:
    files = FilesSeen(0, reads={(name(NOW - 3 * HOUR), 100): Read(None), (name(NOW - 2 * HOUR), 0): Read(None)})
    group = group_of_one(view(BEHIND), files)
    assert group.closed_lag.nothing_waits
    assert group.replicationLag == Age(HOUR, Certainty.AT_MOST, group.replicationLag.why)
    assert "is being written" in group.replicationLag.why


def test_nothing_waits_if_the_open_wal_has_nothing_behind_its_position() -> None:
    alone = queue(wal(NOW - HOUR))
    assert not group_of_one(view(alone)).replicationLag.nothing_waits
    just_read = FilesSeen(0, reads={(name(NOW - HOUR), 0): Read(None, NOW - 30_000)})
    assert group_of_one(view(alone), just_read).replicationLag.nothing_waits
    old = FilesSeen(0, reads={(name(NOW - HOUR), 0): Read(None, NOW - 2 * MINUTE)})
    assert group_of_one(view(alone), old).replicationLag.ms == 2 * MINUTE
    assert group_of_one(view(alone), old).replicationLag.certainty is Certainty.AT_MOST
    read = FilesSeen(0, reads={(name(NOW - HOUR), 0): Read(NOW - MINUTE)})
    assert group_of_one(view(alone), read).replicationLag == Age(MINUTE, Certainty.EXACT)


def test_a_wal_that_was_empty_while_it_was_open_may_have_got_edits_before_it_was_closed() -> None:
    read = FilesSeen(0, reads={(name(NOW - 3 * HOUR), 100): Read(None, NOW - 30_000)})
    lag = group_of_one(view(BEHIND), read).closed_lag
    assert (lag.ms, lag.certainty) == (30_000, Certainty.AT_MOST)


def test_a_position_that_cannot_be_read_is_told_and_bounds_nothing_but_the_age() -> None:
    broken = queue(wal(NOW - HOUR, PositionError("/rs/x", "its value b'?' is not a position")), wal(NOW - MINUTE))
    group = group_of_one(view(broken), FilesSeen(0, sizes={name(NOW - HOUR): 500}))
    assert group.oldest.position is None
    assert "b'?' is not a position" in (group.oldest.problem or "")
    assert group.closed_lag == Age(HOUR, Certainty.AT_MOST, "its position cannot be read")
    assert group.bytes_left == BytesLeft(500, unsure=1)


def test_bytes_left_say_how_many_wals_they_leave_out() -> None:
    sizes = {name(NOW - 3 * HOUR): 1000, name(NOW - 2 * HOUR): 50}
    assert group_of_one(view(BEHIND), FilesSeen(0, sizes)).bytes_left == BytesLeft(950, unsure=0)
    growing = FilesSeen(0, sizes, growing=frozenset([name(NOW - 2 * HOUR)]))
    assert group_of_one(view(BEHIND), growing).bytes_left == BytesLeft(950, unsure=1)
    assert group_of_one(view(BEHIND), FilesSeen(0, problem="away")).bytes_left == BytesLeft(0, unsure=2)
    assert peer_of(view(BEHIND), FilesSeen(0, sizes)).bytes_left == BytesLeft(950, unsure=0)
    assert peer_of(view(BEHIND)).bytes_left is None


def test_a_run_that_shipped_and_went_silent_without_its_lease_was_broken_off() -> None:
    running = notes(note(Status.RUNNING, 2 * MINUTE))
    assert group_of_one(view(BEHIND, notes=running)).last_run.broken_off
    assert not group_of_one(view(BEHIND, notes=running, leases=HELD)).last_run.broken_off
    just_ended = notes(note(Status.RUNNING, 1000))
    assert not group_of_one(view(BEHIND, notes=just_ended)).last_run.broken_off
