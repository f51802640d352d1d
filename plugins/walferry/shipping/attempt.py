"""Makes one attempt at a WAL group: ships its WALs through the engine, by the right to send.

An attempt at a queue holds the group's lease, and moves positions. A replay makes attempts of its own kind (replay/shipment.py).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

from walferry.base.errors import WalferryError
from walferry.base.zk.right import Right
from walferry.engine.bandwidth import limit_of
from walferry.engine.counters import Counters
from walferry.engine.feed import Commit, Feed
from walferry.engine.gauges import Gauges
from walferry.engine.in_flight import InFlight
from walferry.engine.outcome import RunOutcome
from walferry.engine.run import Run
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.cluster import cluster_id
from walferry.hbase.errors import PausedPeer
from walferry.hbase.names import WalName
from walferry.load.earlier_loads import NOTHING_LOADED, loaded_before
from walferry.replication.filters.rules import FilterRules, PeerTables
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.peers.reading import Peer, check_shippable
from walferry.replication.queues.lease import Lease
from walferry.replication.queues.reading import kept_hfiles
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.of_peer import open_sink
from walferry.replication.source.agreement import why_master_counts
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.shipping.candidates import candidates
from walferry.shipping.deleted import Missing, deleted_at_source, names_of
from walferry.shipping.giving_up import permission_for
from walferry.shipping.group_job import GroupJob, ShippingJob
from walferry.shipping.lag import first_written
from walferry.shipping.peer_down import known_down, note_down
from walferry.shipping.queue_positions import Archiver, QueuePositions
from walferry.shipping.queued_wals import GroupWals, QueuedWals
from walferry.shipping.runs import write_group
from walferry.shipping.serial_order import SerialOrder, SourceLookups

J = TypeVar("J", bound=ShippingJob)


class Attempt(ABC, Generic[J]):
    """One attempt at a group. It drops edits of the `missing` tables and families that the source lacks too.

    `write` keeps the group's summary. With a `lease` on the group's queue, the sink also writes there.
    """

    backlog: ClassVar[bool]  # whether unshipped edits stay queued, so that the next batch ships them

    def __init__(
        self, job: J, session: Session, counters: Counters, missing: Collection[Missing], right: Right,
        write: Callable[[GroupSummary], None], lease: Lease | None = None,
    ) -> None:  # fmt: skip
        self._job = job
        self._session = session
        self._counters = counters
        self._missing = missing
        self._right = right
        self._write = write
        self._lease_of_sink = lease
        self._deadline = time.monotonic() + job.deadline - time.time()
        self._labels = LabelFilter.of(session)
        self._in_flight = InFlight()
        self._outcome = RunOutcome()
        self._gauges = Gauges(counters, self._in_flight, f"the cluster of peer {job.peer_id}")

    @abstractmethod
    def begin(self) -> Peer | None:
        """Look up what is to be shipped, and begin to count. Returns the peer; None if nothing is to be shipped."""

    @abstractmethod
    def ends(self, rules: FilterRules) -> tuple[Feed, Commit]:
        """Return both ends of the engine's run: its input, to which the peer's rules apply, and what keeps its progress."""

    @property
    def queued(self) -> Sequence[WalName]:
        """The WALs that are shipped, if they are queued."""
        return ()

    def why_stop(self) -> WalferryError | None:
        """Return why nothing may be sent any more: the peer was paused, or an HMaster came that was said to be absent."""
        return why_stopped(self._session, self._job.peer_id)

    def on_missing_hfiles(self, count: int) -> None:
        """Count files of a bulk load that are gone."""
        self._counters.missing_hfiles(count)

    def on_unreachable(self) -> None:
        """Publish since when the peer cluster's ZooKeeper has not been reached. Raises PausedPeer, MasterPresent."""
        check_not_stopped(self._session, self._job.peer_id)
        self.publish()

    def publish(self) -> None:
        """Write the summary with the present figures. Raises an error that ends the run if the right to ship is lost."""
        self._gauges.update()
        self._write(self._counters.summary())

    def run(self) -> None:
        """Ship the group, and leave the outcome in the counters. Raises errors that stop the whole group."""
        try:
            self._run()
        except PausedPeer as error:
            self._counters.end(Status.PAUSED, str(error))
        except PeerClusterUnreachable as error:
            text = str(error) if self.backlog else error.problem
            if not error.answered:  # otherwise this group's edits may be the trouble, and other groups try for themselves
                note_down(self._session, self._job.peer_id, self._job.run_id, text)
            self._counters.end(Status.PEER_DOWN, text)
        finally:
            self._gauges.update()
            self.close()

    def close(self) -> None:
        """Close what `begin` has opened: by default nothing."""

    def _run(self) -> None:
        session, job, stop = self._session, self._job, self._outcome.stop
        if (peer := self.begin()) is None:
            self._counters.end(self._outcome.status(), self._outcome.waits)
            return
        if error := known_down(session, peer, job.run_id):
            self._counters.end(Status.PEER_DOWN, error)
            return
        source_id, lease = cluster_id(session.zk, session.nodes), self._lease_of_sink
        self._gauges.sink = opened = open_sink(
            peer, session.source, job.settings, self._deadline, source_id=source_id,
            group=lease.group if lease else None, queued=self.queued, stop=stop, right=self._right, lease=lease,
            kept_hfiles=partial(kept_hfiles, session, peer.id),
            on_missing_hfiles=self.on_missing_hfiles, on_failure=self.on_unreachable,
        )  # fmt: skip
        with opened as sink, limit_of(peer, session, stop) as limit:
            check_not_stopped(session, peer.id)  # opening the sink may have waited for the peer cluster
            deleted = deleted_at_source(session, self._missing)
            self._counters.deleted(names_of(deleted))
            feed, commit = self.ends(FilterRules.of_peer(peer, source_id, sink.id, deleted))
            status = Run(
                feed=feed, commit=commit, sink=sink, limit=limit, labels=self._labels, counters=self._counters,
                in_flight=self._in_flight, outcome=self._outcome, settings=job.settings,
                senders=min(job.senders, sink.most_senders or job.senders),
                deadline=self._deadline, stops=self.why_stop, publish=self.publish,
            ).ship()  # fmt: skip
        self._counters.end(status, self._outcome.waits)


class QueueAttempt(Attempt[GroupJob]):
    """An attempt at a group's queue, under its lease."""

    backlog = True

    def __init__(self, job: GroupJob, session: Session, lease: Lease, counters: Counters, missing: Collection[Missing]) -> None:
        write = partial(write_group, session, job.peer_id, job.run_id)
        super().__init__(job, session, counters, missing, lease.right, write, lease)
        self._lease = lease
        self._keys = job.source.keys()
        self._wals = GroupWals((), ())
        self._loaded = NOTHING_LOADED
        self._order: SerialOrder | None = None

    def begin(self) -> Peer | None:
        """Find the group's WALs in its queue. Raises PeerError, StaleLoad.

        The peer is read after the WALs. If it becomes serial or gets more tables later, HBase then opens regions anew, and these
        WALs contain nothing that was written after that. If it has since the job began, the attempt ends
        (agreement.check_no_change).
        """
        found = next(iter(candidates(self._lease.read(self._job.place))), None)
        peer = read_peer(self._session, self._job.peer_id)
        check_shippable(peer)
        if found is None or not found.wals:
            return None
        tables = PeerTables.of_peer(peer) if peer.serial else None
        if tables != self._job.serial_tables:
            self._outcome.wait("its peer, or what the peer gets, has changed since the job began; the next batch ships it")
            return None
        self._wals = GroupWals.found(found.wals, self._session.store)
        self._gauges.unread_since = self._wals.unread_since
        self._counters.begin(
            peer_cluster=peer.target, server=found.server, queue_id=found.queue_id, queued=found.queued,
            wals=len(found.wals), bytes_to_ship=self._wals.bytes_to_ship,
        )  # fmt: skip
        self.publish()
        self._loaded = loaded_before(self._session, peer, self._job.group)
        if peer.serial:
            self._order = SerialOrder(SourceLookups(self._session, peer.id, self._has_to_end))
        return peer

    @property
    def queued(self) -> Sequence[WalName]:
        """The WALs that are shipped."""
        return [wal.queued.name for wal in self._wals.wals]

    def _has_to_end(self) -> bool:
        return self._outcome.stop.is_set() or time.monotonic() > self._deadline

    def close(self) -> None:
        """Close the connections to hbase:meta that a serial peer needs."""
        if self._order is not None:
            self._order.close()

    def ends(self, rules: FilterRules) -> tuple[Feed, Commit]:
        """Return the queued WALs, and the queue's positions."""
        feed = QueuedWals(
            job=self._job, wals=self._wals, store=self._session.store, keys=self._keys, peer_rules=rules, counters=self._counters,
            deadline=self._deadline, given_up=partial(permission_for, self._session, self._job.peer_id), loaded=self._loaded,
            order=self._order,
        )  # fmt: skip
        archiver = Archiver(self._session, self._outcome.note, feed.give_up)
        return feed, QueuePositions(self._wals, self._lease, self._counters, archiver, self._order)

    def on_unreachable(self) -> None:
        """Look up how old the first edit is, too: the peer cluster's ZooKeeper does not answer, so no WAL is being read."""
        check_not_stopped(self._session, self._job.peer_id)
        self._wals.written = self._wals.written or first_written(self._session.store, self._wals.wals, self._keys)
        self.publish()


def why_stopped(session: Session, peer_id: str) -> WalferryError | None:
    """Return why an attempt may not go on: its peer was paused, or an HMaster came that was said to be absent.

    Raises PeerError, ConnectError.
    """
    if read_peer(session, peer_id).paused:
        return PausedPeer(peer_id)
    return why_master_counts(session)


def check_not_stopped(session: Session, peer_id: str) -> None:
    """Raise the error of `why_stopped`. Raises PeerError, ConnectError."""
    if (why := why_stopped(session, peer_id)) is not None:
        raise why
