"""Holds all rights to send a peer's edits to its peer cluster.

    the peer lock       batches, initial snapshots, repairs        replication/locks/peer_lock.py
    leases              runs that ship or load a WAL group         replication/queues/lease.py
    group locks         tasks that ship an interval again          replay/group_lock.py

Tasks of initial snapshots and repairs send rows while their run holds the peer lock (replication/locks/peer_lock.py).

A holder of all rights sends nothing, and waits until no request of earlier holders can take effect any more (base/zk/right.py).
From then on no edit of the peer reaches the peer cluster.

Before that the peer must be paused, or gone. A run that takes a right looks at the peer afterwards, and sends nothing for a peer
that is paused or gone. So no run sends by a right that is taken later or is new, as for a WAL group that is just being queued.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from walferry.admin.peers import PeerAdmin, Refused
from walferry.base.zk.client import children, children_all
from walferry.base.zk.fenced_lock import CALLS, FencedLock, read_record
from walferry.base.zk.session_time import now
from walferry.replay import group_lock
from walferry.replication.locks import peer_lock
from walferry.replication.locks.peer_lock import PeerLocked
from walferry.replication.queues import lease
from walferry.replication.queues.errors import LeaseHeld
from walferry.replication.queues.reading import queued_groups
from walferry.replication.source.session import Session

WAIT_SECONDS = 30.0  # for killed holders, whose sessions have ended by then, and for holders that are just ending
TRY_AGAIN = "Try again once that has ended; what was killed lets go within half a minute"

log = logging.getLogger(__name__)


class PeerHeld(Refused):
    """A run that ships the peer holds a right."""

    retry_helps = True


@dataclass(frozen=True)
class AllRights:
    """All rights to send for a peer that is paused or gone."""

    admin: PeerAdmin
    peer_id: str
    groups: tuple[str, ...]  # the WAL groups that have leases
    locks: tuple[FencedLock, ...]

    def await_quiet(self) -> None:
        """Wait until no request of earlier holders can take effect any more, and log how long. Raises as `check`."""
        seconds = max(lock.quiet_at for lock in self.locks) - now()
        if seconds > 0:
            log.info(
                "peer %s: waiting %.0f s: requests of a run that was killed or cut short may still take effect at the peer "
                "cluster",
                self.peer_id, seconds,
            )  # fmt: skip
            self.admin.sleep(seconds)
        peer_lock.await_rows(self.admin.session, self.peer_id)
        self.check()

    def check(self) -> None:
        """Check that all rights are still held. Raises LeaseLost, RightLost, ConnectError."""
        for lock in self.locks:
            lock.write(lambda multi: None)


def refuse_if_held(session: Session, peer_id: str) -> None:
    """Raise PeerHeld, naming the holder, if one of the rights is held now."""
    paths = [lock.path for lock in (peer_lock.lock_of(session, peer_id), *_others(session, peer_id, _groups(session, peer_id)))]
    for path, holders in zip(paths, children_all(session.zk, paths), strict=True):
        if holders:
            record = read_record(session.zk, path)
            holder, since = record.get("holder", "another run"), record.get("since", "an unknown time")
            raise PeerHeld(f"peer {peer_id} is in the hands of {holder}, since {since}", TRY_AGAIN)


@contextmanager
def all_rights(admin: PeerAdmin, peer_id: str, holder: str) -> Iterator[AllRights]:
    """Hold all rights of a paused or removed peer while the block runs. Raises PeerHeld, naming a holder that does not let go."""
    session = admin.session
    taken: list[FencedLock] = []
    try:
        _take(admin, peer_lock.lock_of(session, peer_id), holder, taken)
        # Listed only now: a read after our own write sees every right that was taken before the peer was paused.
        groups = _groups(session, peer_id)
        for lock in _others(session, peer_id, groups):
            _take(admin, lock, holder, taken)
        yield AllRights(admin, peer_id, groups, tuple(taken))
    finally:
        for lock in taken:
            lock.release()


def _groups(session: Session, peer_id: str) -> tuple[str, ...]:
    """Return the WAL groups that are queued, and the groups that have had a holder."""
    held = {unquote(name) for name in children(session.zk, session.own.leases(peer_id)) or ()}
    return tuple(sorted(held | queued_groups(session, peer_id)))


def _others(session: Session, peer_id: str, groups: tuple[str, ...]) -> list[FencedLock]:
    """Return all rights except the peer lock."""
    return [*(lease.lock_of(session, peer_id, group) for group in groups), *group_lock.locks_of(session, peer_id)]


def _take(admin: PeerAdmin, lock: FencedLock, holder: str, taken: list[FencedLock]) -> None:
    def look() -> set[str]:
        try:
            lock.acquire(holder, **{CALLS: "0.0"})
        except (LeaseHeld, PeerLocked) as error:
            return {str(error)}
        taken.append(lock)
        return set()

    if held := admin.await_none(look, WAIT_SECONDS):
        raise PeerHeld(held.pop(), TRY_AGAIN)
