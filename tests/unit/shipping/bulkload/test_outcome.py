"""Edits count as loaded only if all partitions have loaded them, whatever the partitions know of each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shipping.bulkload.jobs import groups_of, targets
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.names import parse_wal_name
from walferry.load.errors import RunsLost
from walferry.replication.queues.queue import QueuedWal
from walferry.shipping.bulkload.loading import Loaded, PartitionOutcome, wanted_wals
from walferry.shipping.bulkload.outcome import REPORTED, Verdict, verdict_of
from walferry.shipping.bulkload.rows import Note, WalReport
from walferry.shipping.bulkload.wals import LoadWal
from walferry.shipping.candidates import Candidate, GroupCandidates

TABLES = targets(b"t", b"u", unfit={b"x": "it has a coprocessor"})


def report(wal: int, *tables: str, others: bool = False, runs: int = 0) -> PartitionOutcome:
    made = WalReport(wal, end=100 + wal, tables={table: [1, 2, 30, 4] for table in tables}, others=others, runs=runs)
    return PartitionOutcome(reports=(made.to_json(),))


def noted(note: Note) -> PartitionOutcome:
    return PartitionOutcome(notes=(note.to_json(),))


def loaded(table: str, *, error: str = "") -> PartitionOutcome:
    return PartitionOutcome(table, f"{table}-region", Loaded(1, 10, 2) if not error else Loaded(), error)


def verdict(groups: Sequence[Sequence[LoadWal]], *outcomes: PartitionOutcome) -> Verdict:
    return verdict_of([PartitionOutcome.from_json(outcome.to_json()) for outcome in outcomes], TABLES, groups)


def counts(found: Verdict) -> list[tuple[int, bool]]:
    return [(group.count, group.whole) for group in found.groups]


def test_all_is_loaded_if_each_region_and_each_wal_is() -> None:
    found = verdict(groups_of(2, 1), *(report(wal, "t", "u") for wal in range(3)), loaded("t"), loaded("u"), loaded("t"))
    assert (found.tables, counts(found), found.not_loaded) == ({"t": ("f",), "u": ("f",)}, [(2, True), (1, True)], "")
    assert found.loaded == "loaded 3 files with 6 cells and 30 bytes into 3 regions: what 3 WALs had"


def test_a_table_is_not_loaded_if_one_of_its_regions_is_not() -> None:
    outcomes = [loaded("t"), loaded("t", error="it split"), loaded("t"), loaded("u")]
    found = verdict(groups_of(1, 1), report(0, "t", "u"), report(1, "u"), *outcomes)
    assert (found.tables, counts(found)) == ({"u": ("f",)}, [(1, False), (1, True)])
    assert found.not_loaded == "the edits of table t go by requests: it split"


def test_a_wal_without_a_report_and_all_after_it_in_its_group_are_not_loaded() -> None:
    found = verdict(groups_of(3, 2), report(0, "t"), report(2, "u"), report(4, "t"), loaded("t"), loaded("u"))
    assert (found.tables, counts(found)) == ({"t": ("f",)}, [(1, True), (0, True)])


def test_a_wal_that_was_read_in_one_try_and_not_in_another_is_not_loaded() -> None:
    """Spark runs a reader again if it has lost what the first run wrote."""
    read, broken = report(1, "t"), noted(Note(1, 3, "no answer"))
    for outcomes in ([read, broken], [broken, read], [broken]):
        found = verdict(groups_of(3, 1), report(0, "t"), *outcomes, report(2, "t"), report(3, "t"), loaded("t"))
        assert counts(found) == [(1, True), (1, True)]
    assert found.not_loaded == "a WAL and those after it in its group go by requests: no answer"


@pytest.mark.parametrize("come", [(), ((0, 3),), ((0, 2), (0, 3)), ((1, 4),)])
def test_a_load_whose_runs_did_not_all_come_counts_for_nothing(come: tuple[tuple[int, int], ...]) -> None:
    partitions = [PartitionOutcome(runs=(counted,)) for counted in come]
    with pytest.raises(RunsLost, match="of WAL 0 of the load, 4 sorted runs went"):
        verdict(groups_of(1), report(0, "t", runs=4), *partitions, loaded("t"))


def test_runs_of_all_partitions_add_up_and_those_of_wals_that_are_shipped_otherwise_do_not_count() -> None:
    come = [PartitionOutcome(runs=((0, 1), (1, 1))), PartitionOutcome(runs=((0, 3), (2, 7)))]
    outcomes = [report(0, "t", runs=4), report(1, "t", runs=2), noted(Note(1, 3, "broken")), loaded("t")]
    assert counts(verdict(groups_of(3), *outcomes, *come)) == [(1, True)]


def test_a_note_counts_though_nothing_is_said_of_the_reason() -> None:
    assert counts(verdict(groups_of(2), report(0, "t"), report(1, "t"), noted(Note(1, 2)), loaded("t"))) == [(1, True)]


def test_a_table_that_one_partition_has_found_unfit_is_not_loaded() -> None:
    found = verdict(groups_of(1), report(0, "t", "u"), noted(Note(unfit={"t": "labels"})), loaded("t"), loaded("u"))
    assert (found.tables, counts(found)) == ({"u": ("f",)}, [(1, False)])
    assert "table t go by requests: labels" in found.not_loaded


def test_edits_that_do_not_go_into_files_leave_their_group_to_be_shipped() -> None:
    found = verdict(groups_of(1, 1), report(0, "t", others=True), report(1, "t"), loaded("t"))
    assert counts(found) == [(1, False), (1, True)]
    assert found.not_loaded == "the edits of table x go by requests: it has a coprocessor"


def test_wals_without_edits_for_the_peer_are_done_with() -> None:
    found = verdict(groups_of(2), report(0), report(1))
    assert (found.tables, counts(found)) == ({}, [(2, True)])


def test_only_some_of_many_reasons_are_told() -> None:
    found = verdict(groups_of(1), report(0), noted(Note(unfit={f"t{number}": "labels" for number in range(REPORTED + 5)})))
    assert found.not_loaded.count("go by requests") == REPORTED
    assert found.not_loaded.endswith("; and 5 more")


NAMES = st.sampled_from(["t", "u"])


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.sets(st.integers(0, 11)),
    st.sets(st.integers(0, 11)),
    st.sets(NAMES),
    st.sets(NAMES),
    st.sets(st.integers(0, 11)),
)
def test_what_counts_as_loaded_was_loaded_by_all(
    sizes: list[int], broken: set[int], silent: set[int], unfit: set[str], failed: set[str], others: set[int]
) -> None:
    groups = groups_of(*sizes)
    wals = [wal for group in groups for wal in group]
    notes = [Note(wal.number, wal.end_of_group, "broken") for wal in wals if wal.number in broken]
    outcomes = [noted(note) for note in (*notes, Note(unfit=dict.fromkeys(unfit, "labels")))]
    outcomes += [report(wal.number, "t", "u", others=wal.number in others) for wal in wals if wal.number not in silent]
    outcomes += [loaded(table, error="no" if table in failed else "") for table in ("t", "u")]
    found = verdict(groups, *outcomes)
    assert not set(found.tables) & (unfit | failed)
    wanted = wanted_wals(notes)
    for group, mine in zip(groups, found.groups, strict=True):
        numbers = [wal.number for wal in group]
        assert [each.wal for each in mine.reports] == numbers[: mine.count]
        assert all(wanted.wal(number) and number not in silent for number in numbers[: mine.count])
        if mine.count < len(group):
            assert {numbers[mine.count]} & (broken | silent)
        if mine.whole and mine.count:
            assert set(found.tables) == {"t", "u"}
            assert not set(numbers[: mine.count]) & others


def candidates(count: int) -> GroupCandidates:
    wals = [QueuedWal(parse_wal_name(f"rs%2C1%2C1.{number}"), f"/q/{number}", 0) for number in range(count)]
    return GroupCandidates("rs%2C1%2C1", "rs,1,1", "p", tuple(Candidate(wal, False, ()) for wal in wals), count + 1)


def summed_up(tables: Collection[str], *, whole: bool) -> GroupSummary:
    groups = groups_of(2)
    regions = [loaded(table, error="" if table in tables else "no") for table in ("t", "u")]
    (group,) = verdict(groups, report(0, "t"), report(1, "t", "u"), *regions).groups
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
