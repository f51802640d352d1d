"""The loop over one WAL group of one queue: read → filter → ship → advance.

    reader thread   locates each closed WAL, scans it ahead, filters, hands entries to lanes
    lane threads    send shipments, each lane in order, and wait for their acknowledgements
    this thread     registers the largest acknowledged offset, takes finished WALs out of the queue, keeps the summary

A group is shipped under a lease; every write to its queue is fenced by it. Killed at any moment, the next try goes on from the
registered position and ships again what was acknowledged after it. So it does, within the run's deadline, after the source's
ZooKeeper was away for so long that the session has ended, and the lease with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from kazoo.exceptions import ConnectionClosedError, SessionExpiredError

from walferry.errors import WalferryError
from walferry.files.closedness import CLOSE_TIMEOUT_S, WalNotClosed, await_closed
from walferry.files.quarantine import (
    WAYS_OUT,
    BrokenWals,
    ends_with_its_whole_entries,
    quarantine,
    to_be_quarantined,
)
from walferry.files.store import WalLocation
from walferry.filters.rules import FilterRules
from walferry.filters.visibility import LabelFilter, LabelsRefused
from walferry.filters.window import filter_window, uuid_field
from walferry.hbase.cluster import cluster_id, visibility_labels
from walferry.hbase.errors import PeerError
from walferry.hbase.peers import Peer, check_shippable, read_peer
from walferry.queues.errors import LastWal, LeaseHeld, LeaseLost
from walferry.queues.finding import Place
from walferry.queues.lease import Lease, acquire
from walferry.shipping.acknowledged import Acknowledged, WalOffset
from walferry.shipping.candidates import Candidate, GroupCandidates, candidates
from walferry.shipping.counters import Counters
from walferry.shipping.lag import first_written
from walferry.shipping.lanes import LANES_OF_A_GROUP, LaneLimits, Lanes, Stopped
from walferry.shipping.summary import GroupSummary, Status, read_group, write_group
from walferry.sinks.hbase.answers import Repeats
from walferry.sinks.hbase.bulk_loads import BulkLoadRefused, HFileSource, take_bulk_loads
from walferry.sinks.hbase.hfiles import HFileSender
from walferry.sinks.hbase.replicate import ShippingStopped, SlaveUnreachable
from walferry.sinks.hbase.shipment import Shipment
from walferry.sinks.hbase.slave import Slave
from walferry.source.cluster import SourceCluster, VisibilityLabels
from walferry.source.session import Session, open_session
from walferry.wal.errors import (
    WalCorruptError,
    WalError,
    WalPositionError,
    WalTornError,
    WalTruncatedError,
    WalUnclosedError,
)
from walferry.wal.header import EMPTY_TRAILER, ends_like_closed
from walferry.wal.reader import Window, read_windows
from walferry.zk.client import OUTCOME_UNKNOWN, SESSION_TIMEOUT_S
from walferry.zk.errors import ConnectError

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
REGISTER_SECONDS = 0.5  # between two registrations of the position
PUBLISH_SECONDS = 2.0  # between two summaries
SPLIT_TIMEOUT_S = 300.0  # until the master, which may have much to do after a crash, has fenced a dead server off its WALs
RELOCATIONS = 5  # times that a WAL may move, or turn out not to be closed, while it is being opened and read
JOIN_SECONDS = 10.0  # for threads that were told to stop
RETRY_SECONDS = 2.0  # before a group begins again in a new session
LATE_SECONDS = 2.0  # between two looks, after the deadline, at whether the slave works on the calls under way
# With the source's ZooKeeper, or with the lease that went with a session of ours: nothing is wrong with the group.
PASSING = (ConnectError, LeaseLost, SessionExpiredError, ConnectionClosedError, *OUTCOME_UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class GroupJob:
    """One WAL group to ship, by one Spark task."""

    source: SourceCluster
    peer_id: str
    group: str
    run_id: str
    place: Place | None = None  # where the plan has seen the group
    holder: str  # who holds the lease, for people: run, host, process
    deadline: float  # seconds since the epoch; then reading stops, retries end, and calls of a silent slave do
    lanes: int = LANES_OF_A_GROUP
    sink_ratio: float = 0.1
    broken_wals: BrokenWals = BrokenWals.STOP
    limits: LaneLimits = field(default_factory=LaneLimits)


def ship_group(job: GroupJob) -> GroupSummary:
    """Ship all closed WALs of a group. What goes wrong with it is in the summary's status and error, never raised."""
    connected_before = False
    while True:
        try:
            with open_session(job.source) as session:
                connected_before = True
                return _ship_group(job, session)
        except PASSING as e:
            # An ensemble that this machine has never reached may be out of its reach for good.
            if not connected_before or time.time() + RETRY_SECONDS >= job.deadline:
                return GroupSummary(group=job.group, status=Status.FAILED, error=_text(e), passing=True)
            log.warning("WAL group %s of peer %s begins again where it is registered: %s", job.group, job.peer_id, _text(e))
            time.sleep(RETRY_SECONDS)
        except Exception as e:  # the group's own failures are dealt with, and the other groups go on
            log.exception("WAL group %s of peer %s", job.group, job.peer_id)
            return GroupSummary(group=job.group, status=Status.FAILED, error=_text(e))


def _ship_group(job: GroupJob, session: Session) -> GroupSummary:
    before = read_group(session, job.peer_id, job.run_id, job.group)
    counters = Counters(before or GroupSummary(group=job.group))
    lease, ended = None, False
    try:
        lease = _acquire(session, job)
        _GroupShipping(job, session, lease, counters).run()
    except LeaseHeld as e:
        counters.end(Status.HELD, str(e))
    except PASSING as e:
        ended = True  # the lease goes with the session
        if time.time() + RETRY_SECONDS < job.deadline:
            raise
        counters.end(Status.FAILED, _text(e), passing=True)
    except Exception as e:
        log.exception("WAL group %s of peer %s", job.group, job.peer_id)
        counters.end(Status.FAILED, _text(e))
    finally:
        if lease and not ended:
            lease.release()
    summary = counters.summary()
    if lease or before is None:  # else its holder, an attempt of the same run, writes it
        write_group(session, job.peer_id, job.run_id, summary)
    return summary


def _acquire(session: Session, job: GroupJob) -> Lease:
    """The group's lease. A holder may have been killed: its session is given the time to end."""
    give_up = time.time() + min(1.25 * SESSION_TIMEOUT_S, max(0.0, job.deadline - time.time()))
    while True:
        try:
            return acquire(session, job.peer_id, job.group, job.holder)
        except LeaseHeld as e:
            if time.time() > give_up:
                raise
            log.info("%s", e)
            time.sleep(0.5)


def _text(error: BaseException) -> str:
    if isinstance(error, (WalCorruptError, WalTruncatedError)):
        return f"{error}. {WAYS_OUT}"
    return str(error) if isinstance(error, WalferryError) else f"{type(error).__name__}: {error}"


class _GroupShipping:
    """One attempt at one group, under its lease."""

    def __init__(self, job: GroupJob, session: Session, lease: Lease, counters: Counters) -> None:
        self._job = job
        self._deadline = time.monotonic() + job.deadline - time.time()
        self._session = session
        self._lease = lease
        self._counters = counters
        self._store = session.store
        self._keys = job.source.keys()
        self._hfiles = HFileSender(
            session.zk, session.nodes.hfile_refs(job.peer_id), lease.remove_hfile_refs,
            HFileSource.of(job.source), counters.missing_hfiles,
        )  # fmt: skip
        known = partial(visibility_labels, session.zk, session.nodes)
        self._labels = LabelFilter(VisibilityLabels(job.source.visibility_labels), known)
        self._acknowledged = Acknowledged()
        self._wals: tuple[Candidate, ...] = ()
        self._sizes: list[int] = []  # of the WALs' files, as far as they could be found at the start
        self._ends: dict[int, int] = {}  # offset after the last entry of the WALs that are read
        self._unclean: dict[int, int] = {}  # WALs without a trailer: the bytes behind the last whole entry
        self._removed = 0  # how many of _wals are done with
        self._registered = WalOffset(0, 0)
        self._error: BaseException | None = None
        self._late = False
        self._stop = threading.Event()
        self._slave: Slave | None = None
        self._say_again = Repeats()
        self._written = 0  # of the last entry read, or of the first one to read

    def run(self) -> None:
        """Ship; the outcome is in the counters. Raises what stops the whole group."""
        try:
            self._run()
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
        self._slave = Slave(
            peer, self._job.sink_ratio, self._deadline,
            user=self._job.source.user, stop=self._stop, on_failure=self._on_unreachable,
        )  # fmt: skip
        with self._slave as slave:
            source_id = cluster_id(self._session.zk, self._session.nodes)
            rules = FilterRules.of_peer(peer, source_id, slave.id)
            if rules.slave_id == source_id:
                raise PeerError(peer.id, f"its cluster key {peer.cluster_key} leads to the source cluster itself", "Correct it")
            shippers = [slave.shipper() for _ in range(self._job.lanes)]
            lanes = Lanes(
                [partial(self._ship, shipper.ship) for shipper in shippers],
                self._acknowledged,
                np.frombuffer(uuid_field(source_id), np.uint8),
                self._job.limits,
                stop=self._stop,
                on_acknowledged=self._counters.shipped,
                on_failure=self._on_lane_failure,
            )
            reader = threading.Thread(target=self._read_all, args=(lanes, rules), name="reader", daemon=True)
            reader.start()
            try:
                self._supervise(reader, lanes, slave)
            finally:
                lanes.stop()
                slave.interrupt()
                lanes.join(JOIN_SECONDS)
                reader.join(JOIN_SECONDS)
        if self._error:
            raise self._error
        self._counters.end(Status.DEADLINE if self._late else Status.DONE)

    def _begin(self, peer: Peer, found: GroupCandidates) -> None:
        self._wals = found.wals
        locations = [self._store.locate(w.queued.name, w.dead_servers) for w in self._wals]
        self._sizes = [at.size if at else 0 for at in locations]
        left = self._bytes_done(WalOffset(len(self._wals), 0))
        self._counters.begin(
            slave=str(peer.slave), server=found.server, queue_id=found.queue_id, queued=found.queued,
            wals=len(self._wals), bytes_to_ship=left,
        )  # fmt: skip
        self._publish()

    def _on_unreachable(self) -> None:
        """The slave's ZooKeeper was not reached, so nothing is being read: how old the first edit is has to be looked up."""
        self._written = self._written or first_written(self._store, self._wals, self._keys)
        self._publish()

    def _note(self) -> None:
        """Let the counters know of the slave, and of the oldest edit that is not shipped."""
        if self._slave:
            outage = self._slave.answers.outage
            self._counters.retried(self._slave.failed_batches)
            self._counters.outage(outage)
            if outage is None:
                self._say_again.reset()
            elif self._say_again.due():
                log.warning("the slave of peer %s acknowledges nothing: %s", self._job.peer_id, outage.error or "no answer")
        safe = self._acknowledged.safe()
        if safe.wal < len(self._wals):
            # What was written to a file was so after the file got its name.
            unread = max(self._written, self._wals[safe.wal].queued.name.timestamp)
            self._counters.next_to_replicate(self._acknowledged.next_written() or unread)

    def _publish(self) -> None:
        self._note()
        write_group(self._session, self._job.peer_id, self._job.run_id, self._counters.summary())

    def _supervise(self, reader: threading.Thread, lanes: Lanes, slave: Slave) -> None:
        """Register positions and publish summaries until reader and lanes have ended.

        After the deadline the lanes have only the calls under way, and those only as long as the slave is there.
        """
        registered = published = late = time.monotonic()
        while reader.is_alive() or lanes.running:
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
            if now - registered >= REGISTER_SECONDS:
                registered = now
                self._register()
            if now - published >= PUBLISH_SECONDS:
                published = now
                self._publish()
            if now > self._deadline and now - late >= LATE_SECONDS:
                slave.interrupt_unanswered()
                late = time.monotonic()
        self._register()

    def _ship(self, ship: Callable[..., object], shipment: Shipment) -> None:
        if shipment.bulk_load is None:
            ship(shipment, self._deadline)
        else:
            self._hfiles.ship(ship, shipment, shipment.bulk_load, self._deadline)

    def _on_lane_failure(self, error: BaseException) -> None:
        """A lane has given up, and with it the group; not for an error if it had nothing left but no more time to send it."""
        if isinstance(error, SlaveUnreachable) and not error.tries:
            self._late = True
        elif not isinstance(error, ShippingStopped):
            self._error = self._error or error

    def _read_all(self, lanes: Lanes, rules: FilterRules) -> None:
        """The reader: all WALs in a row. A WAL that cannot be read ends it; what was read before is still shipped."""
        try:
            try:
                for number, wal in enumerate(self._wals):
                    if not self._read_or_give_up(number, wal, lanes, rules):
                        self._late = True
                        break
                    lanes.flush()
                    self._acknowledged.read_to(WalOffset(number + 1, 0))
            except Exception as e:
                if isinstance(e, Stopped):
                    raise
                self._error = self._error or e
            lanes.finish()
        except Stopped:
            return

    def _read_or_give_up(self, number: int, wal: Candidate, lanes: Lanes, rules: FilterRules) -> bool:
        """As `_read_wal`; a broken WAL is dealt with as the run's policy says."""
        try:
            return self._read_wal(number, wal, lanes, rules)
        except WalError as e:
            may_end_here = ends_with_its_whole_entries(self._job.broken_wals, live=wal.live)
            if may_end_here and isinstance(e, self._torn_errors(number, wal)):
                log.warning("%s at byte %d: ends here, the %d bytes that follow are no whole entry", e.path, e.offset, e.have)
                self._unclean[number] = e.have
                return True
            folder = self._job.source.quarantine
            if folder is None or not to_be_quarantined(self._job.broken_wals, e):
                raise
            self._quarantine(folder, number, wal, e)
            return True

    def _torn_errors(self, number: int, wal: Candidate) -> tuple[type[WalTruncatedError | WalTornError], ...]:
        """What reading raises for an entry that its server's death cut off; in the newest WAL it may end like a trailer."""
        last_of_dead = not wal.live and number == len(self._wals) - 1
        return (WalTruncatedError, WalTornError) if last_of_dead else (WalTruncatedError,)

    def _quarantine(self, folder: str, number: int, wal: Candidate, error: WalError) -> None:
        location = await_closed(self._store, wal.queued.name, wal.dead_servers)
        shipped_to = max(self._ends.get(number, 0), wal.queued.position)
        name = wal.queued.name.text
        skipped = quarantine(folder, location, name, self._job.peer_id, self._job.run_id, shipped_to, error)
        self._counters.quarantined(skipped.bytes)
        log.warning("%s: %d bytes are given up, the file is copied to %s", error, skipped.bytes, folder)

    def _read_wal(self, number: int, wal: Candidate, lanes: Lanes, rules: FilterRules) -> bool:
        """Read one WAL to its end, wherever it is moved meanwhile; False if the deadline came first."""
        position = wal.queued.position
        not_trailers: set[int] = set()  # lengths of the file at which its last bytes only look like a trailer
        self._acknowledged.read_to(WalOffset(number, position))
        for relocation in range(RELOCATIONS + 1):
            timeout = self._close_timeout(wal)
            try:
                location = await_closed(self._store, wal.queued.name, wal.dead_servers, not_trailers, timeout_s=timeout)
            except WalNotClosed:
                if timeout < CLOSE_TIMEOUT_S:  # it had not the time
                    return False
                raise
            try:
                return self._read_file(number, location, position, not_trailers, lanes, rules)
            except (FileNotFoundError, WalUnclosedError) as e:
                if relocation == RELOCATIONS:
                    raise
                position = self._ends.get(number, position)
                if isinstance(e, WalUnclosedError):
                    not_trailers.add(e.offset + len(EMPTY_TRAILER))
                log.info("%s; looking for it again", e if isinstance(e, WalUnclosedError) else f"{location.url} has moved")
        raise AssertionError("the loop returns or raises")

    def _close_timeout(self, wal: Candidate) -> float:
        left = max(0.0, self._deadline - time.monotonic())
        return min(left, CLOSE_TIMEOUT_S if wal.live else SPLIT_TIMEOUT_S)

    def _read_file(
        self,
        number: int,
        location: WalLocation,
        position: int,
        not_trailers: Collection[int],
        lanes: Lanes,
        rules: FilterRules,
    ) -> bool:
        if location.size == 0:  # the server died before it wrote the header
            if position:
                raise WalPositionError(location.url, position, "the file is empty")
            self._unclean[number] = 0
            return True
        with self._store.open(location) as file:
            tail = file.read_at(max(0, file.size - len(EMPTY_TRAILER)), len(EMPTY_TRAILER))
            clean = ends_like_closed(tail, file.size) and file.size not in not_trailers
            if not clean:
                self._unclean[number] = 0
            windows = read_windows(
                file, location.url, position, partial_tail="error", unwrap_key=self._keys, trailer_required=clean
            )
            for window in windows:
                if time.monotonic() > self._deadline:
                    return False
                self._hand_out_to_first_error(window, number, location.url, lanes, rules)
        return True

    def _hand_out_to_first_error(self, window: Window, number: int, path: str, lanes: Lanes, rules: FilterRules) -> None:
        """`_hand_out`; if it raises because of an entry, those before it have gone on their way. Raises the first such error."""
        try:
            self._hand_out(window, number, path, lanes, rules)
        except (WalCorruptError, BulkLoadRefused, LabelsRefused) as e:
            sound = window.until(e.offset)
            if len(sound.index):
                self._hand_out_to_first_error(sound, number, path, lanes, rules)
            raise

    def _hand_out(self, window: Window, number: int, path: str, lanes: Lanes, rules: FilterRules) -> None:
        window, kept = self._labels.apply(window, filter_window(window, rules, path), path)
        lanes.dispatch(window, kept, number, take_bulk_loads(window, kept, rules, self._job.source, path))
        self._counters.read(window, kept)
        self._ends[number] = int(window.next_positions[-1])
        self._written = int(window.index.write_time[-1])
        self._acknowledged.read_to(WalOffset(number, self._ends[number]))

    def _register(self) -> None:
        """Write down how far all lanes are acknowledged; take finished WALs out of the queue."""
        safe = self._acknowledged.safe()
        if safe != self._registered:
            self._publish()  # first: what is registered is not shipped again, so no later attempt of the run would count it
        while self._removed < safe.wal:
            self._finish_wal(self._removed)
            self._removed += 1
        if safe != self._registered and safe.wal < len(self._wals):
            wal = self._wals[safe.wal].queued
            if safe.offset > wal.position:
                self._lease.register_position(wal.name.text, safe.offset)
        self._registered = safe
        self._counters.done(self._bytes_done(safe))

    def _finish_wal(self, number: int) -> None:
        name = self._wals[number].queued.name.text
        try:
            self._lease.remove_wal(name)
            self._counters.completed(ignored=self._unclean.get(number))
        except LastWal:  # somebody else took the newer ones out: this one stays, with all of it shipped
            self._lease.register_position(name, self._ends.get(number, 0))

    def _bytes_done(self, safe: WalOffset) -> int:
        done = sum(max(0, s - w.queued.position) for s, w in zip(self._sizes[: safe.wal], self._wals[: safe.wal], strict=True))
        here = max(0, safe.offset - self._wals[safe.wal].queued.position) if safe.wal < len(self._wals) else 0
        return done + here
