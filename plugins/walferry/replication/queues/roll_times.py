"""Says when RegionServers are to begin new WALs, so that edits do not wait in an open WAL for longer than peers allow.

An edit waits for its server's next roll, and then for the batch that ships the closed WAL. So servers roll once in half the time
that the peer with the smallest `max_lag` allows: the other half is the batch's. At these times each server is asked whether it
has written something since (see `needed_rolls`). If none has, nothing is announced, and no run begins.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from contextlib import suppress

from walferry.base.errors import WalferryError
from walferry.base.zk.errors import ConnectError
from walferry.hbase.errors import PeerError
from walferry.replication.peers.reading import Peer
from walferry.replication.queues import needed_rolls
from walferry.replication.source.session import Session, writing_session

DEFAULT_SECONDS = 300.0  # for peers without `max_lag`
MIN_SECONDS = 15.0
MAX_SECONDS = 3600.0  # HBase rolls each WAL within an hour by itself

log = logging.getLogger(__name__)


def seconds_between(peers: Collection[Peer]) -> float | None:
    """Return the seconds between two rolls for these peers; None without peers. A `max_lag` without sense counts as none."""
    return min(map(_seconds_of, peers), default=None)


class RollTimes:
    """When servers were looked at last, and when they are to be looked at again. Times are as time.monotonic counts them."""

    def __init__(self) -> None:
        self._last = -math.inf
        self._due: float | None = None

    def look(self, session: Session, peers: Collection[Peer], now: float) -> bool:
        """Return whether servers are to roll now. Only if it is time, servers are asked. Raises ConnectError.

        `peers` are those that may be shipped. What was found of servers that need no roll is noted: it bounds the peers' lag. If
        it cannot be found out who needs a roll, a batch is to roll: its task reports why that fails.
        """
        seconds = seconds_between(peers)
        self._due = None if seconds is None else self._last + seconds
        if seconds is None or now < self._last + seconds:
            return False
        try:
            choice = needed_rolls.choose(session)
            if not choice.needed:
                needed_rolls.note(writing_session(session.source, session.zk), choice, ())
            needed = bool(choice.needed)
        except ConnectError:
            raise
        except WalferryError as error:
            log.warning("which servers are to roll is not known: %s", error)
            needed = True
        self._last, self._due = now, now + seconds
        return needed

    def pause(self, now: float) -> float | None:
        """Return the seconds until the next look at servers; None if there are no peers."""
        return None if self._due is None else max(0.0, self._due - now)


def _seconds_of(peer: Peer) -> float:
    with suppress(PeerError):
        if peer.max_lag is not None:
            return min(max(peer.max_lag / 2, MIN_SECONDS), MAX_SECONDS)
    return DEFAULT_SECONDS
