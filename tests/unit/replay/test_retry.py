"""The work that a retry of a run leaves to the try before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.threads_backend import Threads
from tests.unit.replay.wal_batches import stay
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.names import parse_wal_name
from walferry.replay import run, shipment
from walferry.replay.files import GroupFiles
from walferry.replay.scan import Scanned, Stay

REGION = 7
JOB: Any = SimpleNamespace(source=None, peer_id="p", run_id="r", settings=None)

Wals = Mapping[int, Stay | None]  # the WALs of a group, by their timestamps, and what each has of the interval


def wal(group: str, timestamp: int) -> WalFile:
    return WalFile(parse_wal_name(f"{group}%2C16020%2C1.{timestamp}"), "", 1, None, WalPlace.OLD)


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """`ship({group: wals}, failing=…)` is a try of one run; returns the WALs that were shipped, in order, each with its stage.

    The peer cluster takes the WALs before the one that fails. With `unreadable` no WAL can be scanned. `ship.kept` are the
    summaries.
    """
    kept: dict[str, GroupSummary] = {}
    shipped: list[str] = []
    fails: set[str] = set()

    class Shipment:
        def __init__(
            self, job: Any, session: Any, files: Any, stages: Any, stage: int, counters: Any, right: Any, missing: Any
        ) -> None:
            self.group, self.wals, self.stage, self.counters = files.group, files.wals, stage, counters

        def run(self) -> None:
            for each in self.wals:
                name = f"{self.group}{each.name.timestamp}"
                shipped.append(f"{name} in stage {self.stage}" if self.stage else name)
                if name in fails:
                    self.counters.end(Status.FAILED)
                    return
                self.counters.read_again(each.name.text)
            self.counters.end(Status.DONE)

    monkeypatch.setattr(shipment, "_Shipment", Shipment)
    monkeypatch.setattr(shipment, "open_session", lambda source: nullcontext())

    def write(summary: GroupSummary) -> None:
        kept[summary.group] = summary

    turn = SimpleNamespace(right=None, write=write)
    monkeypatch.setattr(shipment, "GroupLock", lambda session, job, group, name: nullcontext(turn))
    monkeypatch.setattr(shipment, "begin_group", lambda session, peer, run_id, summary: kept.setdefault(summary.group, summary))
    monkeypatch.setattr(shipment, "read_group", lambda session, peer, run_id, group: kept.get(group))
    monkeypatch.setattr(run, "open_session", lambda source: nullcontext())
    monkeypatch.setattr(run, "change_group", lambda session, peer, run_id, group, change: write(change(kept.get(group))))

    def ship_groups(found: Mapping[str, Wals], failing: Collection[str] = (), *, unreadable: bool = False) -> list[str]:
        fails.clear()
        fails.update(failing)
        shipped.clear()
        groups = [GroupFiles(group, None, tuple(wal(group, timestamp) for timestamp in wals)) for group, wals in found.items()]
        begun = [GroupSummary(group=group, status=Status.DONE) for group in found]
        scanned = [[Scanned({}, [each] if each else []) for each in wals.values()] for wals in found.values()]
        if unreadable:
            run._keep(JOB, [run._begun(group, [Scanned(error="HDFS is away")]) for group in groups])
            return []
        one_after_another = Threads(lambda function, items: [function(item) for item in items])
        run._ship(JOB, groups, begun, scanned, one_after_another)
        return list(shipped)

    ship_groups.kept = kept  # type: ignore[attr-defined]
    return ship_groups


def alone(group: str, *timestamps: int) -> dict[int, Stay | None]:
    """WALs with edits of a region that no other group has."""
    return {timestamp: stay(hash(group), timestamp, timestamp) for timestamp in timestamps}


def test_groups_that_are_done_are_not_shipped_again(ship):
    found = {"a": {2: stay(REGION, 1, 9)}, "b": {2: stay(REGION, 10, 19)}, "c": alone("c", 2)}
    assert ship(found, ["c2"]) == ["a2", "b2", "c2"]
    assert ship(found) == ["c2", "b2 in stage 1"]
    assert ship(found) == []


def test_what_is_in_another_stage_than_before_is_shipped_though_its_group_was_done(ship):
    found = {"a": {2: stay(REGION, 1, 9)}, "b": {2: stay(REGION, 10, 19)}, "c": alone("c", 2)}
    ship(found, ["c2"])  # b's edits of the region wait for stage 1, which is not reached
    del found["a"]  # HBase's cleaner has deleted its files since
    assert ship(found) == ["b2", "c2"]


def test_wals_that_only_the_retry_finds_are_shipped_though_their_group_was_done(ship):
    assert ship({"a": alone("a", 1, 2), "b": alone("b", 1)}, ["b1"]) == ["a1", "a2", "b1"]
    assert ship({"a": alone("a", 1, 2, 3), "b": alone("b", 1)}) == ["a3", "b1"]  # a3 was still open
    assert ship({"a": alone("a", 1, 2, 3), "b": alone("b", 1)}) == []


def test_a_wal_that_is_found_late_among_those_that_are_done_is_shipped_with_all_that_follow_it(ship):
    """Else its edits would lie over newer ones."""
    ship({"a": alone("a", 1, 3, 4)}, ["a4"])
    assert ship({"a": alone("a", 1, 2, 3, 4)}) == ["a1", "a2", "a3", "a4"]


def test_wals_without_edits_of_the_interval_are_not_shipped_and_may_come_and_go(ship):
    assert ship({"a": {1: None, **alone("a", 2, 3)}}, ["a3"]) == ["a2", "a3"]
    assert ship({"a": {**alone("a", 2, 3), 4: None}}) == ["a3"]  # HBase's cleaner has deleted a1 since


def test_a_region_s_later_stages_follow_a_wal_that_only_the_retry_finds(ship):
    a, b = {1: stay(REGION, 1, 4)}, {2: stay(REGION, 10, 19), 3: stay(8, 1, 9)}
    assert ship({"a": a, "b": b, "c": alone("c", 1)}) == ["a1", "b2", "b3", "c1", "b2 in stage 1"]
    assert ship({"a": {**a, 2: stay(REGION, 5, 9)}, "b": b, "c": alone("c", 1)}) == ["a1", "a2", "b2", "b3", "b2 in stage 1"]


def test_a_retry_that_cannot_read_the_wals_forgets_nothing_of_what_is_done(ship):
    found = {"a": {1: None, 2: stay(REGION, 1, 9)}, "b": {2: stay(REGION, 10, 19)}, "c": alone("c", 2, 3)}
    assert ship(found, ["c3"]) == ["a2", "b2", "c2", "c3"]
    ship(found, unreadable=True)
    assert ship(found) == ["c3", "b2 in stage 1"]
    ship(found, unreadable=True)
    assert [summary.failed for summary in ship.kept.values() if "stage" not in summary.group] == [True, True, True]
    assert ship(found) == []
    assert [summary.failed for summary in ship.kept.values()] == [False] * 4


def test_later_stages_follow_a_stage_that_is_shipped_again_for_whatever_reason(ship):
    found = {"a": {2: stay(REGION, 1, 9), 3: stay(REGION, 20, 29)}, "b": {2: stay(REGION, 10, 19)}}
    everything = ["a2", "a3", "b2", "b2 in stage 1", "a2 in stage 2", "a3 in stage 2"]
    assert ship(found) == everything
    assert ship(found) == []
    del ship.kept["a"]  # e.g. it cannot be read
    assert ship(found) == ["a2", "a3", "b2 in stage 1", "a2 in stage 2", "a3 in stage 2"]
    del ship.kept["b, stage 1"]
    assert ship(found) == ["b2 in stage 1", "a2 in stage 2", "a3 in stage 2"]
    assert ship(found) == []
