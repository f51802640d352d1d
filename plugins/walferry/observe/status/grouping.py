"""The status of one WAL group in a queue. Nothing is read here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from walferry.base.texts import one_line
from walferry.engine.summary import Status
from walferry.hbase.errors import PositionError
from walferry.hbase.names import WalName
from walferry.observe.status import ages
from walferry.observe.status.ages import Age
from walferry.observe.status.files import FilesSeen
from walferry.observe.status.model import BytesLeft, GroupStatus, LastRun, WalStatus
from walferry.observe.status.notes import GroupNotes, RunNote
from walferry.observe.status.view import Holder, ZooKeeperView
from walferry.replication.queues.reading import Queue, QueuedWal, positions

LEAST_SECONDS = 1.0  # for a rate
MAX_NAME_CHARS = 1000
FRESH_MS = 60_000  # for which a WAL that had nothing to ship is believed to have nothing
SILENT_MS = 30_000  # a run that ships notes its progress every few seconds
_BEGUN = "no edit is older than its WAL's file"
_NOTED = "the last run has noted it"
_WAS_EMPTY = "when its WAL was read last, it had nothing to ship"
_OPEN = "its WAL is being written, and is shipped once its server has begun another one"


def group_status(
    view: ZooKeeperView, queue: Queue, wals: Sequence[QueuedWal], closed: Sequence[QueuedWal], files: FilesSeen | None, now: int
) -> GroupStatus:
    """The status of the group with these `wals`, of which those `closed` can be shipped. `now` is in ms since the epoch."""
    key = queue.id.peer_id, wals[0].name.group
    notes, holder = view.notes.groups.get(key), view.leases.get(key)
    closed_lag = _closed_lag(closed, notes, files, now)
    failing = notes.failing if notes else ()
    return GroupStatus(
        group=wals[0].name.group,
        writer=None if wals[0].name.server is None else str(wals[0].name.server),
        sizeOfLogQueue=len(wals),
        wals_left=len(closed),
        oldest=_oldest(wals[0]),
        bytes_left=None if files is None else _bytes_left(closed, files),
        replicationLag=ages.oldest([closed_lag, *(_open_lag(wal, files, now) for wal in wals[len(closed) :])]),
        closed_lag=closed_lag,
        holder=holder,
        last_run=_last_run(notes.last, holder, now) if notes else None,
        last_success_ms=notes.last_success_ms if notes else None,
        error=failing[0].summary.error if failing else None,
        failing_since_ms=failing[-1].at_ms if failing else None,
        advanced_ms=_advanced(wals, closed, notes),
    )


def _position(wal: QueuedWal) -> int | None:
    return wal.position_or_problem if isinstance(wal.position_or_problem, int) else None


def _oldest(wal: QueuedWal) -> WalStatus:
    problem = wal.position_or_problem if isinstance(wal.position_or_problem, PositionError) else None
    return WalStatus(wal.name.text, wal.name.timestamp, _position(wal), None if problem is None else str(problem))


def _bytes_left(closed: Sequence[QueuedWal], files: FilesSeen) -> BytesLeft:
    known = unsure = 0
    for name, position in positions(closed):
        size, passed = files.sizes.get(name), position if isinstance(position, int) else None
        if size is None or passed is None or name in files.growing:
            unsure += 1
        if size is not None:
            known += max(0, size - (passed or 0))
    return BytesLeft(known, unsure)


def _closed_lag(closed: Sequence[QueuedWal], notes: GroupNotes | None, files: FilesSeen | None, now: int) -> Age:
    for wal in closed:
        position = _position(wal)
        if position is None:
            return ages.at_most(wal.name.timestamp, now, "its position cannot be read")
        read = files.read_at(wal.name.text, position) if files else None
        if read is None:
            return _bound(wal.name, notes, now)
        if read.written_ms is not None:
            return ages.exactly(read.written_ms, now)
        if read.open_ms is not None:
            return ages.at_most(read.open_ms, now, _WAS_EMPTY)
    return ages.NOTHING_WAITS


def _bound(wal: WalName, notes: GroupNotes | None, now: int) -> Age:
    """The age that an edit of this WAL has at most. As shipping goes on, the oldest waiting edit only gets younger."""
    noted = notes.last.summary.timestampOfNextToReplicate if notes else None
    if noted is not None and wal.timestamp < noted <= now:
        return ages.at_most(noted, now, _NOTED)
    return ages.at_most(wal.timestamp, now, _BEGUN)


def _open_lag(wal: QueuedWal, files: FilesSeen | None, now: int) -> Age:
    position = _position(wal)
    read = files.read_at(wal.name.text, position) if files and position is not None else None
    if read is None:
        return ages.at_most(wal.name.timestamp, now, _OPEN)
    if read.written_ms is not None:
        return ages.exactly(read.written_ms, now)
    if read.open_ms is not None and now - read.open_ms > FRESH_MS:
        return ages.at_most(read.open_ms, now, _WAS_EMPTY)
    return ages.NOTHING_WAITS


def _last_run(note: RunNote, holder: Holder | None, now: int) -> LastRun:
    s = note.summary
    return LastRun(
        run_id=one_line(note.run_id, MAX_NAME_CHARS),
        at_ms=note.at_ms,
        status=str(s.status),
        error=s.error or s.slaveError,
        broken_off=s.status is Status.RUNNING and holder is None and now - note.at_ms > SILENT_MS,
        ageOfLastShippedOp=s.ageOfLastShippedOp,
        timestampOfLastShippedOp=s.timestampOfLastShippedOp,
        shippedBytes=s.shippedBytes,
        bytes_per_second=(s.bytesDoneBefore + s.bytesDone) / s.seconds if s.seconds >= LEAST_SECONDS else None,
        bytesDone=s.bytesDone,
        bytesToShip=s.bytesToShip,
    )


def _advanced(wals: Sequence[QueuedWal], closed: Sequence[QueuedWal], notes: GroupNotes | None) -> int | None:
    """When the group has advanced last, or else since when it could have. None if it has nothing that can be shipped."""
    if not closed:
        return None
    after = wals[1].name.timestamp if len(wals) > 1 else closed[0].name.timestamp  # a WAL is closed when the next one is begun
    begun = takewhile(lambda wal: wal.set_ms is not None, closed)  # positions are read from the oldest WAL on
    set_ms = [wal.set_ms for wal in begun if wal.set_ms is not None]
    progressed = [note.at_ms for note in notes.notes if _has_progressed(note)] if notes else []
    return max([after, *set_ms, *progressed])


def _has_progressed(note: RunNote) -> bool:
    s = note.summary
    return s.status is Status.DONE or bool(s.completedLogs or s.bytesDone or s.shippedBatches)
