"""Waits until no run ships a peer's queues any more, before an initial snapshot of the peer begins.

Recoveries of dead servers ship side by side with batches, without holding the peer lock, and tasks of a batch may outlive its
driver. If they shipped older edits after the copy, these would lie over it. A task that ships a group holds the group's lease,
and then checks whether a copy is under way (shipping/group.py). So a copy first notes that it is under way. Then it waits for
each lease that is held, and for requests that may still take effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import unquote

from walferry.base.zk.client import children
from walferry.base.zk.right import NEVER
from walferry.base.zk.session_time import now
from walferry.replication.queues.errors import LeaseHeld
from walferry.replication.queues.lease import acquire
from walferry.replication.source.session import Session

LOOK_SECONDS = 1.0
TOLD_SECONDS = 1.0  # shorter waits are not reported


def await_quiet(session: Session, peer_id: str, holder: str, waiting: Callable[[str], object], wait_seconds: float) -> None:
    """Wait until no lease on the peer's groups is held, and until their last holders' requests cannot take effect any more.

    `waiting` gets the reason for the wait. Raises LeaseHeld after `wait_seconds`, EnabledPeer, MissingPeer, ConnectError.
    """
    give_up, quiet_at, told = time.monotonic() + wait_seconds, NEVER, ""
    left = [unquote(name) for name in children(session.zk, session.own.leases(peer_id)) or ()]
    while left:
        held = []
        for group in left:
            try:
                with acquire(session, peer_id, group, holder) as lease:
                    quiet_at = max(quiet_at, now() + lease.right.quiet_seconds)
            except LeaseHeld as error:
                held.append((group, error))
        if held and time.monotonic() > give_up:
            raise held[0][1]
        if held and (why := str(held[0][1])) != told:
            told = why
            waiting(told)
        left = [group for group, _ in held]
        time.sleep(LOOK_SECONDS if held else 0)
    if (seconds := quiet_at - now()) > 0:
        if seconds >= TOLD_SECONDS:
            waiting(f"requests of an earlier run that had no answer may take effect for {seconds:.0f} s more")
        time.sleep(seconds)
