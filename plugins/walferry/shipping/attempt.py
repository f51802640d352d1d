"""Makes one attempt at a WAL group under its lease: ships the queued WALs through the engine, and moves their positions."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial
from uuid import UUID

from walferry.engine.bandwidth import Limit, limit_of
from walferry.engine.counters import Counters
from walferry.engine.gauges import Gauges
from walferry.engine.in_flight import InFlight
from walferry.engine.outcome import RunOutcome, noted_end
from walferry.engine.run import Run
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.cluster import cluster_id
from walferry.load.earlier_loads import NOTHING_LOADED, loaded_before
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.peers.reading import Peer, check_shippable, read_peer
from walferry.replication.queues.lease import Lease
from walferry.replication.sinks.of_peer import open_sink
from walferry.replication.sinks.sink import Sink
from walferry.replication.source.session import Session
from walferry.shipping.candidates import GroupCandidates, candidates
from walferry.shipping.deleted import Missing, deleted_at_source, names_of
from walferry.shipping.group_job import GroupJob
from walferry.shipping.lag import first_written
from walferry.shipping.pausing import check_not_paused, why_paused
from walferry.shipping.queue_positions import Archiver, QueuePositions
from walferry.shipping.queued_wals import Broken, GroupWals, QueuedWals
from walferry.shipping.runs import write_group
from walferry.shipping.slave_down import known_down, note_down


class Attempt:
    """One attempt at a group, under its lease. It drops edits of the `missing` tables and families that the source lacks too."""

    def __init__(self, job: GroupJob, session: Session, lease: Lease, counters: Counters, missing: Collection[Missing]) -> None:
        self._job = job
        self._missing = missing
        self._deadline = time.monotonic() + job.deadline - time.time()
        self._session = session
        self._lease = lease
        self._counters = counters
        self._keys = job.source.keys()
        self._labels = LabelFilter.of(session)
        self._in_flight = InFlight()
        self._outcome = RunOutcome()
        self._gauges = Gauges(counters, self._in_flight, f"the slave of peer {job.peer_id}")
        self._wals = GroupWals((), ())
        self._loaded = NOTHING_LOADED

    def run(self) -> None:
        """Ship the group, and leave the outcome in the counters. Raises errors that stop the whole group."""
        try:
            with noted_end(self._counters, partial(note_down, self._session, self._job.peer_id, self._job.run_id), backlog=True):
                self._run()
        finally:
            self._gauges.update()

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
        self._gauges.sink = opened = open_sink(
            peer, self._session, self._job.settings, self._deadline, stop=self._outcome.stop, right=self._lease.right,
            lease=self._lease, on_missing_hfiles=self._counters.missing_hfiles, on_failure=self._on_unreachable,
        )  # fmt: skip
        with opened as sink, limit_of(peer, self._session, self._outcome.stop) as limit:
            check_not_paused(self._session, self._job.peer_id)  # opening the sink may have waited for the slave
            status = self._ship(sink, self._rules(peer, sink.id), limit)
        self._counters.end(status)

    def _begin(self, peer: Peer, found: GroupCandidates) -> None:
        self._wals = GroupWals.found(found.wals, self._session.store)
        self._gauges.row = self._wals
        self._counters.begin(
            slave=str(peer.slave), server=found.server, queue_id=found.queue_id, queued=found.queued,
            wals=len(found.wals), bytes_to_ship=self._wals.bytes_to_ship,
        )  # fmt: skip
        self._publish()

    def _rules(self, peer: Peer, sink_id: UUID) -> FilterRules:
        source_id = cluster_id(self._session.zk, self._session.nodes)
        deleted = deleted_at_source(self._session, self._missing)
        self._counters.deleted(names_of(deleted))
        return FilterRules.of_peer(peer, source_id, sink_id, deleted)

    def _ship(self, sink: Sink, rules: FilterRules, limit: Limit) -> Status:
        """Have the engine ship the queued WALs. Returns how it ended."""
        broken = Broken(self._job.broken_wals, self._job.source.quarantine, self._job.peer_id, self._job.run_id)
        give_up = partial(broken.give_up, self._session.store, self._wals, self._counters)
        archiver = Archiver(self._session, self._outcome.note, give_up)
        return Run(
            feed=QueuedWals(
                wals=self._wals, store=self._session.store, keys=self._keys, peer_rules=rules, counters=self._counters,
                broken=broken, deadline=self._deadline, loaded=self._loaded,
            ),
            commit=QueuePositions(self._wals, self._lease, self._counters, archiver, self._write),
            sink=sink, limit=limit, labels=self._labels, counters=self._counters, in_flight=self._in_flight,
            outcome=self._outcome, settings=self._job.settings, senders=self._job.senders, deadline=self._deadline,
            stops=partial(why_paused, self._session, self._job.peer_id), gauges=self._gauges,
        ).ship()  # fmt: skip

    def _on_unreachable(self) -> None:
        """Look up how old the first edit is: the slave's ZooKeeper does not answer, so no WAL is being read.

        Raises PausedPeer.
        """
        check_not_paused(self._session, self._job.peer_id)
        self._wals.written = self._wals.written or first_written(self._session.store, self._wals.wals, self._keys)
        self._publish()

    def _publish(self) -> None:
        self._gauges.update()
        self._write(self._counters.summary())

    def _write(self, summary: GroupSummary) -> None:
        write_group(self._session, self._job.peer_id, self._job.run_id, summary)
