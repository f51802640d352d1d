"""The job that ships a peer's queued WALs: its driver's work before and after the tasks, and the work of each task.

Only `ship` needs numpy and numba, so a driver begins at once.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from walferry.base.errors import WalferryError
from walferry.base.jobs import Backend, BackendFailed, JobOutcome, Tell
from walferry.base.texts import one_line
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PeerError
from walferry.hbase.files.quarantine import BrokenWals
from walferry.load.copy_records import check_copied
from walferry.load.records import forget_finished
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.settings import SinkKind
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.sinks.of_peer import shipping_settings
from walferry.replication.source.agreement import check_no_change, check_peer
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.session import open_session
from walferry.replication.source.source_job import SourceJob
from walferry.shipping.bulkload.load_note import LoadNote
from walferry.shipping.drains import KEPT_SECONDS, groups_to_drain
from walferry.shipping.group_job import GroupJob, Left, left_to_itself, senders_of_each
from walferry.shipping.peer_down import forget_down
from walferry.shipping.plan import bytes_queued, groups_to_ship
from walferry.shipping.runs import begin_run, read_group, write_group

MAX_SHOWN_CHARS = 500


@dataclass(frozen=True, kw_only=True)
class ShipRun(SourceJob):
    """A request to ship a peer: for how long, which groups, and under which run id the summaries are kept.

    `also` names other peers, with the run ids of their summaries: they get the same files if they have queued the same WALs.
    """

    kind: ClassVar[str] = "ship"
    nothing_done: ClassVar[str] = "nothing is shipped"

    deadline: float  # seconds after the job's begin; then reading stops
    groups: tuple[str, ...] | None = None  # WAL groups; None: all groups of the peer
    recovery: bool = False  # drain only the queues that the run's plan has noted (shipping/drains.py)
    broken_wals: BrokenWals = BrokenWals.STOP
    sink: SinkKind | None = None  # None: as the peer or the source says
    hfiles_from: int | None = None  # bytes; None: as the peer or the source says
    also: Mapping[str, str] = field(default_factory=dict)

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        """Ship, and report how each group ended. Raises WalferryError if the run may not begin."""
        summaries = ship_queued(self, on, say)
        if not summaries:
            return JobOutcome(lines=[nothing_queued(self)], result="[]")
        reported = [outcome(summary) for summary in summaries]
        return JobOutcome(
            lines=[line for line, *_ in reported], errors=[error for _, *errors in reported for error in errors],
            failed=any(summary.failed for summary in summaries), result=json.dumps([asdict(summary) for summary in summaries]),
        )  # fmt: skip


def ship_queued(run: ShipRun, on: Backend, say: Tell) -> list[GroupSummary]:
    """Ship the queued WALs. Returns a summary for each group; empty if nothing is queued.

    Raises WalferryError if the run may not begin, and BackendFailed.
    """
    jobs = begin(run)
    if not jobs:
        return []
    if jobs[0].lake:
        from walferry.shipping.lake.driver import ship_to_lake

        summaries = ship_to_lake(jobs, jobs[0].lake, on, say)
    else:
        left = load_files(run, jobs, on, say)
        summaries = [*left.done, *_ship_in_order(left.jobs, on)]
    finish(run, summaries)
    return summaries


def _ship_in_order(jobs: Sequence[GroupJob], on: Backend) -> list[GroupSummary]:
    """Ship each group, and again those that wait for edits of others, for as long as any group gets further.

    Only groups of a serial peer wait. A region moves few times while a backlog grows, so few rounds are needed. Raises
    BackendFailed.
    """
    summaries = {summary.group: summary for summary in _ship_all(jobs, on)}
    while waiting := [job for job in jobs if summaries[job.group].status is Status.WAITING]:
        if time.time() > waiting[0].deadline:
            break
        again = {summary.group: summary for summary in _ship_all(waiting, on)}
        further = any(again[job.group].logEditsRead > summaries[job.group].logEditsRead for job in waiting)
        summaries |= again
        if not further:
            break
    return [summaries[job.group] for job in jobs]


def _ship_all(jobs: Sequence[GroupJob], on: Backend) -> list[GroupSummary]:
    """Ship each group by requests, in a task of its own. Raises BackendFailed."""
    summaries = on.run(ship, jobs, GroupSummary, lost=_lost)
    for job, summary in zip(jobs, summaries, strict=True):
        if summary.group != job.group or summary.status is Status.RUNNING:
            what = f"{summary.group} is {summary.status}" if summary.group == job.group else f"that of {summary.group}"
            raise BackendFailed(f"the answer for WAL group {job.group} is none: {one_line(what, MAX_SHOWN_CHARS)}")
    return summaries


def _lost(job: GroupJob, why: str) -> GroupSummary:
    return GroupSummary(group=job.group, status=Status.FAILED, error=why)


def begin(run: ShipRun) -> list[GroupJob]:
    """Check that the peer may be shipped, note the run in ZooKeeper, and make a job for each WAL group. Raises WalferryError."""
    source = run.source
    if run.broken_wals == BrokenWals.QUARANTINE:
        check_quarantine(source)
    with open_session(source) as session:
        peer = check_peer(session, run.peer_id)
        check_no_change(session, peer)
        check_copied(session, run.peer_id)
        if not peer.in_hbase and run.sink is not None:
            raise PeerError(peer.id, f"its edits go to {peer.target}, and not by {run.sink}", "Leave the sink as configured")
        wanted = groups_to_drain(session, run.peer_id, run.run_id) if run.recovery else run.groups
        groups = groups_to_ship(session, run.peer_id, wanted)
        begin_run(session, run.peer_id, run.run_id, KEPT_SECONDS if run.recovery else run.deadline + 3600)
        forget_down(session, run.peer_id, run.run_id)
    if not groups:
        return []
    settings = shipping_settings(peer, source, run.sink)
    ends = time.time() + run.deadline  # what a look at the peer cluster has taken is not taken from the batch
    if run.hfiles_from is not None:
        settings = replace(settings, hfiles_from=run.hfiles_from)
    senders = senders_of_each(len(groups), settings.senders)
    return [
        GroupJob(
            source=source, peer_id=run.peer_id, group=group, place=place, run_id=run.run_id, holder=f"run {run.run_id}",
            deadline=ends, senders=senders, broken_wals=run.broken_wals, settings=settings,
            serial_tables=PeerTables.of_peer(peer) if peer.serial else None, lake=peer.lake,
        )
        for group, place in groups
    ]  # fmt: skip


def check_quarantine(source: SourceCluster) -> None:
    """Raise SourceError if there is no folder for broken WALs."""
    if source.quarantine is None:
        raise SourceError(
            "broken WALs can be put into quarantine only if the source connection's extra has `quarantine`, the URL of a folder"
        )


def load_files(run: ShipRun, jobs: Sequence[GroupJob], on: Backend, say: Tell) -> Left:
    """Load the jobs' WALs as files, as far as that is possible and asked for. Raises the errors of load_backlog.

    A backlog below the settings' size goes by requests: importing the loading code would take longer than shipping the backlog.
    """
    settings = jobs[0].settings
    if not settings.sink.makes_files:
        return Left((), jobs)
    if run.source.master_absent:
        say(f"peer {run.peer_id}: without an HMaster nobody says whether all RegionServers have stopped to ship this peer, and "
            f"files could then bring back what was deleted, so its edits go by {settings.requests}")  # fmt: skip
        return Left((), jobs)
    if jobs[0].serial_tables is not None:
        say(f"peer {run.peer_id}: it is serial, and files have no order, so its edits go by {settings.requests}")
        return Left((), jobs)
    if settings.least_bytes and (size := _bytes_queued(run, jobs)) < settings.least_bytes:
        say(f"nothing is loaded as files: {size:,} bytes of WALs are fewer than {settings.least_bytes:,}")
        return Left((), jobs)
    from walferry.shipping.bulkload.driver import load_backlog

    with LoadNote(run.source, run.peer_id, run.run_id) as note:
        return load_backlog(jobs, on, also=_jobs_of_others(run, say), say=say, tell=note.tell)


def _jobs_of_others(run: ShipRun, say: Tell) -> list[list[GroupJob]]:
    """Return the jobs of the other peers that may get the same files. A peer that may not be shipped now is left alone."""
    found = []
    for peer_id, run_id in run.also.items():
        try:
            jobs = begin(replace(run, peer_id=peer_id, run_id=run_id, groups=None, also={}))
        except WalferryError as error:
            say(left_to_itself(peer_id, str(error)))
            continue
        if jobs and jobs[0].settings.sink.makes_files:
            found.append(jobs)
    return found


def _bytes_queued(run: ShipRun, jobs: Sequence[GroupJob]) -> int:
    with open_session(run.source) as session:
        return bytes_queued(session, run.peer_id, {job.group for job in jobs})


def ship(job: GroupJob) -> GroupSummary:
    """Ship a group, in the process of a Spark task. An error goes into the group's summary, and is never raised."""
    from walferry.shipping.group import ship_group

    return ship_group(replace(job, holder=f"{job.holder} on {socket.gethostname()}, process {os.getpid()}"))


def finish(run: ShipRun, summaries: Sequence[GroupSummary]) -> None:
    """Write the summaries that tasks could not write themselves, and forget loads that are over. Raises ConnectError."""
    with open_session(run.source) as session:
        for s in summaries:
            if read_group(session, run.peer_id, run.run_id, s.group) is None:
                write_group(session, run.peer_id, run.run_id, s)
        with suppress(QueuesMoving):  # a later run does it
            forget_finished(session, run.peer_id)


def nothing_queued(run: ShipRun) -> str:
    """Return the line that reports a run without jobs."""
    return f"peer {run.peer_id}: no closed WALs are queued" + (f" in {', '.join(run.groups)}" if run.groups else "")


def outcome(s: GroupSummary) -> list[str]:
    """Return a group's outcome: a line of figures, and a line with the reason if it was not shipped to its end."""
    line = f"{s.group}: {s.status}, shipped {s.completedLogs} WALs, {s.shippedOps} operations, {s.shippedBytes} bytes"
    return [line, f"{s.group}: {s.error}"] if s.status is not Status.DONE and s.error else [line]
