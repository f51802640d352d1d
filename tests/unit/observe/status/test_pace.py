"""How fast a peer is said to be shipped, and when it is said to be done."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.observe.status.described import BEHIND, HELD, SIZES, peer_of
from tests.unit.observe.status.views import HOUR, NOW, note, notes, queue, view, wal
from walferry.engine.summary import Status
from walferry.observe.status.ages import Certainty
from walferry.observe.status.history import INTERVAL_SECONDS, Sample


def test_while_a_run_ships_its_own_figures_tell_the_pace() -> None:
    # What was read ahead of a slow slave is not shipped yet.
    running = notes(note(Status.RUNNING, 1000, logReadInBytes=60_000, bytesDone=400, bytesDoneBefore=200, seconds=10.0))
    pace = peer_of(view(BEHIND, notes=running, leases=HELD), SIZES).pace
    assert (pace.bytes_per_second, pace.seconds_left, pace.why) == (60.0, 100.0, "")
    unknown = peer_of(view(BEHIND, notes=running, leases=HELD)).pace
    assert (unknown.bytes_per_second, unknown.seconds_left, unknown.why) == (60.0, None, "no file was looked at")
    begun = notes(note(Status.DONE))
    assert peer_of(view(BEHIND, notes=begun, leases=HELD), SIZES).pace.bytes_per_second is None


def samples(*left_and_shipped: tuple[int, int]) -> tuple[Sample, ...]:
    newest = NOW // 1000 // INTERVAL_SECONDS
    first = newest - len(left_and_shipped) + 1
    return tuple(
        Sample(first + number, 0, Certainty.EXACT, left, 0, shipped, 1) for number, (left, shipped) in enumerate(left_and_shipped)
    )


def test_between_two_runs_the_history_tells_the_pace_with_what_was_written_meanwhile() -> None:
    pace = peer_of(view(BEHIND), SIZES, samples((12_000, 99), (9000, 6000), (6000, 6000))).pace
    assert (pace.bytes_per_second, pace.seconds_left) == (20.0, 600.0)
    growing = peer_of(view(BEHIND), SIZES, samples((6000, 99), (9000, 6000))).pace
    assert (growing.bytes_per_second, growing.seconds_left, growing.why) == (20.0, None, "the backlog does not shrink")


def test_nothing_left_is_done_whatever_was_known_of_the_last_minutes() -> None:
    unsure = tuple(replace(each, bytes_left=None) for each in samples((12_000, 99), (9000, 6000), (6000, 6000)))
    pace = peer_of(view(queue(wal(NOW - HOUR, 100))), SIZES, unsure).pace
    assert (pace.bytes_per_second, pace.seconds_left, pace.why) == (20.0, 0.0, "")


def test_without_runs_and_history_the_pace_is_not_known() -> None:
    assert peer_of(view(BEHIND), SIZES).pace.why == "nothing ships it now, and its history does not tell"
    old = tuple(replace(each, interval=each.interval - 100) for each in samples((9000, 1), (1, 8999)))
    assert peer_of(view(BEHIND), SIZES, old).pace.bytes_per_second is None
