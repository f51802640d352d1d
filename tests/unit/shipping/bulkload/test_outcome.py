"""Edits count as loaded only if all tasks that have some of them have loaded them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shipping.bulkload.jobs import groups_of, targets
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.names import parse_wal_name
from walferry.replication.queues.queue import QueuedWal
from walferry.shipping.bulkload.loading import Loaded, ShareOutcome
from walferry.shipping.bulkload.outcome import REPORTED, Verdict, verdict_of
from walferry.shipping.bulkload.reading import WalReport
from walferry.shipping.bulkload.survey import WalSurvey, wanted_of
from walferry.shipping.bulkload.wals import LoadWal
from walferry.shipping.candidates import Candidate, GroupCandidates

TABLES = targets(b"t", b"u", unfit={b"x": "it has a coprocessor"})


def survey(wal: int, *tables: str, others: bool = False, error: str = "", unfit: Mapping[str, str] | None = None) -> WalSurvey:
    report = WalReport(wal, end=100 + wal, tables={table: [1, 2, 30, 4] for table in tables}, others=others)
    return WalSurvey(report, error, unfit or {})


def loaded(**failed: str) -> ShareOutcome:
    """Three regions that are loaded, and one of each table that is not, with the reasons."""
    reasons = {why: tuple(name for name, other in failed.items() if other == why) for why in failed.values()}
    return ShareOutcome(0, 3, Loaded(3, 30, 6), reasons)


def verdict(groups: Sequence[Sequence[LoadWal]], surveys: Sequence[WalSurvey], *outcomes: ShareOutcome) -> Verdict:
    sent = [ShareOutcome.from_json(outcome.to_json()) for outcome in outcomes]
    found = [WalSurvey.from_json(each.to_json()) for each in surveys]
    wals = [wal for group in groups for wal in group]
    return verdict_of(sent, wanted_of(zip(wals, found, strict=True)), found, TABLES, groups)


def counts(found: Verdict) -> list[tuple[int, bool]]:
    return [(group.count, group.whole) for group in found.groups]


def test_all_is_loaded_if_each_region_and_each_wal_is() -> None:
    found = verdict(groups_of(2, 1), [survey(wal, "t", "u") for wal in range(3)], loaded())
    assert (found.tables, counts(found), found.not_loaded) == ({"t": ("f",), "u": ("f",)}, [(2, True), (1, True)], "")
    assert found.loaded == "loaded 3 files with 6 cells and 30 bytes into 3 regions: what 3 WALs had"


def test_a_table_is_not_loaded_if_one_of_its_regions_is_not() -> None:
    found = verdict(groups_of(1, 1), [survey(0, "t", "u"), survey(1, "u")], loaded(), loaded(t="it split"))
    assert (found.tables, counts(found)) == ({"u": ("f",)}, [(1, False), (1, True)])
    assert found.not_loaded == "the edits of table t go by requests: it split"


def test_a_wal_that_cannot_be_read_and_all_after_it_in_its_group_are_not_loaded() -> None:
    surveys = [survey(0, "t"), survey(1, error="no answer"), survey(2, "u"), survey(3, "t")]
    found = verdict(groups_of(3, 1), surveys, loaded())
    assert (found.tables, counts(found)) == ({"t": ("f",)}, [(1, True), (1, True)])
    assert found.not_loaded == "a WAL and those after it in its group go by requests: no answer"


def test_a_table_that_is_unfit_in_one_wal_is_not_loaded() -> None:
    found = verdict(groups_of(1, 1), [survey(0, "t", "u"), survey(1, unfit={"t": "labels"})], loaded())
    assert (found.tables, counts(found)) == ({"u": ("f",)}, [(1, False), (1, True)])
    assert "table t go by requests: labels" in found.not_loaded


def test_edits_that_do_not_go_into_files_leave_their_group_to_be_shipped() -> None:
    found = verdict(groups_of(1, 1), [survey(0, "t", others=True), survey(1, "t")], loaded())
    assert counts(found) == [(1, False), (1, True)]
    assert found.not_loaded == "the edits of table x go by requests: it has a coprocessor"


def test_wals_without_edits_for_the_peer_are_done_with() -> None:
    found = verdict(groups_of(2), [survey(0), survey(1)])
    assert (found.tables, counts(found)) == ({}, [(2, True)])


def test_only_some_of_many_reasons_are_told() -> None:
    found = verdict(groups_of(1), [survey(0, unfit={f"t{number}": "labels" for number in range(REPORTED + 5)})])
    assert found.not_loaded.count("go by requests") == REPORTED
    assert found.not_loaded.endswith("; and 5 more")


NAMES = st.sampled_from(["t", "u"])


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.sets(st.integers(0, 11)),
    st.sets(NAMES),
    st.sets(NAMES),
    st.sets(st.integers(0, 11)),
)
def test_what_counts_as_loaded_was_loaded_by_all(
    sizes: list[int], broken: set[int], unfit: set[str], failed: set[str], others: set[int]
) -> None:
    groups = groups_of(*sizes)
    wals = [wal.number for group in groups for wal in group]
    surveys = [
        survey(wal, "t", "u", others=wal in others, error="broken" if wal in broken else "",
               unfit=dict.fromkeys(unfit, "labels") if wal == wals[-1] else {})
        for wal in wals
    ]  # fmt: skip
    unfit &= {"t", "u"} if wals else set()
    found = verdict(groups, surveys, loaded(**dict.fromkeys(failed, "no")))
    assert not set(found.tables) & (unfit | failed)
    for group, mine in zip(groups, found.groups, strict=True):
        numbers = [wal.number for wal in group]
        assert [each.wal for each in mine.reports] == numbers[: mine.count]
        assert not set(numbers[: mine.count]) & broken
        if mine.count < len(group):
            assert numbers[mine.count] in broken
        if mine.whole and mine.count:
            assert set(found.tables) == {"t", "u"}
            assert not set(numbers[: mine.count]) & others


def candidates(count: int) -> GroupCandidates:
    wals = [QueuedWal(parse_wal_name(f"rs%2C1%2C1.{number}"), f"/q/{number}", 0) for number in range(count)]
    return GroupCandidates("rs%2C1%2C1", "rs,1,1", "p", tuple(Candidate(wal, False, ()) for wal in wals), count + 1)


def summed_up(tables: Collection[str], *, whole: bool) -> GroupSummary:
    groups = groups_of(2)
    failed = loaded(**{table: "no" for table in ("t", "u") if table not in tables})
    (group,) = verdict(groups, [survey(0, "t"), survey(1, "t", "u")], failed).groups
    return group.summary(
        GroupSummary(group="g", shippedOps=1, completedLogs=3), candidates(2), groups[0], peer_cluster="zk:2181:/s", whole=whole,
        removed=2 if whole else 0, seconds=1.5, not_loaded="why",
    )  # fmt: skip


def test_the_summary_of_a_group_that_is_loaded_says_that_it_is_done() -> None:
    summary = summed_up(["t", "u"], whole=True)
    assert (summary.status, summary.sink, summary.completedLogs, summary.sizeOfLogQueue) == (Status.DONE, "hfiles", 5, 1)
    assert (summary.shippedOps, summary.shippedCells, summary.shippedBytes) == (13, 6, 90)


def test_the_summary_of_a_group_that_goes_on_counts_only_what_is_loaded() -> None:
    summary = summed_up(["t"], whole=False)
    assert summary.status is not Status.DONE
    assert (summary.shippedOps, summary.shippedCells, summary.completedLogs, summary.notLoaded) == (9, 4, 3, "why")
