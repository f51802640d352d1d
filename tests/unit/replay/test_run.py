"""The cost of a run of very many groups and WALs to its driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.growth import LINEAR, growth
from tests.threads_backend import Threads
from tests.unit.replay.wal_batches import stay
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.names import parse_wal_name
from walferry.replay import run
from walferry.replay.files import GroupFiles
from walferry.replay.scan import Scanned

GROUPS, WALS, STAGES = 400, 40, 5


def files(number: int) -> GroupFiles:
    group = f"rs-{number:04}.example.org%2C16020%2C1700000000001"
    names = (parse_wal_name(f"{group}.{1_700_000_000_000 + i}") for i in range(WALS))
    return GroupFiles(group, None, tuple(WalFile(name, f"file:/{name}", 1, 1, WalPlace.OLD) for name in names))


@pytest.mark.parametrize("moved", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_stages_of_regions_that_moved_are_told_in_proportion_to_the_wals(moved: bool) -> None:
    """Each group's summary has a digest of all WALs with such regions: for each group, and for each stage of it."""

    def shipping(count: int) -> Callable[[], None]:
        groups = [files(number) for number in range(count)]
        scanned: list[list[Scanned]] = []
        for number, group in enumerate(groups):
            stays = [
                stay(number // STAGES, number % STAGES * WALS + i, number % STAGES * WALS + i) for i in range(len(group.wals))
            ]
            scanned.append([Scanned({}, [each if moved else stay(number, 1, 1)]) for each in stays])
        begun = [GroupSummary(group=group.group, status=Status.DONE) for group in groups]
        tasks: list[tuple[GroupFiles, Any, int, GroupSummary]] = []

        def noted(_: object, some: Any) -> list[GroupSummary]:
            tasks.extend(some)
            return [summary for *_, summary in some]

        def ship() -> None:
            job: Any = None
            run._ship(job, groups, begun, scanned, Threads(noted))
            assert {stage for _, _, stage, _ in tasks} == (set(range(STAGES)) if moved else {0})
            assert len({summary.stages.partition(" ")[0] for *_, summary in tasks}) == (count if moved else 1)

        return ship

    assert growth(shipping, GROUPS) < LINEAR
