"""The Spark job that ships what a peer has queued: what its driver does before and after, and what each of its tasks does.

The driver is spark_jobs/ship_wals.py, or the Airflow task itself where a Spark Connect server runs the tasks. Only `ship` needs
numpy and numba, so a driver begins at once.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.quarantine import BrokenWals
from walferry.jobs.load_note import LoadNote
from walferry.load.copy_records import under_way
from walferry.load.records import forget_finished
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.session import open_session
from walferry.shipping.bulkload.left_to_requests import Left
from walferry.shipping.drains import KEPT_SECONDS, groups_to_drain
from walferry.shipping.group_job import GroupJob, senders_of_each
from walferry.shipping.plan import bytes_queued, groups_to_ship
from walferry.shipping.runs import begin_run, read_group, write_group
from walferry.shipping.slave_down import forget_down

if TYPE_CHECKING:
    from walferry.shipping.bulkload.driver import SpreadLoad


Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class ShipRun:
    """What is to be shipped, for how long, and under which name its summaries are kept."""

    source: SourceCluster
    peer_id: str
    run_id: str
    deadline: float  # seconds from the job's begin, after which nothing more is read
    groups: Sequence[str] | None = None  # WAL groups; None: all of the peer
    recovery: bool = False  # whether it drains the queues that its plan has noted (shipping/drains.py), and no others
    broken_wals: BrokenWals = BrokenWals.STOP
    sink: SinkKind | None = None  # None: as the peer or the source says
    hfiles_from: int | None = None  # bytes; None: as the peer or the source says


def begin(run: ShipRun) -> list[GroupJob]:
    """Check that the peer may be shipped, note the run in ZooKeeper, and make a job for each WAL group. Raises WalferryError."""
    ends = time.time() + run.deadline
    source = run.source
    if run.broken_wals == BrokenWals.QUARANTINE and source.quarantine is None:
        raise SourceError(
            "broken WALs can be put into quarantine only if the source connection's extra has `quarantine`, the URL of a folder"
        )
    with open_session(source) as session:
        settings = PeerSettings.of(source.replication, check_peer(session, run.peer_id))
        settings = settings.chosen(run.sink)
        if run.hfiles_from is not None:
            settings = replace(settings, hfiles_from=run.hfiles_from)
        if (copying := under_way(session, run.peer_id)) is not None:
            raise copying
        wanted = groups_to_drain(session, run.peer_id, run.run_id) if run.recovery else run.groups
        groups = groups_to_ship(session, run.peer_id, wanted)
        begin_run(session, run.peer_id, run.run_id, KEPT_SECONDS if run.recovery else run.deadline + 3600)
        forget_down(session, run.peer_id, run.run_id)
    senders = senders_of_each(max(1, len(groups)), settings.senders)
    return [
        GroupJob(
            source=source, peer_id=run.peer_id, group=group, place=place, run_id=run.run_id, holder=f"run {run.run_id}",
            deadline=ends, senders=senders, broken_wals=run.broken_wals, settings=settings,
        )
        for group, place in groups
    ]  # fmt: skip


def load_files(run: ShipRun, jobs: list[GroupJob], spread: Callable[[Tell], SpreadLoad], say: Tell) -> Left:
    """Load what the jobs have as files, as far as it can be and is asked for. Raises what load_backlog does.

    `spread` gets what is to be told how far its tasks are: that is noted in ZooKeeper, for the task that waits for the job.
    A backlog that is too small for it is not looked at any further: what loads files takes longer to import than to ship that.
    """
    settings = jobs[0].settings
    if not settings.sink.makes_files:
        return Left((), jobs)
    if settings.least_bytes and (size := _bytes_queued(run, jobs)) < settings.least_bytes:
        say(f"nothing is loaded as files: {size:,} bytes of WALs are fewer than {settings.least_bytes:,}")
        return Left((), jobs)
    from walferry.shipping.bulkload.driver import Backlog, load_backlog

    backlog = Backlog(
        source=run.source, peer_id=run.peer_id, run_id=run.run_id, deadline=jobs[0].deadline, least_bytes=settings.least_bytes,
        say=say,
    )  # fmt: skip
    with LoadNote(run.source, run.peer_id, run.run_id) as note:
        return load_backlog(backlog, jobs, lambda: spread(note.tell), under_way)


def _bytes_queued(run: ShipRun, jobs: Sequence[GroupJob]) -> int:
    with open_session(run.source) as session:
        return bytes_queued(session, run.peer_id, {job.group for job in jobs})


def ship(job: GroupJob) -> GroupSummary:
    """Ship a group, in the process of a Spark task. What goes wrong with it is in its summary, never raised."""
    from walferry.shipping.group import ship_group

    return ship_group(replace(job, holder=f"{job.holder} on {socket.gethostname()}, process {os.getpid()}"), under_way)


def finish(run: ShipRun, summaries: Sequence[GroupSummary]) -> None:
    """Write the summaries that their tasks could not write themselves, and forget loads that are over. Raises ConnectError."""
    with open_session(run.source) as session:
        for s in summaries:
            if read_group(session, run.peer_id, run.run_id, s.group) is None:
                write_group(session, run.peer_id, run.run_id, s)
        with suppress(QueuesMoving):  # a later run does it
            forget_finished(session, run.peer_id)


def nothing_queued(run: ShipRun) -> str:
    """What to say of a run without jobs."""
    return f"peer {run.peer_id}: no closed WALs are queued" + (f" in {', '.join(run.groups)}" if run.groups else "")


def outcome(s: GroupSummary) -> list[str]:
    """A group's outcome: a line of figures, and one that says why it was not shipped to its end."""
    line = f"{s.group}: {s.status}, shipped {s.completedLogs} WALs, {s.shippedOps} operations, {s.shippedBytes} bytes"
    return [line, f"{s.group}: {s.error}"] if s.status is not Status.DONE and s.error else [line]
