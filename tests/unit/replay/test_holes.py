"""Which WALs of an interval are gone, as far as the remaining WALs show it."""

from __future__ import annotations

import pytest

from tests.unit.replay.found import HOUR, MINUTE, found, minutes, wal
from walferry.replay.holes import NOWHERE
from walferry.replay.interval import Interval
from walferry.replay.listing import WalPlace


def test_a_first_wal_after_the_interval_s_start_means_that_those_before_it_are_gone():
    (hole,) = found(wal(630, 640), wal(640, 670), wal(670, place=WalPlace.SERVER)).holes
    assert (hole.time, hole.wal) == (Interval(HOUR.start, 630 * MINUTE), "")
    assert str(hole) == (
        "WALs of group h%2C1%2C60000 with entries of 1970-01-01 10:00:00 to 1970-01-01 10:30:00: gone: server h,1,60000 has run "
        "since 1970-01-01 00:01:00, and h%2C1%2C60000.37800000 is the first one that is known"
    )


@pytest.mark.parametrize(
    ("start", "expected"),
    [(0, [(600, 630)]), (610, [(610, 630)]), (640, [])],
    ids=["before", "within", "after the first WAL, by a wrong clock"],
)
def test_a_server_has_no_wals_before_its_start(start: int, expected: list[tuple[int, int]]):
    first = wal(630, 700, server=f"h,1,{start * MINUTE}")
    assert [(h.time.start // MINUTE, h.time.end // MINUTE) for h in found(first).holes] == expected


def test_a_first_wal_that_begins_with_the_opening_of_a_region_is_the_server_s_first():
    assert not found(wal(630, 700), opening=True).holes


def test_a_first_wal_after_the_interval_means_that_all_of_it_is_gone():
    (hole,) = found(wal(700, 710)).holes
    assert hole.time == HOUR


def test_a_gap_shows_by_a_wal_that_was_closed_well_before_the_next_one_was_begun():
    (hole,) = found(wal(590, 610), wal(630, 640), wal(640, 670), wal(670, 680)).holes
    assert hole.time == Interval(610 * MINUTE, 630 * MINUTE)
    assert "was closed at 1970-01-01 10:10:00, and h%2C1%2C60000.37800000 is the next one that is known" in str(hole)
    assert not found(wal(590, 610), wal(610.4, 670), wal(670, 680)).holes  # clocks may differ a little


def test_an_archive_without_the_wals_that_have_no_edits_has_no_gaps():
    first, second = wal(590, 610, WalPlace.ARCHIVE), wal(630, 670, WalPlace.ARCHIVE)
    assert not found(first, second, wal(670, 680)).holes
    assert not found(wal(590, 610), second, wal(670, 680)).holes


def test_a_wal_that_a_queue_names_and_that_lies_nowhere_is_named():
    lost = wal(610, place=WalPlace.NOWHERE)
    left = found(wal(590, 610), lost, wal(620, 670), wal(670, 680))
    assert [(h.wal, h.why, h.time.start, h.time.end) for h in left.holes] == [
        (lost.name.text, NOWHERE, 610 * MINUTE, 620 * MINUTE)
    ]
    assert minutes(left) == [590, 620]
