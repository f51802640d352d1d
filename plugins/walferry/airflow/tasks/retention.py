"""The tasks of the retention DAG: report → check, and in parallel the archive's TTL."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source
from walferry.base.findings import Finding
from walferry.base.texts import one_line
from walferry.runs.failures import Failures, say
from walferry.runs.reports.batch import MAX_AGE_SECONDS, table

if TYPE_CHECKING:
    from walferry.replication.retention.archive import Expired
    from walferry.replication.retention.limits import OldWalLimits
    from walferry.replication.retention.survey import Amount, Blocker, OldWalSurvey, SurveyedWal
    from walferry.replication.source.cluster import SourceCluster

DAY_SECONDS = 86400
MAX_BLOCKERS = 50
MAX_QUEUES = 20  # of a blocker, and of a WAL
MAX_WALS = 100  # in XCom
MAX_FINDINGS = 50
MAX_TEXT_CHARS = 1000


class RetentionWarning(Failures):
    """Thresholds are passed. Each line names a threshold, and what to do."""


@task
def report() -> dict[str, Any]:
    """Report which WALs lie in oldWALs, what keeps them there and how long the disk has room, as text in the log and as XCom."""
    from walferry.replication.retention.limits import OldWalLimits

    context = check_run()
    params = context["params"]
    limits = OldWalLimits(params["warn_held_gib"], params["warn_blocked_hours"], params["warn_days_left"])
    found = report_of(source(), params["ttl"], limits, params["listed"])
    say(found.as_text())
    return found.to_xcom()


def report_of(cluster: SourceCluster, ttl_seconds: float, limits: OldWalLimits, listed: int) -> RetentionReport:
    """Survey oldWALs, and find what exceeds `limits`. The report lists the oldest `listed` WALs. Raises WalferryError."""
    from walferry.hbase.files.store import OLD_WALS
    from walferry.replication.retention.limits import exceeded
    from walferry.replication.retention.survey import survey
    from walferry.replication.source.session import open_session

    with open_session(cluster, look_only=True) as session:
        found = survey(session, ttl_seconds, time.time)
    return RetentionReport(f"{cluster.wal_root}/{OLD_WALS}", found, exceeded(found, limits), listed)


@task
def check(found: dict[str, Any]) -> None:
    """Fail if there are findings, so that they show in the run, and Airflow's callbacks can report them."""
    if found["findings"]:
        raise RetentionWarning([Finding(**each).line for each in found["findings"]], "see the log of the task report")
    print("No threshold is passed.")


@task
def expire_archive() -> None:
    """Delete copies of WALs that are older than the archive's TTL."""
    from walferry.replication.retention.archive import WalArchive, expire

    check_run()
    cluster = source()
    if cluster.archive is None:
        print("The source has no archive.")
        return
    expired = expire(WalArchive(cluster.archive), cluster.archive_days * DAY_SECONDS)
    print(archive_text(cluster.archive, cluster.archive_days, expired))


@dataclass(frozen=True)
class RetentionReport:
    """A survey of oldWALs, and the findings. The oldest `listed` WALs are shown one by one."""

    url: str
    survey: OldWalSurvey
    findings: Sequence[Finding]
    listed: int

    def as_text(self) -> str:
        """Return the report for the log."""
        lines = [f"WARNING {finding.line}" for finding in self.findings]
        return "\n".join([*lines, *self._amounts(), "", *self._blockers(), "", self._forecast(), "", *self._wals()])

    def to_xcom(self) -> dict[str, Any]:
        """Return the report for Airflow's database, bounded in size."""
        blockers, wals, forecast = self.survey.blockers, self._oldest_first(), self.survey.forecast
        return {
            "ok": not self.findings,
            "findings": [finding.to_json() for finding in self.findings[:MAX_FINDINGS]],
            "oldWALs": self.url,
            "at": self.survey.at,
            "amounts": {fate: {"files": amount.files, "bytes": amount.bytes} for fate, amount in self._by_fate()},
            "blockers": [self._blocker_to_xcom(blocker) for blocker in blockers[:MAX_BLOCKERS]],
            "blockers_left_out": max(0, len(blockers) - MAX_BLOCKERS),
            "wals": [self._wal_to_xcom(each) for each in wals[: min(MAX_WALS, self.listed)]],
            "bytesPerSecond": forecast.bytes_per_second,
            "capacity": forecast.space and forecast.space.capacity,
            "remaining": forecast.space and forecast.space.remaining,
            "secondsUntilFull": forecast.seconds_left,
        }

    def _by_fate(self) -> Iterator[tuple[str, Amount]]:
        for fate, amount in self.survey.amounts.items():
            yield str(fate or "all"), amount

    def _amounts(self) -> list[str]:
        every, *parts = [
            (name, f"{amount.files:,}", f"{amount.bytes:,}", self._age(amount.oldest)) for name, amount in self._by_fate()
        ]
        return table([(self.url, "files", "bytes", "oldest"), *parts, every], texts=1)

    def _blockers(self) -> list[str]:
        shown = self.survey.blockers[:MAX_BLOCKERS]
        if not shown:
            return ["No queue holds a WAL."]
        head = ("peer", "shipped by", "queued", "held", "bytes", "held alone", "bytes", "blocks for")
        rows = [self._blocker_row(blocker) for blocker in shown]
        lines = table([head, *rows, ("",) * len(head)])[:-2]  # no totals: peers hold the same WALs
        left_out = len(self.survey.blockers) - len(shown)
        return [*lines, *([f"({left_out} more peers)"] if left_out else []), *self._queues(shown)]

    def _blocker_row(self, blocker: Blocker) -> tuple[str, ...]:
        held, alone = blocker.held, blocker.held_alone
        blocked = self._blocked(blocker)
        return (
            one_line(blocker.peer_id, MAX_TEXT_CHARS), str(blocker.shipped_by), f"{blocker.queued:,}", f"{held.files:,}",
            f"{held.bytes:,}", f"{alone.files:,}", f"{alone.bytes:,}", "-" if blocked is None else _seconds(blocked),
        )  # fmt: skip

    def _queues(self, blockers: Sequence[Blocker]) -> Iterator[str]:
        for blocker in blockers:
            queues = list(blocker.queues.items())
            for name, amount in queues[:MAX_QUEUES]:
                place, oldest = one_line(name, MAX_TEXT_CHARS), self._age(amount.oldest)
                yield f"  {place}: {amount.files:,} WALs, {amount.bytes:,} bytes, the oldest {oldest}"
            if len(queues) > MAX_QUEUES:
                yield f"  ({len(queues) - MAX_QUEUES:,} more of its queues)"

    def _forecast(self) -> str:
        of = self.survey.forecast
        rate = "at a rate that is not known yet" if of.bytes_per_second is None else f"by {of.bytes_per_second:,.0f} bytes/s"
        if of.space is None:
            return f"Held WALs grow {rate}. The disk space is not known: {of.problem}"
        room = f"{of.space.remaining:,} of {of.space.capacity:,} bytes are left on the disks"
        if of.seconds_left is None:
            return f"Held WALs grow {rate}; {room}."
        return f"Held WALs grow {rate}, times {of.copies:.1f} copies; {room}: full in {_seconds(of.seconds_left)}."

    def _wals(self) -> Iterator[str]:
        every = self._oldest_first()
        for each in every[: self.listed]:
            queues = [f"{queue.server}/{queue.id}" for queue in each.queues]
            more = [f"and {len(queues) - MAX_QUEUES:,} more"] if len(queues) > MAX_QUEUES else []
            held = f": {', '.join([*queues[:MAX_QUEUES], *more])}" if queues else ""
            name, held = one_line(each.wal.name, MAX_TEXT_CHARS), one_line(held, MAX_QUEUES * MAX_TEXT_CHARS)
            yield f"{name}  {self._age(each.wal.modified)}  {each.wal.size:,} bytes  {each.fate}{held}"
        if len(every) > self.listed:
            yield f"({len(every) - self.listed:,} younger files; the parameter `listed` says how many are shown)"

    def _oldest_first(self) -> list[SurveyedWal]:
        return sorted(self.survey.wals, key=lambda each: (each.wal.modified, each.wal.name))

    def _age(self, written: float) -> str:
        return "-" if written == float("inf") else _seconds(max(0.0, self.survey.at - written))

    def _blocked(self, blocker: Blocker) -> float | None:
        return self.survey.blocked_seconds(blocker.held) if blocker.held.files else None

    def _blocker_to_xcom(self, blocker: Blocker) -> dict[str, Any]:
        return {
            "peer": blocker.peer_id,
            "shippedBy": str(blocker.shipped_by),
            "queued": blocker.queued,
            "heldLogs": blocker.held.files,
            "heldBytes": blocker.held.bytes,
            "heldAloneBytes": blocker.held_alone.bytes,
            "blockedSeconds": self._blocked(blocker),
            "queues": len(blocker.queues),
        }

    def _wal_to_xcom(self, each: SurveyedWal) -> dict[str, Any]:
        return {
            "name": each.wal.name[:MAX_TEXT_CHARS],
            "age": round(self.survey.at - each.wal.modified, 3),
            "size": each.wal.size,
            "fate": str(each.fate),
            "queues": [f"{queue.server}/{queue.id}" for queue in each.queues[:MAX_QUEUES]],
        }


def archive_text(url: str, days: float, expired: Expired) -> str:
    """Return a text for the log on what was deleted from the archive."""
    deleted = f"{expired.deleted:,} copies older than {days:g} days ({expired.deleted_bytes:,} bytes) were deleted"
    return f"Archive {url}: {deleted}, {expired.kept:,} ({expired.kept_bytes:,} bytes) are kept."


def _seconds(seconds: float) -> str:
    return str(timedelta(seconds=int(min(seconds, MAX_AGE_SECONDS))))
