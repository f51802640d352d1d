"""The fence that a peer's state is: a write passes only while the peer stays DISABLED.

With peers in ZooKeeper it is the version of HBase's `peer-state`, which each multi checks: no write passes once the peer is
enabled. With peers in files it is the version of a znode of our own,

    <root>/peer-states/<quoted znode parent>/<quoted peer>     Period as JSON: which period of being DISABLED was seen last

HBase deletes the file `disabled` to enable a peer, and creates it anew to disable the peer: the file's time names the period.
Whoever looks at the file writes the znode if it differs, so the version grows, and every other holder's next write is refused. A
guard looks before its first write, and before a later one unless it has looked within LOOK_SECONDS. So a write may still pass for
about that time after the peer was enabled, when the Master has made RegionServers ship. It loses nothing: docs/peers.md says what
it may do.

The znode also stands for the life of a peer in files. Our records from before its last change count as those of another peer:
it may have been enabled, or removed and added again.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

from walferry.base.records import Record
from walferry.base.zk.client import ZNode, read
from walferry.base.zk.fenced_lock import Guard
from walferry.base.zk.records import decode_or_none, encode, update
from walferry.hbase.errors import EnabledPeer, MissingPeer, PeerError
from walferry.hbase.peer_files import disabled_since
from walferry.hbase.values import decode_state
from walferry.replication.peers.reading import DISABLED, ENABLED_ADVICE
from walferry.replication.source.peers import has_peer, place_of
from walferry.replication.source.session import Session

LOOK_SECONDS = 1.0
CLOCK_SECONDS = 30.0  # between the clocks of a file system and ZooKeeper; HBase refuses servers that differ by more


@dataclass(frozen=True)
class Period(Record):
    """A period of being DISABLED, by the file system's clock; None while the peer is ENABLED or gone."""

    disabled_ms: int | None = None


def disabled_guard(session: Session, peer_id: str) -> Guard:
    """Make a guard that lets writes pass only while the peer stays DISABLED.

    Raises MissingPeer, EnabledPeer, ZNodeValueError, StoreError.
    """
    state = _disabled(session, peer_id)

    def broken() -> PeerError:
        try:
            _disabled(session, peer_id)
        except PeerError as error:
            return error
        return EnabledPeer(
            peer_id,
            "its state changed during the work on it, so RegionServers may have begun to ship it themselves",
            "Leave it disabled and restart the RegionServers before shipping it again",
        )

    return Guard(state_path(session, peer_id), int(state.stat.version), broken, _Looks(session, peer_id))


def state_path(session: Session, peer_id: str) -> str:
    """Return the znode whose version is the fence."""
    return session.nodes.peer_state(peer_id) if session.source.peers_root is None else session.own.peer_state(peer_id)


def look(session: Session, peer_id: str) -> None:
    """Note the present state of a peer in files, so that writes that depend on another one are refused.

    With peers in ZooKeeper, the fence needs no look. Raises StoreError, Contention, ConnectError.
    """
    root = session.source.peers_root
    if root is None:
        return

    def present(value: bytes | None) -> bytes | None:
        # Called after the znode was read: an older look never overwrites what a newer one has noted.
        seen = None if value is None else decode_or_none(Period, value)
        now = Period(disabled_since(root, peer_id))
        return None if now == (seen if value is not None else Period()) else encode(now)

    update(session.zk, session.own.peer_state(peer_id), present)


def seconds_disabled(session: Session, peer_id: str, clock: ZNode) -> float:
    """Return for how many seconds at least the peer has been DISABLED; infinity if it always was, or is gone.

    `clock` is a znode that was just written. With peers in files nothing shows that a peer was never ENABLED. The file's time is
    by another clock, so CLOCK_SECONDS are taken off, until Walferry has known of this period for long enough.
    """
    look(session, peer_id)
    state = read(session.zk, state_path(session, peer_id))
    if state is None:
        return math.inf
    known = float(clock.stat.mtime - state.stat.mtime) / 1000
    if session.source.peers_root is None:
        return known if state.stat.version else math.inf
    period = decode_or_none(Period, state.value)
    if period is None or period.disabled_ms is None:
        return math.inf
    return max(known, float(clock.stat.mtime - period.disabled_ms) / 1000 - CLOCK_SECONDS)


def was_enabled(session: Session, peer_id: str) -> bool:
    """Return whether a DISABLED peer was ENABLED since it was added; with peers in files, since Walferry saw it first."""
    look(session, peer_id)
    state = read(session.zk, state_path(session, peer_id))
    return state is not None and state.stat.version > 0


def added_by(session: Session, peer_id: str) -> int | None:
    """Return the id of the transaction since which there is this peer; None if there is none.

    With peers in files: since which Walferry knows of its present state. 0: it has not looked yet.
    """
    if session.source.peers_root is None:
        znode = read(session.zk, session.nodes.peer(peer_id))
        return znode and int(znode.stat.czxid)
    if not has_peer(session, peer_id):
        return None
    seen = read(session.zk, session.own.peer_state(peer_id))
    return int(seen.stat.mzxid) if seen else 0


def _disabled(session: Session, peer_id: str) -> ZNode:
    """Return the znode that is the fence. Raises MissingPeer, EnabledPeer, ZNodeValueError, StoreError."""
    look(session, peer_id)
    path = state_path(session, peer_id)
    znode = read(session.zk, path)
    if session.source.peers_root is not None:
        period = znode and decode_or_none(Period, znode.value)
        state = DISABLED if period and period.disabled_ms is not None else "ENABLED" if has_peer(session, peer_id) else None
        path = place_of(session, peer_id)
    else:
        state = decode_state(znode.value, path) if znode else None
    if state is None:
        raise MissingPeer(peer_id, f"there is no {path}", "It was removed, or was never added")
    if state != DISABLED or znode is None:
        raise EnabledPeer(peer_id, f"it is {state}, so its RegionServers ship it themselves", ENABLED_ADVICE)
    return znode


class _Looks:
    """Looks at a peer's state, the first time and then at most every LOOK_SECONDS. May be called from any thread."""

    def __init__(self, session: Session, peer_id: str) -> None:
        self._session = session
        self._peer_id = peer_id
        self._lock = threading.Lock()
        self._last = -math.inf

    def __call__(self) -> None:
        with self._lock:
            began = time.monotonic()
            if began - self._last >= LOOK_SECONDS:
                look(self._session, self._peer_id)
                self._last = began
