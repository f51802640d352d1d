"""What lies in oldWALs, whose queues keep it from HBase's log cleaner, and when the disk is full.

Listing oldWALs costs a call that answers with each of its files, so this is a look of its own, which is made less often than a
pass. It takes the queues of one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.hbase.files.store import WalStore
from walferry.observe.status.view import ZooKeeperView
from walferry.replication.retention.forecast import Forecast, forecast
from walferry.replication.retention.old_wals import list_old_wals
from walferry.replication.retention.survey import Blocker, Fate, OldWalSurvey, surveyed

TTL_SECONDS = 600.0  # the default of hbase.master.logcleaner.ttl
MAX_QUEUES = 20  # of one peer: those that keep most
MAX_PROBLEM_CHARS = 1000


@dataclass(frozen=True, slots=True)
class KeptWals:
    """A number of files in oldWALs and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeptByQueue:
    """What one queue keeps there."""

    queue: str  # server/queue id
    kept: KeptWals


@dataclass(frozen=True, slots=True)
class Keeper:
    """A peer whose queues keep files there. Peers may keep the same ones; `alone` counts those that no other peer keeps."""

    peer_id: str
    shipped_by: str
    kept: KeptWals
    alone: KeptWals
    oldest_ms: int | None  # the last write to the oldest of them
    queues: tuple[KeptByQueue, ...]
    queues_left_out: int


@dataclass(frozen=True, slots=True)
class OldWalsStatus:
    """The files in oldWALs. If they cannot be listed, `problem` says why, and nothing else is known."""

    at_ms: int
    problem: str | None
    all: KeptWals | None = None
    held: KeptWals | None = None  # by queues
    keepers: tuple[Keeper, ...] = ()
    bytes_per_second: float | None = None  # by which the held files grow
    capacity: int | None = None  # of the file system, in bytes on its disks
    remaining: int | None = None
    full_ms: int | None = None  # when the disk is full, if the held files go on growing so
    forecast_problem: str | None = None  # why some of these four are not known


def look_at_old_wals(store: WalStore, seen: ZooKeeperView, ttl_seconds: float = TTL_SECONDS) -> OldWalsStatus:
    """List oldWALs, and find what keeps its files in the queues of a pass. What goes wrong is told as `problem`.

    A file that was archived since the pass was queued then, because servers queue their WALs before they use them.
    """
    at = time.time()
    if seen.queues is None:
        return OldWalsStatus(int(at * 1000), "the queues cannot be read")
    try:
        files = list_old_wals(store)
    except (WalferryError, OSError) as error:
        return OldWalsStatus(int(at * 1000), one_line(str(error), MAX_PROBLEM_CHARS))
    peers = {peer_id: peer for peer_id, peer in (seen.peers or {}).items() if peer is not None}
    found = surveyed(at, ttl_seconds, files, seen.queues, peers)
    return _status(found, forecast(store, [each.wal for each in found.wals if each.fate is Fate.HELD], at))


def _status(found: OldWalSurvey, of: Forecast) -> OldWalsStatus:
    every, held = found.amount(), found.amount(Fate.HELD)
    left = of.seconds_left
    return OldWalsStatus(
        at_ms=int(found.at * 1000),
        problem=None,
        all=KeptWals(every.files, every.bytes),
        held=KeptWals(held.files, held.bytes),
        keepers=tuple(_keeper(blocker) for blocker in found.blockers if blocker.held.files),
        bytes_per_second=of.bytes_per_second,
        capacity=of.space.capacity if of.space else None,
        remaining=of.space.remaining if of.space else None,
        full_ms=None if left is None else int((found.at + left) * 1000),
        forecast_problem=_problem(of),
    )


def _problem(of: Forecast) -> str | None:
    if of.space is None:
        return one_line(of.problem, MAX_PROBLEM_CHARS)
    if of.bytes_per_second is None:
        return "the files that queues keep are too few or too young to tell a rate"
    return None if of.bytes_per_second else "the files that queues keep do not grow"


def _keeper(blocker: Blocker) -> Keeper:
    queues = sorted(blocker.queues.items(), key=lambda each: (-each[1].bytes, each[0]))
    return Keeper(
        peer_id=blocker.peer_id,
        shipped_by=str(blocker.shipped_by),
        kept=KeptWals(blocker.held.files, blocker.held.bytes),
        alone=KeptWals(blocker.held_alone.files, blocker.held_alone.bytes),
        oldest_ms=int(blocker.held.oldest * 1000),
        queues=tuple(KeptByQueue(name, KeptWals(kept.files, kept.bytes)) for name, kept in queues[:MAX_QUEUES]),
        queues_left_out=max(0, len(queues) - MAX_QUEUES),
    )
