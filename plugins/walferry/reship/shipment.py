"""Ships one WAL group's part of an interval, in one Spark task: files in order → entries of the interval → lanes → sink.

    reader thread   reads the WALs one after the other, and hands their entries to the lanes
    lane threads    send requests, each lane in order, and wait for their acknowledgements
    this thread     publishes the summary, looks after calls that take long, ends it all when the peer is paused

No queue is read or written. What was acknowledged is in the run's summary: a retry of the run goes on with the first WAL that is
not done. It ships that WAL's entries again. If the retry finds other WALs among those that are done, or before them, it ships all
of the group again: an older edit that is shipped last would lie over newer ones with its timestamp.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from walferry.bootstrap.errors import CopyUnderWay
from walferry.bootstrap.records import check_copied, copied_before
from walferry.bulkload.before import NOTHING_LOADED
from walferry.errors import WalferryError
from walferry.filters.rules import FilterRules
from walferry.filters.visibility import LabelFilter
from walferry.filters.window import filter_window
from walferry.hbase.cluster import visibility_labels
from walferry.hbase.errors import PausedPeer
from walferry.queues.errors import LeaseHeld, LeaseLost
from walferry.reship.files import GroupFiles
from walferry.reship.interval import only
from walferry.reship.job import HFilesGone, ReshipJob, rules_of, sink_of, source_id
from walferry.reship.listing import WalFile
from walferry.reship.order import Stages
from walferry.reship.scan import windows_of
from walferry.reship.turn import Turn
from walferry.shipping.acknowledged import Acknowledged, WalOffset
from walferry.shipping.bandwidth import Limit, limit_of
from walferry.shipping.counters import Counters
from walferry.shipping.deleted import Missing, attempt_without, deleted_at_source, names_of
from walferry.shipping.ending import end_calls
from walferry.shipping.lanes import Lanes
from walferry.shipping.outcome import Outcome
from walferry.shipping.pausing import end_if_paused
from walferry.shipping.runs import begin_group, read_group
from walferry.shipping.slave_down import known_down, note_down
from walferry.shipping.summary import GroupSummary, Status, digest_with
from walferry.sinks.errors import SlaveUnreachable, Stopped
from walferry.sinks.sink import Sink
from walferry.source.agreement import check_peer
from walferry.source.cluster import VisibilityLabels
from walferry.source.session import Session, open_session
from walferry.wal.windows import Window
from walferry.zk.errors import ConnectError

TICK_SECONDS = 0.1
PUBLISH_SECONDS = 2.0
LOOK_SECONDS = 2.0  # between two looks after the calls under way
JOIN_SECONDS = 10.0  # for threads that were told to stop
QUEUE_ID = "interval"  # what a summary has in the place of a queue

log = logging.getLogger(__name__)


def ship_group(job: ReshipJob, files: GroupFiles, stages: Stages, stage: int, begun: GroupSummary) -> GroupSummary:
    """Ship what the group has of the interval in one stage. What goes wrong is in the summary's status and error, never raised.

    `begun` is the summary that a first attempt begins with.
    """
    try:
        with open_session(job.source) as session:
            begin_group(session, job.peer_id, job.run_id, replace(begun, status=Status.RUNNING))
            with Turn(session, job, files.group, begun.group) as turn:
                return _ship_group(job, session, files, stages, stage, begun, turn)
    except LeaseHeld as error:  # by another task of this run, which writes the summary
        return replace(begun, status=Status.HELD, error=str(error))
    except WalferryError as error:  # the source's ZooKeeper is away, or was for too long: the run may be tried again
        return replace(begun, status=Status.FAILED, error=_text(error), passing=True)


def _ship_group(
    job: ReshipJob, session: Session, files: GroupFiles, stages: Stages, stage: int, begun: GroupSummary, turn: Turn
) -> GroupSummary:
    """As `ship_group`, in the turn for it. Raises LeaseLost, LeaseHeld, ConnectError."""
    before = read_group(session, job.peer_id, job.run_id, begun.group)  # now that no other task goes on with it
    if before and before.stages != begun.stages:  # a stage has other edits now, as WALs have gone or come, or follows other ones
        before = None
    if before and len(left := _left(files.wals, before)) == len(files.wals):
        before = replace(before, lastCompletedLog="", completedLogsDigest="")
    elif before and not left:
        done = replace(before, status=Status.DONE, error=None, passing=False)
        turn.write(done)  # a try that could not scan the WALs may have said that the group has failed
        return done
    # The scan of this attempt counts: that of the one before may have failed.
    found = ("tables", "shippedBy", "editsBeforeCopy")
    counters = Counters(replace(before, **{name: getattr(begun, name) for name in found}) if before else begun)
    turn.write(counters.summary())
    try:
        shipment = partial(_Shipment, job, session, files, stages, stage, counters, turn)
        attempt_without(
            job.knobs, turn.right, lambda missing: shipment(missing).run(_left(files.wals, counters.summary()))
        )
    except PausedPeer as error:
        counters.end(Status.PAUSED, str(error))
    except SlaveUnreachable as error:
        if not error.answered:  # else the trouble may be with what this group ships: the others try for themselves
            note_down(session, job.peer_id, job.run_id, error.problem)
        counters.end(Status.SLAVE_DOWN, error.problem)
    except (LeaseLost, LeaseHeld, ConnectError):
        raise
    except Exception as error:
        log.exception("WAL group %s of peer %s", files.group, job.peer_id)
        counters.end(Status.FAILED, _text(error))
    turn.write(counters.summary())
    return counters.summary()


def _left(wals: Sequence[WalFile], summary: GroupSummary) -> tuple[WalFile, ...]:
    """The WALs behind those that are done; all of them if others than these are done."""
    digest = ""
    for done, wal in enumerate(wals, 1):
        digest = digest_with(digest, wal.name.text)
        if digest == summary.completedLogsDigest:
            return tuple(wals[done:])
    return tuple(wals)


def _text(error: BaseException) -> str:
    return str(error) if isinstance(error, WalferryError) else f"{type(error).__name__}: {error}"


class _Shipment:
    """One attempt at one group. Edits of what is `missing` at the slave are dropped if the source lacks it."""

    def __init__(
        self, job: ReshipJob, session: Session, files: GroupFiles, stages: Stages, stage: int, counters: Counters, turn: Turn,
        missing: Collection[Missing],
    ) -> None:  # fmt: skip
        self._turn = turn
        self._missing = missing
        self._job = job
        self._session = session
        self._files = files
        self._stages = stages
        self._stage = stage
        self._counters = counters
        self._store = job.store
        self._deadline = time.monotonic() + job.deadline - time.time()
        self._acknowledged = Acknowledged()
        self._outcome = Outcome()
        known = partial(visibility_labels, session.zk, session.nodes)
        self._labels = LabelFilter(VisibilityLabels(job.source.visibility_labels), known)
        self._copied = NOTHING_LOADED

    def run(self, wals: tuple[WalFile, ...]) -> None:
        """Ship these last WALs of the group; the outcome is in the counters. Raises what stops the group."""
        peer = check_peer(self._session, self._job.peer_id)
        check_copied(self._session, peer.id)
        self._copied = copied_before(self._session, peer.id)
        self._counters.begin(
            slave=str(peer.slave), server=str(self._files.server or ""), queue_id=QUEUE_ID, queued=0, wals=len(wals),
            bytes_to_ship=sum(wal.size for wal in wals),
        )  # fmt: skip
        self._publish()
        if error := known_down(self._session, peer, self._job.run_id):
            self._counters.end(Status.SLAVE_DOWN, error)
            return
        deleted = deleted_at_source(self._session, self._missing)
        self._counters.deleted(names_of(deleted))
        stop = self._outcome.stop
        with (
            sink_of(self._session, peer, self._job, stop, self._turn.right, self._on_missing_hfiles) as sink,
            limit_of(peer, self._session, stop) as limit,
        ):
            rules = rules_of(peer, source_id(self._session), sink.id, self._job.tables, deleted)
            self._ship(wals, sink, rules, limit)
        self._counters.end(self._outcome.status())

    def _ship(self, wals: tuple[WalFile, ...], sink: Sink, rules: FilterRules, limit: Limit) -> None:
        senders = [partial(limit.send, sink.sender().send, deadline=self._deadline) for _ in range(self._job.lanes)]
        lanes = Lanes(
            senders, sink.join, self._acknowledged, limit.knobs(self._job.knobs), stop=self._outcome.stop,
            on_acknowledged=self._counters.shipped, on_failure=self._outcome.note,
        )  # fmt: skip
        reader = threading.Thread(target=self._read, args=(wals, sink, rules, lanes), name="reader", daemon=True)
        reader.start()
        try:
            self._supervise(wals, reader, lanes, sink, limit)
        except BaseException:
            end_calls(lanes, sink)
            raise
        finally:
            lanes.stop()
            sink.interrupt()
            lanes.join(JOIN_SECONDS)
            reader.join(JOIN_SECONDS)

    def _supervise(
        self, wals: tuple[WalFile, ...], reader: threading.Thread, lanes: Lanes, sink: Sink, limit: Limit
    ) -> None:
        """Count finished WALs, publish summaries and look after calls and the limit until reader and lanes have ended."""
        published = looked = time.monotonic()
        done = 0
        while reader.is_alive() or lanes.running:
            time.sleep(TICK_SECONDS)
            limit.look()
            now = time.monotonic()
            done = self._count_done(wals, done)
            if now - published >= PUBLISH_SECONDS:
                published = now
                self._counters.outage(sink.answers.outage)
                self._publish()
                end_if_paused(self._session, self._job.peer_id, self._outcome, lanes)
                self._end_if_copied(lanes)
            if now - looked >= LOOK_SECONDS:
                sink.look_after_calls(self._deadline)
                looked = time.monotonic()
        self._counters.retried(sink.failed_requests)
        self._counters.sent_as(sink.kind, sink.refused)
        self._count_done(wals, done)

    def _end_if_copied(self, lanes: Lanes) -> None:
        """Stop sending if a first copy of the peer has begun meanwhile. Requests under way end."""
        try:
            check_copied(self._session, self._job.peer_id)
        except CopyUnderWay as error:
            self._outcome.note(error)
            lanes.stop()

    def _count_done(self, wals: tuple[WalFile, ...], done: int) -> int:
        """Count the WALs whose entries have all been acknowledged; returns how many there are now."""
        now = self._acknowledged.safe().wal
        for wal in wals[done:now]:
            self._counters.read_again(wal.name.text)
        self._counters.done(sum(wal.size for wal in wals[:now]))
        return now

    def _read(self, wals: tuple[WalFile, ...], sink: Sink, rules: FilterRules, lanes: Lanes) -> None:
        """Read the WALs in order; an error ends it, and what was read before is still shipped."""
        try:
            try:
                for number, wal in enumerate(wals):
                    ends_torn, left = wal.name.text == self._files.torn, self._copied.rest(wal.name.text, rules)
                    for window, path in windows_of(self._store, wal, self._job.keys, ends_torn=ends_torn):
                        if time.monotonic() > self._deadline:
                            self._outcome.run_out_of_time()
                            return
                        self._hand_out(window, path, number, sink, left, lanes)
                    lanes.flush()
                    self._acknowledged.read_to(WalOffset(number + 1, 0))
            except Stopped:
                raise
            except Exception as error:
                self._outcome.note(error)
            finally:
                lanes.finish()
        except Stopped:
            return

    def _hand_out(self, window: Window, path: str, number: int, sink: Sink, rules: FilterRules, lanes: Lanes) -> None:
        window = only(window, self._job.interval.entries_of(window) & self._stages.entries_of(window, self._stage))
        if not len(window.index):
            return
        window, kept = self._labels.apply(window, filter_window(window, rules, path), path)
        lanes.dispatch(window, kept, number, sink.take(window, kept, rules, path))
        self._counters.read(window, kept)

    def _on_missing_hfiles(self, count: int) -> None:
        if not self._job.what_is_there:
            raise HFilesGone(
                f"{count} HFiles of a bulk load of the interval are gone: the source has kept them only until the peer had them",
                "Copy them by hand, or run with what_is_there to ship all but these",
            )
        self._counters.missing_hfiles(count)

    def _publish(self) -> None:
        self._turn.write(self._counters.summary())
