"""Puts the outcome of a load together from the outcomes of its tasks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.names import family_text
from walferry.shipping.bulkload.loading import Loaded, ShareOutcome
from walferry.shipping.bulkload.reading import WalReport
from walferry.shipping.bulkload.survey import WalSurvey, Wanted, shown
from walferry.shipping.bulkload.targets import Targets
from walferry.shipping.bulkload.wals import LoadWal
from walferry.shipping.candidates import GroupCandidates

REPORTED = 20  # reasons at most, why tables and WALs are not loaded


@dataclass(frozen=True)
class LoadedGroup:
    """The first `count` WALs of a group, with their reports. `whole`: nothing of these WALs is left to be shipped."""

    count: int
    reports: Sequence[WalReport]
    whole: bool
    tables: frozenset[str]  # tables that are loaded

    def summary(
        self, before: GroupSummary, found: GroupCandidates, wals: Sequence[LoadWal], *, peer_cluster: str, whole: bool,
        removed: int, seconds: float, not_loaded: str,
    ) -> GroupSummary:  # fmt: skip
        """Return the group's summary after the load. If it is not `whole`, requests go on, and count the edits that they read."""
        counts = [counts for report in self.reports for name, counts in report.tables.items() if name in self.tables]
        _, cells, size, operations = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0, 0)
        last = max((report.last_written for report in self.reports), default=0) if counts else 0
        shipped = replace(
            before.plus(shippedOps=operations, shippedCells=cells, shippedBytes=size), server=found.server,
            queue_id=found.queue_id, peer_cluster=peer_cluster, error=None, passing=False,
            timestampOfLastShippedOp=max(before.timestampOfLastShippedOp or 0, last) or None,
            ageOfLastShippedOp=max(0, int(time.time() * 1000) - last) if last else before.ageOfLastShippedOp,
            seconds=round(before.seconds + seconds, 3), notLoaded=not_loaded or None,
        )  # fmt: skip
        if not whole:
            return shipped
        to_ship = sum(wal.bytes_left for wal in wals)
        counted = shipped.plus(
            logEditsRead=sum(report.read_edits for report in self.reports), completedLogs=removed,
            logReadInBytes=sum(report.read_bytes for report in self.reports),
            uncleanlyClosedLogs=sum(not report.clean for report in self.reports),
            ignoredUncleanlyClosedLogContentsInBytes=sum(report.ignored for report in self.reports),
        )  # fmt: skip
        filtered = sum((Counter(report.filtered) for report in self.reports), Counter(before.logEditsFiltered))
        return replace(
            counted, status=Status.DONE, sink="hfiles", logEditsFiltered=dict(filtered), sizeOfLogQueue=found.queued - removed,
            logsLeft=0, bytesToShip=to_ship, bytesDone=to_ship, timestampOfNextToReplicate=None, replicationLag=0,
        )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The tables that are loaded, with their families, and how much of each group.

    `loaded` and `not_loaded` say in words how much is loaded, and what is not loaded and why.
    """

    tables: Mapping[str, tuple[str, ...]]
    groups: Sequence[LoadedGroup]
    loaded: str
    not_loaded: str


def verdict_of(
    outcomes: Sequence[ShareOutcome], wanted: Wanted, surveys: Sequence[WalSurvey], targets: Targets,
    groups: Sequence[Sequence[LoadWal]],
) -> Verdict:  # fmt: skip
    """Put the outcomes together. A table counts as loaded only if all its regions are loaded."""
    failed = {table: why for outcome in outcomes for why, tables in outcome.failed.items() for table in tables}
    prefixes = [[surveys[wal.number].report for wal in group if wal.number not in wanted.not_wals] for group in groups]
    seen = {name for prefix in prefixes for report in prefix for name in report.tables}
    tables = frozenset(seen - failed.keys() - wanted.unfit.keys())
    loaded = [
        LoadedGroup(
            len(prefix), prefix, whole=not any(report.others or report.tables.keys() - tables for report in prefix), tables=tables
        )
        for prefix in prefixes
    ]
    families = {name: tuple(sorted(map(family_text, targets.tables[name.encode()].families))) for name in sorted(tables)}
    return Verdict(families, loaded, _loaded(outcomes, loaded), _not_loaded(wanted, failed, targets, loaded))


def _loaded(outcomes: Sequence[ShareOutcome], groups: Sequence[LoadedGroup]) -> str:
    loaded = Loaded.all_of(outcome.loaded for outcome in outcomes)
    return (
        f"loaded {loaded.files:,} files with {loaded.cells:,} cells and {loaded.bytes:,} bytes into "
        f"{sum(outcome.regions for outcome in outcomes):,} regions: what {sum(group.count for group in groups):,} WALs had"
    )


def _not_loaded(wanted: Wanted, failed: Mapping[str, str], targets: Targets, groups: Sequence[LoadedGroup]) -> str:
    """Return which parts of the backlog go by requests, and why."""
    unfit = {**wanted.unfit, **failed}
    if any(report.others for group in groups for report in group.reports):
        unfit = {shown(name): why for name, why in targets.unfit.items()} | unfit
    reported = [f"the edits of table {name} go by requests: {why}" for name, why in sorted(unfit.items())]
    reported += [f"a WAL and those after it in its group go by requests: {error}" for _, error in sorted(wanted.errors.items())]
    more = [f"and {len(reported) - REPORTED} more"] if len(reported) > REPORTED else []
    return "; ".join([*reported[:REPORTED], *more])
