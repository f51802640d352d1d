"""Each region that gets edits goes to one task, which reads all WALs that have them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shipping.bulkload.jobs import groups_of
from walferry.shipping.bulkload.reading import WalReport
from walferry.shipping.bulkload.shares import READERS, SHARE_BYTES, shares_of
from walferry.shipping.bulkload.survey import WalSurvey
from walferry.shipping.bulkload.wals import LoadWal

Found = list[tuple[LoadWal, WalSurvey]]


def on(cores: int, least_bytes: int = 0, most_tasks: int = 1000) -> Any:
    return SimpleNamespace(cores=cores, least_bytes=least_bytes, most_tasks=most_tasks)


def found(*groups: list[dict[int, int]]) -> Found:
    """WALs by group, each with the bytes of its regions; a cell has ten bytes."""
    wals = [wal for group in groups_of(*map(len, groups)) for wal in group]
    sizes = [each for group in groups for each in group]
    return [
        (
            wal,
            WalSurvey(
                WalReport(wal.number, crc=wal.number + 100),
                regions=tuple((region, size // 10, size) for region, size in some.items()),
            ),
        )
        for wal, some in zip(wals, sizes, strict=True)
    ]


def test_two_cores_take_two_halves_and_read_the_wals_of_their_own_servers() -> None:
    wals = found([{0: 100, 2: 100}, {0: 100, 2: 100}], [{1: 200, 3: 200}])
    first, second = shares_of(wals, range(4), on(2))
    assert (first.regions, first.wals) == (((0, 20), (2, 20)), ((0, 100), (1, 101)))
    assert (second.regions, second.wals) == (((1, 20), (3, 20)), ((2, 102),))


def test_a_region_that_has_moved_is_read_from_both_servers() -> None:
    (share,) = shares_of(found([{0: 100}], [{0: 300}]), [0], on(8))
    assert (share.regions, share.wals) == (((0, 40),), ((0, 100), (1, 101)))


def test_there_are_no_more_tasks_than_the_machines_have_processors() -> None:
    def by(*hosts: tuple[str, int]) -> int:
        wals = found(*([{region: 100}] for region in range(8)))
        read = [(wal, replace(survey, host=hosts[n % len(hosts)][0], processors=hosts[n % len(hosts)][1]))
                for n, (wal, survey) in enumerate(wals)]  # fmt: skip
        return len(shares_of(read, range(8), on(6)))

    assert [by(("a", 2)), by(("a", 2), ("b", 3)), by(("a", 64)), by(("", 0))] == [2, 5, 6, 6]


def test_nothing_is_worth_more_tasks_than_its_bytes() -> None:
    wals = found([dict.fromkeys(range(10), 100)])
    assert [len(shares_of(wals, range(10), on(4, least))) for least in (0, 300, 1000, 5000)] == [4, 3, 1, 1]


def test_a_share_is_not_too_large_and_a_group_is_not_read_too_often() -> None:
    wals = found([dict.fromkeys(range(1000), SHARE_BYTES // 100)])
    assert len(shares_of(wals, range(1000), on(1))) == 10
    assert len(shares_of(found([dict.fromkeys(range(1000), SHARE_BYTES)]), range(1000), on(1))) == READERS


def test_without_edits_there_are_no_shares() -> None:
    assert (
        shares_of([], range(4), on(2)) == shares_of(found([{}]), range(4), on(2)) == shares_of(found([{1: 5}]), [], on(2)) == []
    )


SIZES = st.dictionaries(st.integers(0, 12), st.integers(1, 1000), max_size=6)


@given(st.lists(st.lists(SIZES, max_size=4), max_size=4), st.sets(st.integers(0, 12)), st.integers(1, 5), st.integers(1, 5))
def test_each_wanted_region_is_in_one_share_with_all_its_cells_and_wals(
    groups: list[list[dict[int, int]]], wanted: set[int], cores: int, most: int
) -> None:
    wals = found(*groups)
    shares = shares_of(wals, wanted, on(cores, most_tasks=most))
    regions = [region for share in shares for region, _ in share.regions]
    having = {region for _, survey in wals for region, _, _ in survey.regions} & wanted
    assert sorted(regions) == sorted(having)
    assert len(shares) <= min(cores, most)
    for share in shares:
        mine = dict(share.regions)
        needed = [wal.number for wal, survey in wals if any(region in mine for region, _, _ in survey.regions)]
        assert list(share.wals) == [(number, number + 100) for number in needed]
        for region, cells in mine.items():
            assert cells == sum(count for _, survey in wals for number, count, _ in survey.regions if number == region)
