"""Makes a source's status from a pass over ZooKeeper, a look at files, the peer clusters and the histories. It reads nothing.

A peer's rate comes from the runs that ship it. Between two micro-batches no run ships, so the rate comes from the history of the
last minutes: the bytes shipped in that time, and by how much the backlog has shrunk in spite of new edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from walferry.base.amounts import duration
from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.engine.summary import Status
from walferry.hbase.cluster_key import MAX_CLUSTER_KEY_CHARS
from walferry.hbase.errors import PositionError
from walferry.hbase.names import WalName
from walferry.observe.status import ages
from walferry.observe.status.ages import Age
from walferry.observe.status.files import FilesSeen
from walferry.observe.status.history import INTERVAL_SECONDS, Sample
from walferry.observe.status.model import (
    BytesLeft,
    DeadServerStatus,
    GroupStatus,
    LagKind,
    LastRun,
    PeerStatus,
    QueueStatus,
    RegionStatus,
    ShippingPace,
    SourceStatus,
    WalStatus,
)
from walferry.observe.status.notes import GroupNotes, PeerDown, RunNote
from walferry.observe.status.peer_clusters import NOT_ASKED, PeerClusterStatus
from walferry.observe.status.valid_through import through_all, valid_through
from walferry.observe.status.view import Holder, ZooKeeperView
from walferry.replication.peers.reading import ENABLED, Peer, refusal
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, as_recovered
from walferry.replication.queues.queue import Queue, QueuedWal, closed_groups, groups, positions

STUCK_SECONDS = 1800.0  # micro-batches run every few minutes
MAX_NAME_CHARS = 1000
LEAST_SECONDS = 1.0  # for a rate
FRESH_MS = 60_000  # for this time a WAL that had nothing to ship is taken to have nothing
SILENT_MS = 30_000  # a run that ships notes its progress every few seconds
_BEGUN = "no edit is older than its WAL's file"
_NOTED = "the last run has noted it"
_WAS_EMPTY = "when its WAL was read last, it had nothing to ship"
_OPEN = "its WAL is being written, and is shipped once its server has begun another one"
_QUIET = "when a batch last asked its server, it had written nothing that a peer may want since its last rolls"
WINDOW_SECONDS = 1800.0


def describe(
    view: ZooKeeperView,
    files: FilesSeen | None = None,
    peer_clusters: Mapping[str, PeerClusterStatus] = MappingProxyType({}),
    histories: Mapping[str, Sequence[Sample]] = MappingProxyType({}),
    problems: Sequence[str] = (),
) -> SourceStatus:
    """Return the status as of the pass. `problems` are the problems of the other looks."""
    now = int(view.at * 1000)
    queues = None if view.queues is None else [_queue(view, queue, files, now) for queue in view.queues]
    peers = None if view.peers is None else tuple(
        _peer(view, peer_id, peer, queues, peer_clusters.get(peer_id, NOT_ASKED), histories.get(peer_id, ()), now)
        for peer_id, peer in sorted(view.peers.items())
    )  # fmt: skip
    orphaned = None
    if queues is not None and view.peers is not None:
        orphaned = tuple(queue for queue in queues if queue.peer_id not in view.peers)
    regions = view.in_transition.regions if view.in_transition else ()
    others = [one_line(text, MAX_NAME_CHARS) for text in (*problems, files.problem if files else None) if text]
    return SourceStatus(
        at_ms=now,
        unreachable=None,
        live_servers=view.servers,
        dead_servers=None if view.queues is None else _dead_servers(view.queues),
        peers=peers,
        orphaned=orphaned,
        regions_in_transition=view.in_transition.count if view.in_transition else None,
        regions=tuple(
            RegionStatus(
                region.encoded_name, one_line(region.name.decode("utf-8", "backslashreplace"), MAX_NAME_CHARS),
                region.state.name, str(region.server), region.changed_ms,
            )
            for region in regions
        ),
        problems=(*view.problems, *others),
        problems_left_out=view.problems_left_out,
    )  # fmt: skip


def unreachable(why: str, at: float) -> SourceStatus:
    """Return the status of a source that cannot be reached."""
    return SourceStatus(int(at * 1000), why)


def _dead_servers(queues: Iterable[Queue]) -> tuple[DeadServerStatus, ...]:
    """Return the dead servers from which queues came, wherever these lie now."""
    by_server: dict[str, list[tuple[str, bool]]] = {}
    for queue in queues:
        if not queue.live and (queue.wals or not queue.server_is_live):
            recovered = as_recovered(queue)
            by_server.setdefault(recovered.dead_server, []).append((recovered.ref, recovered.claimed))
    return tuple(
        DeadServerStatus(name, all(claimed for _, claimed in found), tuple(ref for ref, _ in found))
        for name, found in sorted(by_server.items())
    )


def _queue(view: ZooKeeperView, queue: Queue, files: FilesSeen | None, now: int) -> QueueStatus:
    closed = closed_groups(queue)
    under = () if queue.server_is_live or queue.server == WALFERRY_SERVER else (queue.server,)
    return QueueStatus(
        peer_id=queue.id.peer_id,
        server=queue.server,
        queue_id=str(queue.id),
        kind=LagKind.RECOVERED if queue.id.recovered else LagKind.NORMAL,
        live=queue.live,
        dead_servers=(*queue.id.dead_servers, *under),
        groups=tuple(group_status(view, queue, wals, closed[group], files, now) for group, wals in groups(queue).items()),
        problems=queue.problems,
    )


def _peer(
    view: ZooKeeperView, peer_id: str, peer: Peer | None, queues: Sequence[QueueStatus] | None, peer_cluster: PeerClusterStatus,
    history: Sequence[Sample], now: int,
) -> PeerStatus:  # fmt: skip
    mine = None if queues is None else tuple(queue for queue in queues if queue.peer_id == peer_id)
    every = [group for queue in mine or () for group in queue.groups]
    left = _bytes_left(every) if mine is not None else None
    error, failing_since = _error(every, view.notes.peer_down.get(peer_id))
    max_lag, max_lag_problem = _max_lag(peer)
    peer_lock, shipped = view.peer_locks.get(peer_id), [group.last_run for group in every if group.last_run]
    return PeerStatus(
        id=peer_id,
        state=peer.state if peer else None,
        managed=peer.managed if peer else None,
        cluster_key=one_line(peer.target, MAX_CLUSTER_KEY_CHARS) if peer else None,
        paused=peer.paused if peer else None,
        refusal=refusal(peer) if peer and peer.managed else None,  # other peers are HBase's, and nothing is wrong with that
        max_lag=max_lag,
        max_lag_problem=max_lag_problem,
        peer_cluster=peer_cluster,
        peer_lock=peer_lock,
        queues=mine,
        sizeOfLogQueue=None if mine is None else sum(group.sizeOfLogQueue for group in every),
        wals_left=None if mine is None else sum(group.wals_left for group in every),
        bytes_left=left,
        replicationLag=_lag(mine, [group.replicationLag for group in every]),
        closed_lag=_lag(mine, [group.closed_lag for group in every]),
        ageOfLastShippedOp=_largest(run.ageOfLastShippedOp for run in shipped),
        timestampOfLastShippedOp=_largest(run.timestampOfLastShippedOp for run in shipped),
        sizeOfHFileRefsQueue=view.hfile_refs.get(peer_id),
        pace=pace_of(every, left, history, view.at),
        last_success_ms=_largest(group.last_success_ms for group in every),
        error=error,
        failing_since_ms=failing_since,
        stuck=_stuck(peer, every, held=peer_lock is not None, now=now),
        valid_through_ms=None if mine is None or view.odd else through_all(mine, now),
    )


def _max_lag(peer: Peer | None) -> tuple[float | None, str | None]:
    """Return the limit in the peer's configuration, or why it makes no sense."""
    try:
        return peer.max_lag if peer else None, None
    except WalferryError as error:
        return None, str(error)


def _bytes_left(every: Sequence[GroupStatus]) -> BytesLeft | None:
    """Return the bytes left of all groups; None if no file was read."""
    parts = [group.bytes_left for group in every]
    known = [part for part in parts if part is not None]
    return None if len(known) < len(parts) else sum(known, BytesLeft(0, 0))


def _lag(queues: Sequence[QueueStatus] | None, lags: Iterable[Age]) -> Age:
    if queues is None:
        return ages.unknown("the queues cannot be read")
    odd = [problem for queue in queues for problem in queue.problems]
    return ages.oldest([*lags, *(ages.unknown(problem) for problem in odd[:1])])


def _largest(numbers: Iterable[int | None]) -> int | None:
    """Return the largest known number; None if none is known."""
    return max((number for number in numbers if number is not None), default=None)


def _error(every: Sequence[GroupStatus], down: PeerDown | None) -> tuple[str | None, int | None]:
    """Return the error of the group that has failed for the longest time, and since when; or that a run found the peer cluster
    down."""
    failing = [(group.failing_since_ms, group.error) for group in every if group.failing_since_ms is not None]
    if failing:
        since, error = min(failing, key=lambda each: each[0])
        return error or "it says no reason", since
    succeeded = _largest(group.last_success_ms for group in every)
    return (down.error, down.at_ms) if down is not None and down.at_ms > (succeeded or 0) else (None, None)


def _stuck(peer: Peer | None, every: Sequence[GroupStatus], *, held: bool, now: int) -> str | None:
    """Return a text on WAL groups that have not advanced for long, though they can be shipped and no run works on them."""
    if held:
        return None
    waiting = [group for group in every if group.holder is None and not group.closed_lag.nothing_waits]
    since = {group.group: group.advanced_ms for group in waiting if group.advanced_ms is not None}
    still = {group: ms for group, ms in since.items() if now - ms > STUCK_SECONDS * 1000}
    if not still:
        return None
    group = min(still, key=lambda group: still[group])
    minutes = (now - still[group]) // 60_000  # seconds would change with each look
    return (
        f"{len(still):,} of its {len(every):,} WAL groups have WALs to ship and have not advanced for long, {group} for "
        f"{duration(minutes * 60)}, and {_who_ships(peer)}"
    )


def _who_ships(peer: Peer | None) -> str:
    if peer is not None and peer.state == ENABLED:
        return "the peer is ENABLED, so RegionServers ship it"
    if peer is not None and not peer.managed:
        return "nobody ships it: the peer is DISABLED and not managed"
    if peer is not None and peer.paused:
        return "nobody ships it: the peer is paused"
    return "no run has it now"


def group_status(
    view: ZooKeeperView, queue: Queue, wals: Sequence[QueuedWal], closed: Sequence[QueuedWal], files: FilesSeen | None, now: int
) -> GroupStatus:
    """Return the status of the group with these `wals`. Its `closed` WALs can be shipped. `now` is in ms since the epoch."""
    key = queue.id.peer_id, wals[0].name.group
    notes, holder = view.notes.groups.get(key), view.leases.get(key)
    writer = None if wals[0].name.server is None else str(wals[0].name.server)
    peer = (view.peers or {}).get(queue.id.peer_id)
    since = _since(wals, view.quiet.get(writer or "", 0) if peer is not None and peer.managed else 0)
    closed_lag = _closed_lag(closed, notes, files, since, now)
    failing = notes.failing if notes else ()
    return GroupStatus(
        group=wals[0].name.group,
        writer=writer,
        sizeOfLogQueue=len(wals),
        wals_left=len(closed),
        oldest=_oldest(wals[0]),
        bytes_left=None if files is None else _left_of_group(closed, files),
        replicationLag=ages.oldest([closed_lag, *(_open_lag(wal, files, since[wal.name], now) for wal in wals[len(closed) :])]),
        closed_lag=closed_lag,
        holder=holder,
        last_run=_last_run(notes.last, holder, now) if notes else None,
        last_success_ms=notes.last_success_ms if notes else None,
        error=failing[0].summary.error if failing else None,
        failing_since_ms=failing[-1].at_ms if failing else None,
        advanced_ms=_advanced(wals, closed, notes),
        valid_through_ms=valid_through(wals, len(closed), files, now),
    )


def _position(wal: QueuedWal) -> int | None:
    return wal.position_or_problem if isinstance(wal.position_or_problem, int) else None


def _oldest(wal: QueuedWal) -> WalStatus:
    problem = wal.position_or_problem if isinstance(wal.position_or_problem, PositionError) else None
    return WalStatus(wal.name.text, wal.name.timestamp, _position(wal), None if problem is None else str(problem))


def _left_of_group(closed: Sequence[QueuedWal], files: FilesSeen) -> BytesLeft:
    known = unsure = 0
    for name, position in positions(closed):
        size, passed = files.sizes.get(name), position if isinstance(position, int) else None
        if size is None or passed is None or name in files.growing:
            unsure += 1
        if size is not None:
            known += max(0, size - (passed or 0))
    return BytesLeft(known, unsure)


def _since(wals: Sequence[QueuedWal], quiet_ms: int) -> dict[WalName, int]:
    """Return, for each WAL of a group, a time before which it has no edit that a peer may want, in ms since the epoch.

    The server had written no such edit to the WAL that was open at `quiet_ms`, nor to a later one, of course.
    """
    newer = (*(wal.name.timestamp for wal in wals[1:]), None)
    return {
        wal.name: wal.name.timestamp if closed is not None and closed <= quiet_ms else max(wal.name.timestamp, quiet_ms)
        for wal, closed in zip(wals, newer, strict=True)
    }


def _closed_lag(
    closed: Sequence[QueuedWal], notes: GroupNotes | None, files: FilesSeen | None, since: Mapping[WalName, int], now: int
) -> Age:
    for wal in closed:
        begun, position = since[wal.name], _position(wal)
        if position is None:
            return ages.at_most(begun, now, "its position cannot be read")
        read = files.read_at(wal.name.text, position) if files else None
        if read is None:
            return _bound(wal.name, notes, begun, now)
        if read.written_ms is not None:
            return _age_of_first(read.written_ms, begun, now)
        if read.open_ms is not None:
            return ages.at_most(max(read.open_ms, begun), now, _WAS_EMPTY)
    return ages.NOTHING_WAITS


def _bound(wal: WalName, notes: GroupNotes | None, begun: int, now: int) -> Age:
    """Return the largest possible age of an edit of this WAL. As shipping goes on, the oldest waiting edit only gets younger."""
    noted = notes.last.summary.timestampOfNextToReplicate if notes else None
    if noted is not None and begun < noted <= now:
        return ages.at_most(noted, now, _NOTED)
    return ages.at_most(begun, now, _BEGUN if begun == wal.timestamp else _QUIET)


def _age_of_first(written_ms: int, begun: int, now: int) -> Age:
    """Return the age of the first entry behind a position, or of a later one if no peer may want those before `begun`."""
    return ages.exactly(written_ms, now) if written_ms >= begun else ages.at_most(begun, now, _QUIET)


def _open_lag(wal: QueuedWal, files: FilesSeen | None, begun: int, now: int) -> Age:
    position = _position(wal)
    read = files.read_at(wal.name.text, position) if files and position is not None else None
    if read is None:
        return ages.at_most(begun, now, _OPEN)
    if read.written_ms is not None:
        return _age_of_first(read.written_ms, begun, now)
    if read.open_ms is not None and now - read.open_ms > FRESH_MS:
        return ages.at_most(max(read.open_ms, begun), now, _WAS_EMPTY)
    return ages.NOTHING_WAITS


def _last_run(note: RunNote, holder: Holder | None, now: int) -> LastRun:
    s = note.summary
    return LastRun(
        run_id=one_line(note.run_id, MAX_NAME_CHARS),
        at_ms=note.at_ms,
        status=str(s.status),
        error=s.error or s.sinkError,
        broken_off=s.status is Status.RUNNING and holder is None and now - note.at_ms > SILENT_MS,
        ageOfLastShippedOp=s.ageOfLastShippedOp,
        timestampOfLastShippedOp=s.timestampOfLastShippedOp,
        shippedBytes=s.shippedBytes,
        bytes_per_second=(s.bytesDoneBefore + s.bytesDone) / s.seconds if s.seconds >= LEAST_SECONDS else None,
        bytesDone=s.bytesDone,
        bytesToShip=s.bytesToShip,
    )


def _advanced(wals: Sequence[QueuedWal], closed: Sequence[QueuedWal], notes: GroupNotes | None) -> int | None:
    """Return when the group last advanced, or else since when it could have. None if no WAL of it can be shipped."""
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


def pace_of(groups: Iterable[GroupStatus], left: BytesLeft | None, history: Sequence[Sample], now: float) -> ShippingPace:
    """Return the pace of a peer with these groups and `left` bytes. `now` is in seconds since the epoch."""
    shipping = [group.last_run for group in groups if group.holder]
    rates = [run.bytes_per_second for run in shipping if run is not None and run.status == Status.RUNNING]
    if running := [rate for rate in rates if rate is not None]:
        rate = sum(running)
        return ShippingPace(rate, *_time_left(left, rate, "what is shipped now acknowledges nothing"))
    if shipping:
        return ShippingPace(None, None, "its runs have only begun")
    recent = [sample for sample in history if now - WINDOW_SECONDS <= sample.at <= now]
    shipped = [sample.shipped_bytes for sample in recent[1:]]
    if not shipped or None in shipped:
        return ShippingPace(None, None, "nothing ships it now, and its history does not tell")
    seconds = (recent[-1].interval - recent[0].interval) * INTERVAL_SECONDS
    rate = sum(each or 0 for each in shipped) / seconds
    first, last = recent[0], recent[-1]
    if left is not None and not left.known and not left.unsure:
        return ShippingPace(rate, 0.0, "")
    if first.bytes_left is None or last.bytes_left is None or first.unsure or last.unsure:
        return ShippingPace(rate, None, "the bytes left are not known for all of the last minutes")
    shrinks = (first.bytes_left - last.bytes_left) / seconds
    return ShippingPace(rate, *_time_left(left, shrinks, "the backlog does not shrink"))


def _time_left(left: BytesLeft | None, rate: float, too_slow: str) -> tuple[float | None, str]:
    """Return the seconds until these bytes are shipped; None if they are not known or never will be, and why."""
    if left is None:
        return None, "no file was read"
    if left.unsure:
        return None, f"the sizes of {left.unsure:,} WALs are not known"
    if not left.known:
        return 0.0, ""
    return (left.known / rate, "") if rate > 0 else (None, too_slow)
