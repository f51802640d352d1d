"""Gives up the rest of a broken WAL for a person: a look at the damage, and a permission, which batches find where they stop.

    <root>/given-up/<quoted znode parent>/<quoted peer>     {WAL: Permission, …}, as JSON

A permission covers the bytes that were looked at, and nothing else: if a batch stops before them, or the file has become longer,
the group stops as without a permission. If the file has become sound, nothing is given up. hbase/files/quarantine.py says how a
batch gives up the rest of a WAL.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass

from walferry.base.errors import WalferryError
from walferry.base.records import Record
from walferry.base.zk.client import read
from walferry.base.zk.records import decode_each, encode, update
from walferry.hbase.cluster import cluster_id
from walferry.hbase.files.closedness import await_closed
from walferry.hbase.files.quarantine import BrokenWals, is_broken
from walferry.hbase.wal.errors import WalError, WalTornError, WalTruncatedError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.of_peer import bulk_loads_in
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.shipping.candidates import Candidate, find_candidate
from walferry.shipping.closed_wal import ReadProgress, batches_of_closed, may_end_with, seconds_to_close

KEPT_SECONDS = 30 * 86_400.0
MAX_KEPT = 100  # the newest permissions of one peer
LOOK_SECONDS = 600.0  # for a WAL to be closed
_ANY_CLUSTER = uuid.UUID(int=0)  # which edits the peer cluster has seen does not matter


class NotBroken(WalferryError):
    """A WAL can be read to its end, so nothing of it has to be given up."""

    retry_helps = False


@dataclass(frozen=True)
class Damage:
    """A broken WAL in a peer's queue: what is given up with it are the bytes from `begins` to before `ends`.

    `behind` counts the WALs of its group that wait behind it. If only the copy for the archive is lost, all edits are shipped.
    """

    wal: str
    url: str
    begins: int
    ends: int
    error: str
    place: str  # server and queue
    behind: int
    of_archive: bool = False


@dataclass(frozen=True)
class Permission(Record):
    """A person's permission to give up a WAL's bytes from `begins` to before `ends`. `time` is in seconds since the epoch."""

    begins: int
    ends: int
    time: float
    by: str

    def covers(self, shipped_to: int, size: int) -> bool:
        """Return whether it covers all bytes of a file of this size from `shipped_to` on."""
        return self.begins <= shipped_to and size <= self.ends


def look(session: Session, peer_id: str, wal: str) -> Damage:
    """Read a queued WAL from its position on to its damage. Changes nothing.

    If the source has an archive, a WAL that is shipped may be broken too: it stays queued until it is copied.

    Raises NotBroken, WalGone, LastWal, PositionError, WalError if something else is wrong with the WAL, WalNotClosed, WalMissing,
    StoreError, and ValueError if `wal` is not a WAL's name.
    """
    candidate, group = find_candidate(session, peer_id, wal)
    peer, newest, position = read_peer(session, peer_id), candidate is group.wals[-1], candidate.queued.position
    begins, error = _read(session, peer, candidate, position, newest=newest)
    of_archive = error is None and position > 0 and session.source.archive is not None
    if of_archive:  # what is behind the position is sound, so all of it is shipped before the copy is given up
        _, error = _read(session, peer, candidate, 0, newest=newest)
    if error is None:
        raise NotBroken(f"WAL {wal} of peer {peer_id} can be read to its end", "Run a batch: it ships the WAL")
    location = await_closed(session.store, candidate.queued.name, candidate.dead_servers, timeout_seconds=LOOK_SECONDS)
    return Damage(
        wal, location.url, begins, location.size, str(error), f"{group.server}/{group.queue_id}",
        sum(each.queued.name.timestamp > candidate.queued.name.timestamp for each in group.wals), of_archive,
    )  # fmt: skip


def _read(session: Session, peer: Peer, candidate: Candidate, position: int, *, newest: bool) -> tuple[int, WalError | None]:
    """Read a WAL as a batch does, and filter its edits. Returns the end of the last whole entry, and the error that follows."""
    rules = FilterRules.of_peer(peer, cluster_id(session.zk, session.nodes), _ANY_CLUSTER)
    progress = ReadProgress()
    batches = batches_of_closed(
        session.store, session.source.keys(), candidate.queued.name, candidate.dead_servers, position,
        close_seconds=lambda: seconds_to_close(LOOK_SECONDS, live=candidate.live), progress=progress,
    )  # fmt: skip
    try:
        for batch, path in batches:
            if found := _first_error(batch, rules, session, path):
                sound, error = found
                return (int(sound.next_positions[-1]) if len(sound.index) else progress.end or position), error
    except WalError as error:
        cut_off = isinstance(error, WalTruncatedError | WalTornError)
        if cut_off and may_end_with(error, BrokenWals.STOP, live=candidate.live, newest=newest):  # type: ignore[arg-type]
            return progress.end or position, None
        if not is_broken(error):
            raise
        return progress.end or position, error
    return progress.end or position, None


def _first_error(batch: WalBatch, rules: FilterRules, session: Session, path: str) -> tuple[WalBatch, WalError] | None:
    """Return the entries before the first one that filters or sinks do not understand, and its error; None if there is none."""
    if not len(batch.index):
        return None
    try:
        bulk_loads_in(batch, filter_batch(batch, rules, path), rules, session.source, path)
    except WalError as error:
        if not is_broken(error):
            raise
        sound = batch.until(error.offset)
        return _first_error(sound, rules, session, path) or (sound, error)
    return None


def permit(session: Session, peer_id: str, damage: Damage, by: str) -> None:
    """Let batches give up what `look` has found. Raises Contention, ConnectError."""
    now = time.time()

    def changed(value: bytes | None) -> bytes:
        kept = {
            wal: each for wal, each in (decode_each(Permission, value) if value else {}).items() if now - each.time < KEPT_SECONDS
        }
        kept[damage.wal] = Permission(damage.begins, damage.ends, now, by)
        newest = sorted(kept.items(), key=lambda item: item[1].time)[-MAX_KEPT:]
        return encode({wal: asdict(each) for wal, each in newest})

    update(session.zk, session.own.given_up(peer_id), changed)


def permission_for(session: Session, peer_id: str, wal: str) -> Permission | None:
    """Return the permission to give up the rest of a WAL. Raises ConnectError."""
    znode = read(session.zk, session.own.given_up(peer_id))
    return decode_each(Permission, znode.value).get(wal) if znode is not None else None
