"""What a retry of a run leaves to the try before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.names import parse_wal_name
from walferry.reship import run, shipment
from walferry.reship.files import GroupFiles
from walferry.reship.listing import Place, WalFile
from walferry.reship.scan import Scanned, Stay
from walferry.shipping.summary import GroupSummary, Status

REGION = 7
JOB: Any = SimpleNamespace(source=None, peer_id="p", run_id="r", knobs=None)
WALS = {group: WalFile(parse_wal_name(f"{group}%2C16020%2C1.{2}"), "", 1, None, Place.OLD) for group in ("a", "b", "c")}


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, Status]]]:
    """`ship(stays, fails=…)` ships groups with these stays; returns which sequence ids of each group were shipped in order."""
    kept: dict[str, GroupSummary] = {}
    shipped: list[tuple[str, int]] = []

    class Shipment:
        def __init__(
            self, job: Any, session: Any, files: Any, stages: Any, stage: int, counters: Any, right: Any, missing: Any
        ) -> None:
            self.what = files.group, stage, counters

        def run(self, done: str) -> None:
            group, stage, counters = self.what
            shipped.append((group, stage))
            counters.end(Status.FAILED if group in fails else Status.DONE)

    fails: set[str] = set()
    monkeypatch.setattr(shipment, "_Shipment", Shipment)
    monkeypatch.setattr(shipment, "open_session", lambda source: nullcontext())
    monkeypatch.setattr(shipment, "Turn", lambda session, job, group: nullcontext(SimpleNamespace(right=None)))
    monkeypatch.setattr(shipment, "read_group", lambda session, peer, run_id, group: kept.get(group))
    monkeypatch.setattr(shipment, "write_group", lambda session, peer, run_id, summary: kept.update({summary.group: summary}))

    def ship_groups(stays: dict[str, Stay], failing: Sequence[str] = ()) -> list[tuple[str, int]]:
        fails.clear()
        fails.update(failing)
        shipped.clear()
        groups = [GroupFiles(group, None, (WALS[group],)) for group in stays]
        begun = [GroupSummary(group=group, status=Status.DONE) for group in stays]
        scanned = [[Scanned(1, {}, [stay])] for stay in stays.values()]
        run._ship(JOB, groups, begun, scanned, lambda function, things: [function(thing) for thing in things])
        return list(shipped)

    return ship_groups  # type: ignore[return-value]


def test_groups_that_are_done_are_not_shipped_again(ship):
    stays = {"a": Stay(REGION, 1, 9), "b": Stay(REGION, 10, 19), "c": Stay(8, 1, 9)}
    assert ship(stays, ["c"]) == [("a", 0), ("b", 0), ("c", 0)]
    assert ship(stays) == [("c", 0), ("b", 1)]
    assert ship(stays) == []


def test_what_is_in_another_stage_than_before_is_shipped_though_its_group_was_done(ship):
    stays = {"a": Stay(REGION, 1, 9), "b": Stay(REGION, 10, 19), "c": Stay(8, 1, 9)}
    ship(stays, ["c"])  # b's edits of the region wait for stage 1, which is not reached
    del stays["a"]  # HBase's cleaner has deleted its files since
    assert ship(stays) == [("b", 0), ("c", 0)]
