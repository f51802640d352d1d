"""Puts the outcome of a load together from the outcomes of its tasks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.names import family_text
from walferry.load.errors import RunsLost
from walferry.shipping.bulkload.loading import PartitionOutcome, WantedRuns, wanted_wals
from walferry.shipping.bulkload.rows import Note, WalReport
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


def verdict_of(outcomes: Iterable[PartitionOutcome], targets: Targets, groups: Sequence[Sequence[LoadWal]]) -> Verdict:
    """Put the outcomes together. A table counts as loaded only if all its regions are loaded. Raises RunsLost."""
    outcomes = list(outcomes)
    notes = [Note.from_json(text) for outcome in outcomes for text in outcome.notes]
    reports = {(report := WalReport.from_json(text)).wal: report for outcome in outcomes for text in outcome.reports}
    wanted = wanted_wals(notes)
    failed = {outcome.table: outcome.error for outcome in outcomes if outcome.error}
    prefixes = [_prefix(group, wanted, reports) for group in groups]
    _check_runs(outcomes, prefixes)
    seen = {name for prefix in prefixes for report in prefix for name in report.tables}
    tables = frozenset(seen - failed.keys() - wanted.not_tables)
    loaded = [
        LoadedGroup(
            len(prefix), prefix, whole=not any(report.others or report.tables.keys() - tables for report in prefix), tables=tables
        )
        for prefix in prefixes
    ]
    families = {name: tuple(sorted(map(family_text, targets.tables[name.encode()].families))) for name in sorted(tables)}
    return Verdict(families, loaded, _loaded(outcomes, loaded), _not_loaded(notes, failed, targets, loaded))


def _check_runs(outcomes: Iterable[PartitionOutcome], prefixes: Iterable[Sequence[WalReport]]) -> None:
    """Raise RunsLost unless all runs of the WALs that count as loaded have come. Runs of other WALs do not matter."""
    come: Counter[int] = Counter()
    for outcome in outcomes:
        come.update(dict(outcome.runs))
    for report in chain.from_iterable(prefixes):
        found = come[report.wal]
        if found != report.runs:
            raise RunsLost(
                f"of WAL {report.wal} of the load, {report.runs} sorted runs went into the shuffle, and {found} came out of it",
                "Nothing is taken out of the queues. Run again; if it comes back, ship by sink=direct and report this message",
            )


def _prefix(group: Sequence[LoadWal], wanted: WantedRuns, reports: dict[int, WalReport]) -> list[WalReport]:
    """Return the reports of a group's WALs up to the first WAL that is not loaded."""
    return [reports[wal.number] for wal in takewhile(lambda wal: wal.number in reports and wanted.wal(wal.number), group)]


def _loaded(outcomes: Sequence[PartitionOutcome], groups: Sequence[LoadedGroup]) -> str:
    loads = [outcome.loaded for outcome in outcomes if outcome.region and not outcome.error]
    return (
        f"loaded {sum(load.files for load in loads):,} files with {sum(load.cells for load in loads):,} cells and "
        f"{sum(load.bytes for load in loads):,} bytes into {len(loads):,} regions: what {sum(group.count for group in groups):,} "
        "WALs had"
    )


def _not_loaded(notes: Sequence[Note], failed: dict[str, str], targets: Targets, groups: Sequence[LoadedGroup]) -> str:
    """Return which parts of the backlog go by requests, and why."""
    unfit = {name: why for note in notes for name, why in note.unfit.items()} | failed
    if any(report.others for group in groups for report in group.reports):
        unfit = {name.decode(errors="backslashreplace"): why for name, why in targets.unfit.items()} | unfit
    errors = {note.first: note.error for note in notes if note.error}
    reported = [f"the edits of table {name} go by requests: {why}" for name, why in sorted(unfit.items())]
    reported += [f"a WAL and those after it in its group go by requests: {error}" for _, error in sorted(errors.items())]
    more = [f"and {len(reported) - REPORTED} more"] if len(reported) > REPORTED else []
    return "; ".join([*reported[:REPORTED], *more])
