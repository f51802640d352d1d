"""Warnings about oldWALs, for thresholds that a user sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from walferry.replication.retention.forecast import Forecast
from walferry.replication.retention.survey import Blocker, Fate, OldWalSurvey, ShippedBy

GIB = 1 << 30
OVERDUE_SECONDS = 7200.0  # the Master cleans every 10 minutes (hbase.master.cleaner.interval), one round may take long
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
    """When to warn."""

    held_gib: float
    blocked_hours: float
    days_left: float


def exceeded(survey: OldWalSurvey, forecast: Forecast, limits: OldWalLimits) -> list[str]:
    """What a user should look after, the most urgent first."""
    return [*_disk(forecast, limits), *_held(survey, limits), *_blockers(survey, limits), *_cleaner(survey)]


def _disk(forecast: Forecast, limits: OldWalLimits) -> Iterator[str]:
    left = forecast.seconds_left
    if left is not None and left < limits.days_left * 86400:
        yield f"the disk under oldWALs is full in {left / 86400:.1f} days if the WALs that queues hold go on growing as they do"


def _held(survey: OldWalSurvey, limits: OldWalLimits) -> Iterator[str]:
    held = survey.amount(Fate.HELD)
    if held.bytes > limits.held_gib * GIB:
        yield f"queues hold {held.bytes / GIB:,.1f} GiB in oldWALs, more than {limits.held_gib:g} GiB"


def _blockers(survey: OldWalSurvey, limits: OldWalLimits) -> Iterator[str]:
    for blocker in survey.blockers:
        hours = survey.blocked_seconds(blocker.held) / 3600 if blocker.held.files else 0.0
        if hours > limits.blocked_hours or (blocker.shipped_by is ShippedBy.GONE and blocker.queued):
            yield f"{_described(blocker, hours)}. {_ADVICE[blocker.shipped_by]}"


def _described(blocker: Blocker, hours: float) -> str:
    amount = f"{blocker.held.files:,} WALs in oldWALs ({blocker.held.bytes / GIB:,.1f} GiB)"
    held = f"holds {amount}, the oldest for {hours:,.1f} hours"
    what = held if blocker.held.files else f"has {blocker.queued:,} WALs queued"
    return f"peer {blocker.peer_id} (shipped by {blocker.shipped_by}) {what}"


def _cleaner(survey: OldWalSurvey) -> Iterator[str]:
    if survey.not_servers:
        names = ", ".join(sorted(survey.not_servers)[:5])
        yield f"replication/rs has children that are not server names ({names}): HBase's log cleaner stops at them. Delete them"
    overdue = [each.wal for each in survey.wals if each.fate is Fate.FREE and each.wal.modified < _due(survey)]
    if overdue:
        yield (
            f"HBase's log cleaner has left {len(overdue):,} WALs for more than {OVERDUE_SECONDS / 3600:g} hours that no queue "
            "holds. Look at the log of the active Master, and at hbase.master.logcleaner.plugins"
        )
    ahead = [each.wal for each in survey.wals if each.wal.modified > survey.at + SKEW_SECONDS]
    if ahead:
        yield f"{len(ahead):,} WALs were written in the future: the clocks differ, and the cleaner keeps these files until then"


def _due(survey: OldWalSurvey) -> float:
    return survey.at - survey.ttl_seconds - OVERDUE_SECONDS
