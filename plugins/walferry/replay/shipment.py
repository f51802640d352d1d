"""Ships one WAL group's part of an interval, in one Spark task: the group's files, as a feed of the engine.

No queue is read or written. The run's summary contains which WALs are acknowledged. A retry of the run begins with the first WAL
that is not done, and ships all entries of that WAL again. If the retry finds other WALs among the done ones, or before them, it
ships the whole group again: if an older edit were shipped last, it would lie over newer ones with its timestamp.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace

from walferry.base.errors import WalferryError, text_of
from walferry.base.zk.errors import ConnectError
from walferry.engine.counters import Counters
from walferry.engine.feed import Commit, Feed
from walferry.engine.in_flight import WalOffset
from walferry.engine.summary import GroupSummary, Status, digest_with
from walferry.hbase.files.listing import WalFile
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.load.copy_records import check_copied, copied_before, under_way
from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.replay.files import GroupFiles
from walferry.replay.group_lock import GroupLock
from walferry.replay.interval import only
from walferry.replay.job import HFilesGone, ReplayJob, narrowed
from walferry.replay.order import Stages
from walferry.replay.scan import batches_of
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.errors import LeaseHeld, LeaseLost
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.attempt import Attempt
from walferry.shipping.deleted import Missing, attempt_without
from walferry.shipping.runs import begin_group, read_group

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

        def attempt(missing: Collection[Missing]) -> None:
            left = replace(files, wals=_left(files.wals, counters.summary()))
            _Shipment(job, session, left, stages, stage, counters, lock, missing).run()

        attempt_without(job.settings, lock.right, attempt)
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
class IntervalWals(Feed):
    """A group's part of an interval. The end of each WAL was found out before shipping began."""

    job: ReplayJob
    files: GroupFiles  # the last WALs of the group, which are not done
    stages: Stages
    stage: int
    peer_rules: FilterRules
    copied: LoadedBefore

    @property
    def count(self) -> int:
        """The number of WALs."""
        return len(self.files.wals)

    def batches(self, wal: int) -> Generator[tuple[WalBatch, str]]:
        """Yield all entries of the WAL. Raises WalError, StoreError, WalNotClosed, IntervalGone."""
        file = self.files.wals[wal]
        torn = file.name.text == self.files.torn
        yield from batches_of(self.job.store, file, self.job.keys, ends_torn=torn, deadline=self.job.deadline)

    def rules(self, wal: int) -> FilterRules:
        """Return the peer's rules, without edits that were copied to the peer cluster after the WAL was written."""
        return self.copied.rest(self.files.wals[wal].name.text, self.peer_rules)

    def chosen(self, batch: WalBatch) -> WalBatch:
        """Return the entries of the interval that belong to this stage."""
        return only(batch, self.job.interval.entries_of(batch) & self.stages.entries_of(batch, self.stage))


class SummaryOnly:
    """Keeps in the group's summary which WALs are done (engine/feed.py). Writes to no queue."""

    pending = False
    whole_wals = True

    def __init__(self, wals: tuple[WalFile, ...], counters: Counters) -> None:
        self._wals = wals
        self._counters = counters
        self._done = 0

    def commit(self, watermark: WalOffset) -> None:
        """Count the WALs whose entries have all been acknowledged."""
        for wal in self._wals[self._done : watermark.wal]:
            self._counters.read_again(wal.name.text)
        self._done = watermark.wal
        self._counters.done(sum(wal.size for wal in self._wals[: self._done]))

    def stop(self) -> None:
        """Do nothing: no work is ever pending."""


class _Shipment(Attempt[ReplayJob]):
    """An attempt at a group of an interval: at the WALs of `files`, the last ones of the group."""

    backlog = False

    def __init__(
        self, job: ReplayJob, session: Session, files: GroupFiles, stages: Stages, stage: int, counters: Counters,
        lock: GroupLock, missing: Collection[Missing],
    ) -> None:  # fmt: skip
        super().__init__(job, session, counters, missing, lock.right, lock.write)
        self._files = files
        self._stages = stages
        self._stage = stage
        self._copied = NOTHING_LOADED

    def begin(self) -> Peer:
        """Check that the peer may be shipped. Raises PeerError, CopyUnderWay."""
        peer = check_peer(self._session, self._job.peer_id)
        check_copied(self._session, peer.id)
        self._copied = copied_before(self._session, peer.id)
        self._counters.begin(
            peer_cluster=peer.target, server=str(self._files.server or ""), queue_id=QUEUE_ID, queued=0,
            wals=len(self._files.wals), bytes_to_ship=self._files.bytes,
        )  # fmt: skip
        self.publish()
        return peer

    def ends(self, rules: FilterRules) -> tuple[Feed, Commit]:
        """Return the group's part of the interval, and its summary."""
        feed = IntervalWals(
            job=self._job, files=self._files, stages=self._stages, stage=self._stage,
            peer_rules=narrowed(rules, self._job.tables), copied=self._copied,
        )  # fmt: skip
        return feed, SummaryOnly(self._files.wals, self._counters)

    def why_stop(self) -> WalferryError | None:
        """Return why nothing may be sent any more: the peer was paused, or an initial snapshot of it has begun meanwhile."""
        return super().why_stop() or under_way(self._session, self._job.peer_id)

    def on_missing_hfiles(self, count: int) -> None:
        """Count files of a bulk load that are gone, if the run ships what is there. Raises HFilesGone."""
        if not self._job.what_is_there:
            raise HFilesGone(
                f"{count} HFiles of a bulk load of the interval are gone: the source has kept them only until the peer had them",
                "Copy them by hand, or run with what_is_there to ship all but these",
            )
        super().on_missing_hfiles(count)
