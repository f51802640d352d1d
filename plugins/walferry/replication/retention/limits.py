"""Findings about oldWALs, for thresholds that a user sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from walferry.base.amounts import duration
from walferry.base.findings import Finding, wrong
from walferry.replication.retention.survey import Blocker, Fate, OldWalSurvey, ShippedBy

OLD_WALS = "old-wals"
CLEANER = "log-cleaner"
SHOWN_PEERS = 5
GIB = 1 << 30
OVERDUE_SECONDS = 7200.0  # the Master cleans every 10 minutes (hbase.master.cleaner.interval), and one round may take long
SKEW_SECONDS = 60.0
_ADVICE = {
    ShippedBy.HBASE: "Look at the metrics of its replication source, or have Walferry drain it",
    ShippedBy.WALFERRY: "Look at the last reports of replicate_peer",
    ShippedBy.NOBODY: "Enable it, take it over with `peers take-over`, or remove it",
    ShippedBy.PAUSED: "Resume it with `peers resume`, or remove it",
    ShippedBy.GONE: "Run drain_recovered_queue with delete_orphan, or have HBase do it with `hbck2 replication --fix`",
}


@dataclass(frozen=True)
class OldWalLimits:
    """The thresholds for warnings."""

    held_gib: float
    blocked_hours: float
    days_left: float


def exceeded(survey: OldWalSurvey, limits: OldWalLimits) -> list[Finding]:
    """Return the findings that a user should look after, the most urgent first."""
    return [*full_disk(survey, limits.days_left), *_held(survey, limits), *_blockers(survey, limits), *_cleaner(survey)]


def full_disk(survey: OldWalSurvey, days_left: float) -> Iterator[Finding]:
    """Report the disk under oldWALs if it fills up within `days_left` days."""
    left = survey.forecast.seconds_left
    if left is not None and left < days_left * 86400:
        peers = ", ".join(blocker.peer_id for blocker in survey.blockers[:SHOWN_PEERS] if blocker.held.files)
        text = f"the disk under oldWALs is full in {duration(left)} if what queues keep there (of peers: {peers}) grows on so"
        yield wrong(OLD_WALS, text)


def _held(survey: OldWalSurvey, limits: OldWalLimits) -> Iterator[Finding]:
    held = survey.amount(Fate.HELD)
    if held.bytes > limits.held_gib * GIB:
        yield wrong(OLD_WALS, f"queues hold {held.bytes / GIB:,.1f} GiB in oldWALs, more than {limits.held_gib:g} GiB")


def _blockers(survey: OldWalSurvey, limits: OldWalLimits) -> Iterator[Finding]:
    for blocker in survey.blockers:
        hours = survey.blocked_seconds(blocker.held) / 3600 if blocker.held.files else 0.0
        if hours > limits.blocked_hours or blocker.shipped_by is ShippedBy.GONE:
            text = f"{_described(blocker, hours)}; shipped by {blocker.shipped_by}"
            yield wrong(OLD_WALS, text, _ADVICE[blocker.shipped_by], f"peer {blocker.peer_id}")


def _described(blocker: Blocker, hours: float) -> str:
    if not blocker.held.files:
        return f"it has {blocker.queued:,} WALs queued"
    amount = f"{blocker.held.files:,} WALs in oldWALs ({blocker.held.bytes / GIB:,.1f} GiB)"
    return f"it holds {amount}, the oldest for {hours:,.1f} hours"


def _cleaner(survey: OldWalSurvey) -> Iterator[Finding]:
    if survey.not_servers:
        names = ", ".join(sorted(survey.not_servers)[:5])
        text = f"replication/rs has children that are not server names ({names}): HBase's log cleaner stops at them"
        yield wrong(CLEANER, text, "Delete them")
    due = survey.at - survey.ttl_seconds - OVERDUE_SECONDS
    overdue = [each.wal for each in survey.wals if each.fate is Fate.FREE and each.wal.modified < due]
    if overdue:
        hours = OVERDUE_SECONDS / 3600
        text = f"HBase's log cleaner has left {len(overdue):,} WALs for more than {hours:g} hours that no queue holds"
        yield wrong(CLEANER, text, "Look at the log of the active Master, and at hbase.master.logcleaner.plugins")
    ahead = [each.wal for each in survey.wals if each.wal.modified > survey.at + SKEW_SECONDS]
    if ahead:
        text = f"{len(ahead):,} WALs were written in the future: the clocks differ, and the cleaner keeps these files until then"
        yield wrong(CLEANER, text)
