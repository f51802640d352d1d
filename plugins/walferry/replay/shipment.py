"""Ships one WAL group's part of an interval, in one Spark task: the group's files, as a feed of the engine.

No queue is read or written. The run's summary contains which WALs are acknowledged. A retry of the run begins with the first WAL
that is not done, and ships all entries of that WAL again. If the retry finds other WALs among the done ones, or before them, it
ships the whole group again: if an older edit were shipped last, it would lie over newer ones with its timestamp.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from walferry.base.errors import WalferryError, text_of
from walferry.base.zk.errors import ConnectError
from walferry.engine.bandwidth import limit_of
from walferry.engine.counters import Counters
from walferry.engine.gauges import Gauges
from walferry.engine.in_flight import InFlight, WalOffset
from walferry.engine.outcome import RunOutcome, noted_end
from walferry.engine.run import Run
from walferry.engine.summary import GroupSummary, Status, digest_with
from walferry.hbase.cluster import cluster_id
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.windows import Window
from walferry.load.copy_records import check_copied, copied_before, under_way
from walferry.load.earlier_loads import LoadedBefore
from walferry.replay.files import GroupFiles
from walferry.replay.group_lock import GroupLock
from walferry.replay.interval import only
from walferry.replay.job import HFilesGone, ReplayJob, rules_of, sink_of
from walferry.replay.listing import WalFile
from walferry.replay.order import Stages
from walferry.replay.scan import windows_of
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.queues.errors import LeaseHeld, LeaseLost
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.deleted import Missing, attempt_without, deleted_at_source, names_of
from walferry.shipping.pausing import check_not_paused, why_paused
from walferry.shipping.runs import begin_group, read_group
from walferry.shipping.slave_down import known_down, note_down

QUEUE_ID = "interval"  # stands in a summary instead of a queue

log = logging.getLogger(__name__)


def ship_group(job: ReplayJob, files: GroupFiles, stages: Stages, stage: int, begun: GroupSummary) -> GroupSummary:
    """Ship the group's edits of the interval in one stage. An error goes into the summary's status and error, and is not raised.

    `begun` is the summary that a first attempt begins with.
    """
    try:
        with open_session(job.source) as session:
            begin_group(session, job.peer_id, job.run_id, replace(begun, status=Status.RUNNING))
            with GroupLock(session, job, files.group, begun.group) as lock:
                return _ship_group(job, session, files, stages, stage, begun, lock)
    except LeaseHeld as error:  # another task of this run holds the lock, and writes the summary
        return replace(begun, status=Status.HELD, error=str(error))
    except WalferryError as error:  # the source's ZooKeeper is or was away for too long: a retry of the run may succeed
        return replace(begun, status=Status.FAILED, error=text_of(error), passing=True)


def _ship_group(
    job: ReplayJob, session: Session, files: GroupFiles, stages: Stages, stage: int, begun: GroupSummary, lock: GroupLock
) -> GroupSummary:
    """Do the same as `ship_group`, under its lock. Raises LeaseLost, LeaseHeld, ConnectError."""
    before = read_group(session, job.peer_id, job.run_id, begun.group)  # now no other task changes it any more
    if before and before.stages != begun.stages:  # it has other edits, as WALs came or went, or follows others
        before = None
    if before and len(left := _left(files.wals, before)) == len(files.wals):
        before = replace(before, lastCompletedLog="", completedLogsDigest="")
    elif before and not left:
        done = replace(before, status=Status.DONE, error=None, passing=False)
        lock.write(done)  # an earlier try that could not scan the WALs may have noted a failure
        return done
    # The scan of this attempt counts: the attempt before may have failed to scan.
    found = ("tables", "shippedBy", "editsBeforeCopy")
    counters = Counters(replace(before, **{name: getattr(begun, name) for name in found}) if before else begun)
    lock.write(counters.summary())
    try:
        shipment = partial(_Shipment, job, session, files, stages, stage, counters, lock)
        with noted_end(counters, partial(note_down, session, job.peer_id, job.run_id), backlog=False):
            attempt_without(
                job.settings, lock.right, lambda missing: shipment(missing).run(_left(files.wals, counters.summary()))
            )
    except (LeaseLost, LeaseHeld, ConnectError):
        raise
    except Exception as error:
        log.exception("WAL group %s of peer %s", files.group, job.peer_id)
        counters.end(Status.FAILED, text_of(error))
    lock.write(counters.summary())
    return counters.summary()


def _left(wals: Sequence[WalFile], summary: GroupSummary) -> tuple[WalFile, ...]:
    """Return the WALs behind the done ones; all WALs if the done ones are not the first of these."""
    digest = ""
    for done, wal in enumerate(wals, 1):
        digest = digest_with(digest, wal.name.text)
        if digest == summary.completedLogsDigest:
            return tuple(wals[done:])
    return tuple(wals)


@dataclass(frozen=True, kw_only=True)
class IntervalWals:
    """A group's part of an interval, as a feed (engine/feed.py)."""

    job: ReplayJob
    files: GroupFiles
    wals: tuple[WalFile, ...]  # the last WALs of the group, which are not done
    stages: Stages
    stage: int
    peer_rules: FilterRules
    copied: LoadedBefore

    @property
    def count(self) -> int:
        """The number of WALs."""
        return len(self.wals)

    def unread_since(self, wal: int) -> None:
        """Return None: an interval has been shipped before, so no entry of it waits."""

    def position(self, wal: int) -> int:
        """Return 0: a WAL is read from its beginning."""
        return 0

    def batches(self, wal: int) -> Generator[tuple[Window, str]]:
        """Yield all entries of the WAL. Raises WalError, StoreError, WalNotClosed, IntervalGone."""
        file = self.wals[wal]
        torn = file.name.text == self.files.torn
        yield from windows_of(self.job.store, file, self.job.keys, ends_torn=torn, deadline=self.job.deadline)

    def rules(self, wal: int) -> FilterRules:
        """Return the peer's rules, without edits that were copied to the slave after the WAL was written."""
        return self.copied.rest(self.wals[wal].name.text, self.peer_rules)

    def chosen(self, batch: Window) -> Window:
        """Return the entries of the interval that belong to this stage."""
        return only(batch, self.job.interval.entries_of(batch) & self.stages.entries_of(batch, self.stage))

    def handed_out(self, wal: int, batch: Window) -> None:
        """Do nothing: progress within a WAL is not noted."""

    def ends_at(self, wal: int, error: WalError) -> bool:
        """Return False: the end of each WAL was found out before shipping began."""
        return False


class SummaryOnly:
    """Keeps in the group's summary which WALs are done (engine/commit.py). Writes to no queue."""

    pending = False
    whole_wals = True

    def __init__(self, wals: tuple[WalFile, ...], counters: Counters, write: Callable[[GroupSummary], None]) -> None:
        self._wals = wals
        self._counters = counters
        self.write = write
        self._done = 0

    def commit(self, watermark: WalOffset) -> None:
        """Count the WALs whose entries have all been acknowledged."""
        for wal in self._wals[self._done : watermark.wal]:
            self._counters.read_again(wal.name.text)
        self._done = watermark.wal
        self._counters.done(sum(wal.size for wal in self._wals[: self._done]))

    def stop(self) -> None:
        """Do nothing: no work is ever pending."""


class _Shipment:
    """One attempt at one group. It drops edits of the `missing` tables and families that the source lacks too."""

    def __init__(
        self, job: ReplayJob, session: Session, files: GroupFiles, stages: Stages, stage: int, counters: Counters,
        lock: GroupLock, missing: Collection[Missing],
    ) -> None:  # fmt: skip
        self._group_lock = lock
        self._missing = missing
        self._job = job
        self._session = session
        self._files = files
        self._stages = stages
        self._stage = stage
        self._counters = counters
        self._deadline = time.monotonic() + job.deadline - time.time()
        self._in_flight = InFlight()
        self._outcome = RunOutcome()
        self._gauges = Gauges(counters, self._in_flight, f"the slave of peer {job.peer_id}")
        self._labels = LabelFilter.of(session)

    def run(self, wals: tuple[WalFile, ...]) -> None:
        """Ship the last WALs of the group, and leave the outcome in the counters. Raises errors that stop the group."""
        try:
            self._run(wals)
        finally:
            self._gauges.update()

    def _run(self, wals: tuple[WalFile, ...]) -> None:
        peer = check_peer(self._session, self._job.peer_id)
        check_copied(self._session, peer.id)
        copied = copied_before(self._session, peer.id)
        self._counters.begin(
            slave=str(peer.slave), server=str(self._files.server or ""), queue_id=QUEUE_ID, queued=0, wals=len(wals),
            bytes_to_ship=sum(wal.size for wal in wals),
        )  # fmt: skip
        self._group_lock.write(self._counters.summary())
        if error := known_down(self._session, peer, self._job.run_id):
            self._counters.end(Status.SLAVE_DOWN, error)
            return
        deleted = deleted_at_source(self._session, self._missing)
        self._counters.deleted(names_of(deleted))
        stop = self._outcome.stop
        self._gauges.sink = opened = sink_of(
            self._session, peer, self._job, stop, self._group_lock.right, self._on_missing_hfiles, self._on_unreachable
        )
        with opened as sink, limit_of(peer, self._session, stop) as limit:
            check_not_paused(self._session, peer.id)  # opening the sink may have waited for the slave
            rules = rules_of(peer, cluster_id(self._session.zk, self._session.nodes), sink.id, self._job.tables, deleted)
            status = Run(
                feed=IntervalWals(
                    job=self._job, files=self._files, wals=wals, stages=self._stages, stage=self._stage, peer_rules=rules,
                    copied=copied,
                ),
                commit=SummaryOnly(wals, self._counters, self._group_lock.write), sink=sink, limit=limit, labels=self._labels,
                counters=self._counters, in_flight=self._in_flight, outcome=self._outcome, settings=self._job.settings,
                senders=self._job.senders, deadline=self._deadline, stops=self._why_stop, gauges=self._gauges,
            ).ship()  # fmt: skip
        self._counters.end(status)

    def _why_stop(self) -> WalferryError | None:
        """Return why nothing may be sent any more: the peer was paused, or an initial snapshot of it has begun meanwhile."""
        return why_paused(self._session, self._job.peer_id) or under_way(self._session, self._job.peer_id)

    def _on_unreachable(self) -> None:
        """Publish since when the slave's ZooKeeper has not been reached. Raises PausedPeer."""
        check_not_paused(self._session, self._job.peer_id)
        self._gauges.update()
        self._group_lock.write(self._counters.summary())

    def _on_missing_hfiles(self, count: int) -> None:
        if not self._job.what_is_there:
            raise HFilesGone(
                f"{count} HFiles of a bulk load of the interval are gone: the source has kept them only until the peer had them",
                "Copy them by hand, or run with what_is_there to ship all but these",
            )
        self._counters.missing_hfiles(count)
