"""Which WALs can hold entries of an interval."""

from __future__ import annotations

from tests.unit.replay.found import HOUR, MINUTE, found, minutes, wal
from walferry.replay.files import Around, around
from walferry.replay.listing import WalPlace


def test_wals_are_taken_from_the_one_before_the_interval_to_the_last_one_begun_in_it():
    left = found(*(wal(m, m + 10) for m in range(500, 800, 10)))
    assert minutes(left) == [590, *range(600, 660 + 1, 10)]  # the last one for entries that were appended late
    assert not left.holes


def test_a_wal_that_was_closed_before_the_interval_is_left_out():
    left = found(wal(500, 610), wal(610, 620), wal(620, 700), wal(700, 710), opening=True)
    assert minutes(left) == [500, 610, 620]
    assert minutes(found(wal(500, 510), live=False)) == []


def test_clocks_that_differ_lose_no_wal_that_was_open_in_the_interval():
    """HDFS tells when a WAL was closed by its NameNode's clock; write times are of the RegionServer's."""
    assert minutes(found(wal(550, 599.6), wal(599.7, 700), wal(700, 710))) == [550, 599.7]


def test_entries_may_be_in_a_wal_that_was_begun_minutes_later_and_in_one_whose_successor_was_named_minutes_earlier():
    """While HDFS hangs, entries wait, and go to the next WAL. A roll that hangs has named the next WAL already."""
    left = found(wal(560, 600.5), wal(597, 650), wal(650, 663), wal(663, 690), wal(690, 700))
    assert minutes(left) == [560, 597, 650, 663]


def test_an_open_wal_that_was_begun_after_the_interval_is_not_waited_for():
    left = found(wal(590, 661), wal(661, place=WalPlace.SERVER))
    assert (minutes(left), left.open) == ([590], ())


def test_an_open_wal_is_told_only_if_it_can_have_entries_of_the_interval():
    left = found(wal(590, 620), wal(620, place=WalPlace.SERVER))
    assert [w.name.timestamp for w in left.open] == [620 * MINUTE]
    assert minutes(left) == [590]
    assert not found(wal(590, 662), wal(662, place=WalPlace.SERVER)).open


def test_an_open_wal_that_may_be_its_server_s_first_has_to_be_closed_to_tell():
    young = wal(700, place=WalPlace.SERVER)
    left = found(young, opening=None)
    assert left.open == (young,)
    assert not left.holes
    rolled = found(young, wal(710, place=WalPlace.SERVER), opening=True)
    assert (rolled.open, rolled.holes) == ((), ())


def test_the_newest_wal_of_a_dead_server_may_be_torn():
    (group,) = found(wal(590, 620), wal(620, place=WalPlace.SPLITTING), live=False).groups
    assert group.torn == group.wals[-1].name.text
    (group,) = found(wal(590, 620), wal(620, 670), wal(670, 680), live=False).groups
    assert group.torn == ""


def test_a_wal_in_two_places_is_one_and_hbase_s_own_file_counts():
    archived, own = wal(610, 615, WalPlace.ARCHIVE), wal(610, 612)
    for wals in ((archived, own), (own, archived)):
        group = Around()
        for each in wals:
            group.add(each, HOUR)
        assert group.row == [own]
        assert group.first == own


def test_few_wals_are_kept_however_many_there_are():
    groups = around((wal(m, m + 1) for m in range(10_000)), HOUR)
    assert sum(len(group.row) for group in groups.values()) < 80
