"""One attempt at a WAL group, under its lease: reader and lanes at work, and a supervisor that registers what they have done.

    reader thread   locates each closed WAL, scans it ahead, filters, hands entries to lanes
    lane threads    send requests, each lane in order, and wait for their acknowledgements
    archiver thread copies finished WALs to the archive, if the source has one
    this thread     registers the largest acknowledged offset, takes finished WALs out of the queue, publishes the summary,
                    looks after calls that take long
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from uuid import UUID

from walferry.bulkload.before import NOTHING_LOADED, loaded_before
from walferry.filters.rules import FilterRules
from walferry.filters.visibility import LabelFilter
from walferry.hbase.cluster import cluster_id, visibility_labels
from walferry.hbase.errors import PausedPeer, PeerError
from walferry.hbase.peers import Peer, check_shippable, read_peer
from walferry.queues.lease import Lease
from walferry.shipping.acknowledged import Acknowledged
from walferry.shipping.archiver import Archiver
from walferry.shipping.bandwidth import Limit, limit_of
from walferry.shipping.broken import Broken
from walferry.shipping.candidates import GroupCandidates, candidates
from walferry.shipping.counters import Counters
from walferry.shipping.deleted import Missing, deleted_at_source, names_of
from walferry.shipping.ending import end_calls
from walferry.shipping.group_job import GroupJob
from walferry.shipping.group_wals import GroupWals
from walferry.shipping.lag import first_written
from walferry.shipping.lanes import Lanes
from walferry.shipping.outcome import Outcome
from walferry.shipping.pausing import check_not_paused, end_if_paused
from walferry.shipping.reader import GroupReader
from walferry.shipping.registrar import Registrar
from walferry.shipping.runs import write_group
from walferry.shipping.slave_down import known_down, note_down
from walferry.shipping.summary import Status
from walferry.sinks.answers import Repeats
from walferry.sinks.errors import SlaveUnreachable
from walferry.sinks.of_peer import open_sink
from walferry.sinks.sink import Sink
from walferry.source.cluster import VisibilityLabels
from walferry.source.session import Session

TICK_SECONDS = 0.1
REGISTER_SECONDS = 0.5  # between two registrations of the position
PUBLISH_SECONDS = 2.0  # between two summaries
LOOK_SECONDS = 2.0  # between two looks after the calls under way
JOIN_SECONDS = 10.0  # for threads that were told to stop

log = logging.getLogger(__name__)


class Attempt:
    """One attempt at one group under its lease. Edits of what is `missing` at the slave are dropped if the source lacks it."""

    def __init__(
        self, job: GroupJob, session: Session, lease: Lease, counters: Counters, missing: Collection[Missing]
    ) -> None:
        self._job = job
        self._missing = missing
        self._deadline = time.monotonic() + job.deadline - time.time()
        self._session = session
        self._lease = lease
        self._counters = counters
        self._keys = job.source.keys()
        known = partial(visibility_labels, session.zk, session.nodes)
        self._labels = LabelFilter(VisibilityLabels(job.source.visibility_labels), known)
        self._acknowledged = Acknowledged()
        self._outcome = Outcome()
        self._wals = GroupWals((), ())
        self._loaded = NOTHING_LOADED
        self._sink: Sink | None = None
        self._say_again = Repeats()

    def run(self) -> None:
        """Ship; the outcome is in the counters. Raises what stops the whole group."""
        try:
            self._run()
        except PausedPeer as error:
            self._counters.end(Status.PAUSED, str(error))
        except SlaveUnreachable as error:
            if not error.answered:  # else the trouble may be with what this group ships, and the other groups try for themselves
                note_down(self._session, self._job.peer_id, self._job.run_id, str(error))
            self._counters.end(Status.SLAVE_DOWN, str(error))
        finally:
            self._note()

    def _run(self) -> None:
        peer = read_peer(self._session.zk, self._session.nodes, self._job.peer_id)
        check_shippable(peer)
        found = candidates(self._lease.read(self._job.place))
        if not found or not found[0].wals:
            self._counters.end(Status.DONE)
            return
        self._begin(peer, found[0])
        self._loaded = loaded_before(self._session, peer, self._job.group)
        if error := known_down(self._session, peer, self._job.run_id):
            self._counters.end(Status.SLAVE_DOWN, error)
            return
        self._sink = open_sink(
            peer, self._session, self._job.knobs, self._deadline, stop=self._outcome.stop, right=self._lease.right,
            lease=self._lease, on_missing_hfiles=self._counters.missing_hfiles, on_failure=self._on_unreachable,
        )  # fmt: skip
        with self._sink as sink, limit_of(peer, self._session, self._outcome.stop) as limit:
            check_not_paused(self._session, self._job.peer_id)  # the slave may have been waited for
            self._ship(sink, self._rules(peer, sink.id), limit)
        self._counters.end(self._outcome.status())

    def _begin(self, peer: Peer, found: GroupCandidates) -> None:
        self._wals = GroupWals.found(found.wals, self._session.store)
        self._counters.begin(
            slave=str(peer.slave), server=found.server, queue_id=found.queue_id, queued=found.queued,
            wals=len(found.wals), bytes_to_ship=self._wals.bytes_to_ship,
        )  # fmt: skip
        self._publish()

    def _rules(self, peer: Peer, sink_id: UUID) -> FilterRules:
        source_id = cluster_id(self._session.zk, self._session.nodes)
        if sink_id == source_id:
            raise PeerError(peer.id, f"its cluster key {peer.cluster_key} leads to the source cluster itself", "Correct it")
        deleted = deleted_at_source(self._session, self._missing)
        self._counters.deleted(names_of(deleted))
        return FilterRules.of_peer(peer, source_id, sink_id, deleted)

    def _ship(self, sink: Sink, rules: FilterRules, limit: Limit) -> None:
        """Start reader and lanes, and supervise them until they have ended."""
        senders: list[Callable[..., None]] = [
            partial(limit.send, sink.sender().send, deadline=self._deadline) for _ in range(self._job.lanes)
        ]
        lanes = Lanes(
            senders, sink.join, self._acknowledged, limit.knobs(self._job.knobs), stop=self._outcome.stop,
            on_acknowledged=self._counters.shipped, on_failure=self._outcome.note,
        )  # fmt: skip
        broken = Broken(self._job.broken_wals, self._job.source.quarantine, self._job.peer_id, self._job.run_id)
        give_up = partial(broken.give_up, self._session.store, self._wals, self._counters)
        reader = GroupReader(
            wals=self._wals, store=self._session.store, keys=self._keys, rules=rules, loaded=self._loaded, labels=self._labels,
            sink=sink, lanes=lanes, acknowledged=self._acknowledged, counters=self._counters, outcome=self._outcome,
            broken=broken, deadline=self._deadline,
        )  # fmt: skip
        archiver = Archiver(self._session, self._outcome.note, give_up)
        registrar = Registrar(self._wals, self._acknowledged, self._lease, self._counters, self._publish, archiver)
        thread = threading.Thread(target=reader.run, name="reader", daemon=True)
        thread.start()
        try:
            self._supervise(thread, lanes, sink, registrar, limit)
            if archiver.pending:
                limit.leave()
                self._await_archive(archiver, registrar)
        except BaseException:
            end_calls(lanes, sink)
            raise
        finally:
            archiver.stop()
            lanes.stop()
            sink.interrupt()
            lanes.join(JOIN_SECONDS)
            thread.join(JOIN_SECONDS)

    def _supervise(self, reader: threading.Thread, lanes: Lanes, sink: Sink, registrar: Registrar, limit: Limit) -> None:
        """Register positions, publish summaries and look after calls and the limit until reader and lanes have ended.

        After the deadline the lanes only finish the calls under way, and only those that the slave works on.
        """
        registered = published = looked = time.monotonic()
        while reader.is_alive() or lanes.running:
            time.sleep(TICK_SECONDS)
            limit.look()
            now = time.monotonic()
            if now - registered >= REGISTER_SECONDS:
                registered = now
                registrar.register()
            if now - published >= PUBLISH_SECONDS:
                published = now
                self._publish()
                end_if_paused(self._session, self._job.peer_id, self._outcome, lanes)
            if now - looked >= LOOK_SECONDS:
                sink.look_after_calls(self._deadline)
                looked = time.monotonic()
        registrar.register()

    def _await_archive(self, archiver: Archiver, registrar: Registrar) -> None:
        """Everything is shipped or given up: take WALs out of the queue as they are copied, until the deadline."""
        while archiver.pending and time.monotonic() < self._deadline:
            time.sleep(TICK_SECONDS)
            registrar.register()
        if archiver.pending:
            self._outcome.run_out_of_time()
        registrar.register()

    def _on_unreachable(self) -> None:
        """The slave's ZooKeeper was not reached, so nothing is being read: look up how old the first edit is.

        Raises PausedPeer.
        """
        check_not_paused(self._session, self._job.peer_id)
        self._wals.written = self._wals.written or first_written(self._session.store, self._wals.wals, self._keys)
        self._publish()

    def _note(self) -> None:
        """Let the counters know of the slave, and of the oldest edit that is not shipped."""
        if self._sink:
            outage = self._sink.answers.outage
            self._counters.retried(self._sink.failed_requests)
            self._counters.sent_as(self._sink.kind, self._sink.refused)
            self._counters.outage(outage)
            if outage is None:
                self._say_again.reset()
            elif self._say_again.due():
                log.warning("the slave of peer %s acknowledges nothing: %s", self._job.peer_id, outage.error or "no answer")
        safe = self._acknowledged.safe()
        if safe.wal < len(self._wals.wals):
            # What was written to a file was so after the file got its name.
            unread = max(self._wals.written, self._wals.wals[safe.wal].queued.name.timestamp)
            self._counters.next_to_replicate(self._acknowledged.next_written() or unread)

    def _publish(self) -> None:
        self._note()
        write_group(self._session, self._job.peer_id, self._job.run_id, self._counters.summary())
