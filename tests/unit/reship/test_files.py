"""Which WALs can hold entries of an interval, and what is gone of them."""

from __future__ import annotations

import pytest

from walferry.names import ServerName, parse_wal_name
from walferry.reship.files import Around, Found, around, found_of
from walferry.reship.holes import NOWHERE
from walferry.reship.interval import Interval
from walferry.reship.listing import Place, WalFile

MINUTE = 60_000
HOUR = Interval(600 * MINUTE, 660 * MINUTE)
SERVER = "h,1,60000"  # started in the first minute


def wal(minute: float, closed: float | None = None, place: Place = Place.OLD, server: str = SERVER) -> WalFile:
    """A WAL that was begun at `minute` and closed at `closed`."""
    name = parse_wal_name(f"{ServerName.parse(server).encoded()}.{int(minute * MINUTE)}")
    return WalFile(name, f"file:///{name}", 100, None if closed is None else int(closed * MINUTE), place)


def found(*wals: WalFile, live: bool = True, opening: bool | None = False) -> Found:
    servers = frozenset({ServerName.parse(SERVER)} if live else ())
    return found_of(around(wals, HOUR), HOUR, servers, lambda wal: opening)


def minutes(left: Found) -> list[float]:
    return [wal.name.timestamp / MINUTE for group in left.groups for wal in group.wals]


def test_wals_are_taken_from_the_one_before_the_interval_to_the_last_one_begun_in_it():
    left = found(*(wal(m, m + 10) for m in range(500, 800, 10)))
    assert minutes(left) == [590, *range(600, 660 + 1, 10)]  # the last one for entries that were appended late
    assert not left.holes


def test_a_wal_that_was_closed_before_the_interval_is_left_out():
    left = found(wal(500, 610), wal(610, 620), wal(620, 700), wal(700, 710), opening=True)
    assert minutes(left) == [500, 610, 620]
    assert minutes(found(wal(500, 510), live=False)) == []


def test_a_wal_is_taken_if_only_another_clock_says_that_it_was_closed_before_the_interval():
    """HDFS's clock tells when it was closed, and the server's when the next one was begun and the entries were written."""
    assert minutes(found(wal(590, 599.6), wal(600.05, 700), opening=True)) == [590, 600.05]


def test_a_first_wal_after_the_interval_s_start_means_that_those_before_it_are_gone():
    (hole,) = found(wal(630, 640), wal(640, 670), wal(670, place=Place.SERVER)).holes
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
    first, second = wal(590, 610, Place.ARCHIVE), wal(630, 670, Place.ARCHIVE)
    assert not found(first, second, wal(670, 680)).holes
    assert not found(wal(590, 610), second, wal(670, 680)).holes


def test_a_wal_that_a_queue_names_and_that_lies_nowhere_is_named():
    lost = wal(610, place=Place.NOWHERE)
    left = found(wal(590, 610), lost, wal(620, 670), wal(670, 680))
    assert [(h.wal, h.why, h.time.start, h.time.end) for h in left.holes] == [
        (lost.name.text, NOWHERE, 610 * MINUTE, 620 * MINUTE)
    ]
    assert minutes(left) == [590, 620]


def test_an_open_wal_is_told_only_if_it_can_have_entries_of_the_interval():
    left = found(wal(590, 620), wal(620, place=Place.SERVER))
    assert [w.name.timestamp for w in left.open] == [620 * MINUTE]
    assert minutes(left) == [590]
    assert not found(wal(590, 662), wal(662, place=Place.SERVER)).open


def test_an_open_wal_that_may_be_its_server_s_first_has_to_be_closed_to_tell():
    young = wal(700, place=Place.SERVER)
    left = found(young, opening=None)
    assert left.open == (young,)
    assert not left.holes
    rolled = found(young, wal(710, place=Place.SERVER), opening=True)
    assert (rolled.open, rolled.holes) == ((), ())


def test_the_newest_wal_of_a_dead_server_may_be_torn():
    (group,) = found(wal(590, 620), wal(620, place=Place.SPLITTING), live=False).groups
    assert group.torn == group.wals[-1].name.text
    (group,) = found(wal(590, 620), wal(620, 670), wal(670, 680), live=False).groups
    assert group.torn == ""


def test_a_wal_in_two_places_is_one_and_hbase_s_own_file_counts():
    archived, own = wal(610, 615, Place.ARCHIVE), wal(610, 612)
    for wals in ((archived, own), (own, archived)):
        group = Around()
        for each in wals:
            group.add(each, HOUR)
        assert group.row == [own]
        assert group.first == own


def test_few_wals_are_kept_however_many_there_are():
    groups = around((wal(m, m + 1) for m in range(10_000)), HOUR)
    assert sum(len(group.row) for group in groups.values()) < 70
