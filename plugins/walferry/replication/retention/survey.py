"""Surveys oldWALs: its files, the queues that keep them from HBase's log cleaner, and for how long.

    <wal root>/oldWALs/<WAL>
    <wal root>/oldWALs/<server>/<WAL>    with hbase.separate.oldlogdir.by.regionserver

Each folder is listed once, in one call: HDFS answers with sizes and times, so no file needs a call of its own.

The cleaner deletes a WAL when its TTL is over (hbase.master.logcleaner.ttl after its last write) and no queue names it. So queues
block the cleaner, and behind each queue is a peer that is shipped slowly, is not shipped at all, or no longer exists.

The survey also forecasts when WALs that cannot be deleted will fill the disk. The rate comes from the WALs themselves: the queued
bytes written during the last day, or since the oldest held WAL if that is younger. At this rate oldWALs grows while its queues
stay blocked. HFiles and other users of the disk are not included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from walferry.base.zk.client import children
from walferry.hbase.errors import MasterSilent
from walferry.hbase.files.clients import scheme
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.space import Space, bytes_on_disk, space_at
from walferry.hbase.files.store import OLD_WALS, WalStore
from walferry.hbase.files.systems import FolderEntry, list_entries
from walferry.hbase.names import is_server_name
from walferry.replication.peers.reading import ENABLED, Peer
from walferry.replication.queues.queue import Queue
from walferry.replication.queues.reading import CVERSION, list_queues
from walferry.replication.source.agreement import master_peers
from walferry.replication.source.peers import read_peers
from walferry.replication.source.session import Session

_WAL = re.compile(r"(.+)\.(\d+)(\.[0-9A-Za-z]+)?")  # AbstractFSWALProvider.WAL_FILE_NAME_PATTERN: the cleaner's pattern
WINDOW_SECONDS = 86400.0
LEAST_SECONDS = 600.0  # a shorter history gives no reliable rate


@dataclass(frozen=True, slots=True)
class OldWal:
    """A file in oldWALs."""

    name: str
    size: int  # bytes
    modified: float  # its last write, in seconds since the epoch
    is_wal: bool  # whether its name is a WAL's; the Master also keeps its own files here


class Fate(StrEnum):
    """How the log cleaner treats a file."""

    HELD = "held by queues"
    YOUNG = "younger than the TTL"
    FREE = "free to be deleted"
    OTHER = "not a WAL"


class ShippedBy(StrEnum):
    """Which system has to ship a peer's queues."""

    HBASE = "HBase"
    WALFERRY = "Walferry"
    NOBODY = "nobody: it is DISABLED and not managed"
    PAUSED = "nobody: it is paused"
    GONE = "nobody: there is no such peer"


@dataclass(frozen=True, slots=True)
class SurveyedWal:
    """A file in oldWALs, with the queues that hold it."""

    wal: OldWal
    fate: Fate
    queues: tuple[Queue, ...]


@dataclass(slots=True)
class Amount:
    """A number of files, their bytes, and the last write to the oldest of them in seconds since the epoch."""

    files: int = 0
    bytes: int = 0
    oldest: float = float("inf")

    def add(self, wal: OldWal) -> None:
        """Count a file."""
        self.files += 1
        self.bytes += wal.size
        self.oldest = min(self.oldest, wal.modified)


@dataclass(slots=True)
class Blocker:
    """A peer whose queues contain WALs, and how much of oldWALs they hold."""

    peer_id: str
    shipped_by: ShippedBy
    queued: int = 0  # WALs in its queues, wherever their files lie
    held: Amount = field(default_factory=Amount)
    held_alone: Amount = field(default_factory=Amount)  # files that no other peer holds
    queues: dict[str, Amount] = field(default_factory=dict)  # by server and queue id, the largest first


@dataclass(frozen=True)
class Forecast:
    """How fast held WALs grow, how much space is left, and how long it lasts."""

    bytes_per_second: float | None = None  # None: the held WALs are too few or too young to say
    copies: float = 1.0  # bytes on the disks for each byte of a WAL
    space: Space | None = None
    problem: str = ""  # why the free space is not known

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the disk is full at this rate; None if that is unknown, or if nothing grows."""
        if self.space is None or not self.bytes_per_second:
            return None
        return self.space.remaining / (self.bytes_per_second * self.copies)

    @property
    def why_unknown(self) -> str:
        """Why `seconds_left` is unknown; empty if it is known."""
        if self.space is None:
            return self.problem
        if self.bytes_per_second is None:
            return "the files that queues keep are too few or too young to tell a rate"
        return "" if self.bytes_per_second else "the files that queues keep do not grow"


@dataclass(frozen=True)
class OldWalSurvey:
    """The files of oldWALs at one moment, the peers that hold some, and how long the space lasts.

    If oldWALs could not be listed, `problem` says why, and nothing else is known.
    """

    at: float  # seconds since the epoch
    problem: str = ""
    ttl_seconds: float = 0.0
    amounts: Mapping[Fate | None, Amount] = field(default_factory=dict)  # None: of all files
    blockers: Sequence[Blocker] = ()  # the peer that holds most first
    forecast: Forecast = field(default_factory=Forecast)
    wals: Sequence[SurveyedWal] = ()
    not_servers: Collection[str] = ()  # children of replication/rs that stop the cleaner

    def amount(self, fate: Fate | None = None) -> Amount:
        """Return the amount of all files, or of the files with this fate."""
        return self.amounts.get(fate, Amount())

    def blocked_seconds(self, held: Amount) -> float:
        """Return for how long the oldest of these files has been kept beyond its TTL."""
        return max(0.0, self.at - held.oldest - self.ttl_seconds)


def list_old_wals(store: WalStore) -> list[OldWal]:
    """List all files in oldWALs. Raises StoreError, in particular WrongRoot if no cluster keeps its WALs there."""
    store.check_root()
    folder = f"{store.root}/{OLD_WALS}"
    entries = list_entries(folder)
    found = list(_files(entries))
    for entry in entries:
        if entry.is_folder and is_server_name(entry.name):
            found += _files(list_entries(f"{folder}/{entry.name}"))
    return found


def survey(session: Session, ttl_seconds: float, clock: Callable[[], float]) -> OldWalSurvey:
    """Survey oldWALs. Raises StoreError, StorageError, QueuesMoving, ConnectError.

    Files are listed before the queues are read, so a WAL that is archived meanwhile does not count as free.
    """
    now = clock()
    files = list_old_wals(session.store)
    queues = list_queues(session)
    names = children(session.zk, session.nodes.queues) or ()
    not_servers = [name for name in names if not is_server_name(name) and not name.startswith(CVERSION)]
    return surveyed(now, ttl_seconds, session.store, files, queues, _peers(session), not_servers)


def surveyed(
    at: float,
    ttl_seconds: float,
    store: WalStore,
    files: Sequence[OldWal],
    queues: Sequence[Queue],
    peers: Mapping[str, Peer],
    not_servers: Collection[str] = (),
) -> OldWalSurvey:
    """Survey these files, and the queues that may hold them. The files were listed `at` this time, in s since the epoch."""
    holders = _by_wal(queues)
    wals = [_surveyed(wal, holders.get(wal.name, ()), at - ttl_seconds) for wal in files]
    amounts: dict[Fate | None, Amount] = {None: Amount()}
    for each in wals:
        amounts[None].add(each.wal)
        amounts.setdefault(each.fate, Amount()).add(each.wal)
    until_full = forecast(store, [each.wal for each in wals if each.fate is Fate.HELD], at)
    return OldWalSurvey(at, "", ttl_seconds, amounts, _blockers(wals, queues, peers), until_full, wals, not_servers)


def forecast(store: WalStore, held: Iterable[OldWal], now: float) -> Forecast:
    """Forecast how long the disk under oldWALs lasts while the `held` WALs are kept. The free space may stay unknown."""
    rate = rate_of(held, now)
    try:
        return Forecast(rate, _copies(store), space_at(store.root))
    except StoreError as error:
        return Forecast(rate, 1.0, None, str(error))


def rate_of(held: Iterable[OldWal], now: float) -> float | None:
    """Return the bytes a second that were written to these WALs; None if there is too little data."""
    wals = [wal for wal in held if wal.modified <= now]
    since = max(now - WINDOW_SECONDS, min((wal.modified for wal in wals), default=now))
    if now - since < LEAST_SECONDS:
        return None
    # WALs that were finished before `since` contain the earlier writes.
    return sum(wal.size for wal in wals if wal.modified > since) / (now - since)


def _copies(store: WalStore) -> float:
    if scheme(store.root) == "file":
        return 1.0
    try:
        length, used = bytes_on_disk(f"{store.root}/{OLD_WALS}")
    except FileNotFoundError:  # no WAL was ever archived
        return 1.0
    return used / length if length else 1.0


def _by_wal(queues: Sequence[Queue]) -> dict[str, tuple[Queue, ...]]:
    """Map each WAL's name to the queues that hold it. The cleaner may delete WALs that no queue holds.

    HBase's first cleaner searched queue after queue until it found the WAL, kept the names that it had read in a cache, and
    searched the cache first the next time (ReplicationLogCleaner). Since HBASE-12865 the cleaner reads the names of all queues
    once for each cleaning, as of one moment (ReplicationQueueStorage.getAllWALs). This map is the cache, made from one consistent
    reading: each queue's names are read once, however many WALs are looked up.
    """
    found: dict[str, tuple[Queue, ...]] = {}
    for queue in queues:
        for wal in queue.wals:
            found[wal.name.text] = (*found.get(wal.name.text, ()), queue)
    return found


def _files(entries: Iterable[FolderEntry]) -> Iterable[OldWal]:
    for entry in entries:
        if not entry.is_folder:
            yield OldWal(entry.name, entry.size, entry.modified or 0.0, _WAL.fullmatch(entry.name) is not None)


def _surveyed(wal: OldWal, queues: tuple[Queue, ...], ttl_began: float) -> SurveyedWal:
    if not wal.is_wal:
        return SurveyedWal(wal, Fate.OTHER, ())
    if queues:
        return SurveyedWal(wal, Fate.HELD, queues)
    return SurveyedWal(wal, Fate.FREE if wal.modified < ttl_began else Fate.YOUNG, ())


def _blockers(wals: Sequence[SurveyedWal], queues: Sequence[Queue], peers: Mapping[str, Peer]) -> list[Blocker]:
    found: dict[str, Blocker] = {}
    for queue in queues:
        peer_id = queue.id.peer_id
        blocker = found.setdefault(peer_id, Blocker(peer_id, _shipped_by(peers.get(peer_id))))
        blocker.queued += len(queue.wals)
    for each in wals:
        holding = {queue.id.peer_id for queue in each.queues}
        for peer_id in holding:
            found[peer_id].held.add(each.wal)
            if len(holding) == 1:
                found[peer_id].held_alone.add(each.wal)
        for queue in each.queues:
            found[queue.id.peer_id].queues.setdefault(f"{queue.server}/{queue.id}", Amount()).add(each.wal)
    for blocker in found.values():
        blocker.queues = dict(sorted(blocker.queues.items(), key=lambda each: (-each[1].bytes, each[0])))
    return sorted((blocker for blocker in found.values() if blocker.queued), key=lambda each: (-each.held.bytes, each.peer_id))


def _shipped_by(peer: Peer | None) -> ShippedBy:
    if peer is None:
        return ShippedBy.GONE
    if peer.state == ENABLED:
        return ShippedBy.HBASE
    if not peer.managed:
        return ShippedBy.NOBODY
    return ShippedBy.PAUSED if peer.paused else ShippedBy.WALFERRY


def _peers(session: Session) -> Mapping[str, Peer]:
    """Return the peers as the Master knows them; from ZooKeeper if the Master is silent or too old to be asked."""
    try:
        known = master_peers(session)
    except MasterSilent:
        known = None
    return known if known is not None else {peer.id: peer for peer in read_peers(session).peers}
