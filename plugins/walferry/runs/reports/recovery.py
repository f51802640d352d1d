"""The results of a recovery of dead servers' queues: for people, for Airflow, and as a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walferry.base.amounts import count, size
from walferry.runs.reports.batch import MAX_REASON_CHARS, as_cell, noted, refusals, table, totals_of
from walferry.runs.values import Claimed

if TYPE_CHECKING:
    from walferry.engine.summary import GroupSummary
    from walferry.replication.queues.dead_servers import RecoveredQueue
    from walferry.shipping.drains import Drain
    from walferry.shipping.plan import GroupPlan

MAX_QUEUES = 100  # in XCom; failed ones first
MAX_SERVERS = 100
MAX_NOTES = 100
SHOWN = ("shippedOps", "shippedBytes")  # figures of a queue, in the log
COLUMNS = ("completedLogs", "uncleanlyClosedLogs", "sizeOfLogQueue", "shippedOps", "shippedBytes")


@dataclass(frozen=True)
class Drained:
    """One queue of a run: its plan by recovery.plan, how its peer's job ended, and its present state."""

    drain: Drain
    state: str | None  # of the job's task; None if it needed none
    summaries: Sequence[GroupSummary]
    left: int  # WALs that are still queued; -1: the queue is gone

    @property
    def bytes(self) -> int:
        """The bytes to ship. If a file was still open when it was planned, the job has found more."""
        return max(self.drain.bytes, sum(s.bytesToShip for s in self.summaries))

    @property
    def complete(self) -> bool:
        return self.left <= 0

    @property
    def paused(self) -> bool:
        """Whether the queue's peer is paused, so that the rest waits for its operator."""
        return self.drain.paused or any(s.status == "paused" for s in self.summaries)

    @property
    def reason(self) -> str | None:
        """Why the queue is not drained, as far as known; None if it is drained, or only waits until its peer is resumed."""
        if self.complete or self.paused:
            return None
        reasons = [f"{s.group}: {s.status}: {s.error}" for s in self.summaries if s.failed]
        reasons += [f"{s.group}: the deadline came first" for s in self.summaries if s.status == "deadline"]
        reasons += [f"{s.group}: {s.error}" for s in self.summaries if s.status == "waiting"]
        reasons += [f"{s.group}: the Spark job ended in the middle of it" for s in self.summaries if s.status == "running"]
        if self.drain.problem:
            reasons = [self.drain.problem]
        elif self.drain.expected and not reasons:
            reasons = [self.drain.expected]
        elif not reasons and self.state not in (None, "success"):
            reasons = [f"drain is {self.state}: see the log of the Spark job there"]
        why = "; ".join(reasons) or "nothing of it failed, but they are still queued; run again"
        return f"{self.drain.ref}: {count(self.left, 'WAL')} left: {why}"[:MAX_REASON_CHARS]


@dataclass(frozen=True)
class Recovery:
    """A run's claims, queues and problems."""

    claims: Sequence[Claimed]  # server by server
    drained: Sequence[Drained]
    notes: Sequence[str] = ()  # messages of the other steps
    problems: Sequence[str] = ()  # other failures: of claims, cleaning up, deleting
    removed: Sequence[str] = ()  # servers whose empty znodes were removed at the end

    @property
    def failures(self) -> list[str]:
        """Why the run must end as failed, one reason a line; empty if it has not failed."""
        return [*self.problems, *(d.reason for d in self.drained if d.reason)]

    @property
    def counts(self) -> dict[str, int]:
        """The counts under the names of HBase's metrics."""
        complete, failed = sum(d.complete for d in self.drained), sum(d.reason is not None for d in self.drained)
        return {"completedRecoverQueues": complete, "failedRecoverQueues": failed}


def note(recovery: Recovery) -> str:
    """Return the queues' outcome in a line; empty if there were none."""
    counts = recovery.counts
    done = f"{counts['completedRecoverQueues']:,} of {count(len(recovery.drained), 'queue')} drained" if recovery.drained else ""
    if failures := recovery.failures:
        return noted(done or "Nothing drained", failures)
    return done and f"{done}, {count(totals_of(_all_summaries(recovery))['shippedOps'], 'edit')} shipped"


def as_dict(recovery: Recovery) -> dict[str, Any]:
    """Return the report for XCom, bounded in size."""
    shown = _failed_first(recovery.drained)[:MAX_QUEUES]
    return {
        "ok": not recovery.failures,
        "failures": recovery.failures[:MAX_QUEUES],
        "servers": [{"server": c.server, "moved": c.moved, "left": list(c.left)} for c in recovery.claims[:MAX_SERVERS]],
        "notes": [note[:MAX_REASON_CHARS] for note in recovery.notes[:MAX_NOTES]],
        "queues": [_row_as_dict(d) for d in shown],
        "queues_left_out": len(recovery.drained) - len(shown),
        "totals": {**recovery.counts, **totals_of(_all_summaries(recovery))},
        "removed": list(recovery.removed[:MAX_SERVERS]),
    }


def as_text(recovery: Recovery) -> str:
    """Return the report for the log."""
    lines = list(recovery.notes)
    by_server: dict[str, list[Drained]] = {}
    for each in recovery.drained:
        by_server.setdefault(each.drain.dead_server, []).append(each)
    for claim in recovery.claims:
        lines += _of_claim(claim, by_server.get(claim.server, ()))
    if recovery.drained:
        rows = [_row(d) for d in _failed_first(recovery.drained)]
        totals = totals_of(_all_summaries(recovery))
        wals, octets = sum(d.drain.wals for d in recovery.drained), sum(d.bytes for d in recovery.drained)
        last = ("", "", f"{wals:,}", size(octets), "", *(as_cell(c, totals[c]) for c in SHOWN), "all")
        head = ("state", "claimed by", "WALs", "bytes", "left", *SHOWN, "queue")
        lines += table([head, *rows, last], names="queue")
        lines.append(", ".join(f"{c}: {as_cell(c, totals[c])}" for c in COLUMNS if c not in SHOWN))
        lines += refusals(_all_summaries(recovery))
    elif not recovery.failures and not recovery.notes:
        lines.append("No recovered queues to drain.")
    lines += [f"{name}: {number}" for name, number in recovery.counts.items()]
    lines += [f"Removed the empty znode of {server}." for server in recovery.removed]
    lines += [f"FAILED {reason}" for reason in recovery.failures]
    return "\n".join(lines)


def preview(queue: RecoveredQueue, claimed_by: str, groups: Iterable[GroupPlan]) -> list[str]:
    """Return which WALs of a queue a drain would ship, and what it would delete then."""
    groups = list(groups)
    wals = [wal for group in groups for wal in group.wals]
    lines = [
        f"Queue {queue.ref} of peer {queue.peer_id}, claimed by {claimed_by}: {count(len(wals), 'WAL')}, {_known(groups)} to ship"
    ]
    for wal in wals:
        what = "nothing to ship, leaves the queue" if wal.finished else f"{wal.bytes_left:,} bytes left"
        if wal.size is None:
            lines.append(f"  {wal.name}: of unknown size")
        elif wal.growing:
            known = f"at least {wal.size:,} bytes" if wal.size else "of unknown size"
            lines.append(
                f"  {wal.name}: {known}, as its dead server has not closed it and HDFS has yet to recover its lease; "
                f"shipped to {wal.position:,} ({wal.url})"
            )
        else:
            lines.append(f"  {wal.name}: {wal.size:,} bytes, shipped to {wal.position:,}, {what} ({wal.url})")
    lines += [f"  PROBLEM {group.problem}" for group in groups if group.problem]
    lines.append(f"  deleted in ZooKeeper as they are shipped: {count(len(wals), 'WAL')}, then the queue; no file is deleted")
    return lines


def orphan(queue: RecoveredQueue, groups: Iterable[GroupPlan], what: str) -> str:
    """Return a line on a queue whose peer is gone, and on what is done with the queue."""
    return (
        f"Queue {queue.ref} of peer {queue.peer_id}, which is gone: {count(len(queue.wals), 'WAL')}, "
        f"{_known(list(groups))} not shipped: {what}"
    )


def _known(groups: Sequence[GroupPlan]) -> str:
    """Return the bytes to ship; it is never "none" while a file's size is not known."""
    known, unsure = sum(group.bytes_left for group in groups), any(group.unsure for group in groups)
    if unsure:
        return f"at least {size(known)}" if known else "an unknown number of bytes"
    return size(known)


def _of_claim(claim: Claimed, queues: Sequence[Drained]) -> list[str]:
    by = Counter(d.drain.claimed_by for d in queues)
    text = "".join(f", {number} claimed by {whom}" for whom, number in sorted(by.items()))
    if claim.moved:
        text += f"; this run moved {claim.moved} of them"
    return [
        f"Server {claim.server} died and left {count(len(queues), 'queue')} of managed peers{text}.",
        *(f"  left to others: {why}" for why in claim.left),
    ]


def _row(d: Drained) -> tuple[str, ...]:
    totals = totals_of(d.summaries)
    figures = [as_cell(c, totals[c]) if d.summaries else "-" for c in SHOWN]
    left = "-" if d.left < 0 else f"{d.left:,}"
    return (_state(d), d.drain.claimed_by, f"{d.drain.wals:,}", size(d.bytes), left, *figures, d.drain.ref)


def _row_as_dict(d: Drained) -> dict[str, Any]:
    totals = totals_of(d.summaries)
    return {
        "queue": d.drain.ref,
        "peer": d.drain.peer,
        "dead_server": d.drain.dead_server,
        "claimed_by": d.drain.claimed_by,
        "state": _state(d),
        "wals": d.drain.wals,
        "bytes": d.bytes,
        "left": max(0, d.left),
        **{c: totals[c] for c in COLUMNS},
    }


def _state(d: Drained) -> str:
    if d.complete:
        return "complete"
    return "paused" if d.paused else "failed"


def _failed_first(drained: Sequence[Drained]) -> list[Drained]:
    return sorted(drained, key=lambda d: (d.complete, d.drain.ref))


def _all_summaries(recovery: Recovery) -> list[GroupSummary]:
    return [s for d in recovery.drained for s in d.summaries]
