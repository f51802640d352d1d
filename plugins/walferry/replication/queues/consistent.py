"""Reads queues consistently, although they may be moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from walferry.base.zk.client import read
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.source.session import Session

CONSISTENT_READ_TRIES = 20

T = TypeVar("T")


def looked_for(
    session: Session, look: Callable[[], T], both: Callable[[T, T], T], enough: Callable[[T], bool] = lambda found: False
) -> T:
    """Call `look` as `consistent` does; in the classic layouts call it twice, and merge the two results with `both`.

    In these layouts a queue is copied before it is deleted, and the child version does not change in between. A reader that looks
    only once may read each of the two places while the queue is at the other.
    """
    found = consistent(session, look, enough)
    return both(found, consistent(session, look, enough)) if session.nodes.locked and not enough(found) else found


def consistent(session: Session, look: Callable[[], T], enough: Callable[[T], bool] = lambda found: False) -> T:
    """Return the result of `look` once no queue moved during it, or as soon as `enough` accepts a result. Raises QueuesMoving."""
    before = _cversion(session)
    for _ in range(CONSISTENT_READ_TRIES):
        found = look()
        after = _cversion(session)
        if after == before or enough(found):
            return found
        before = after
    raise QueuesMoving(
        f"the queues under {session.nodes.queues} kept moving through {CONSISTENT_READ_TRIES} readings; try again later"
    )


def _cversion(session: Session) -> int | None:
    znode = read(session.zk, session.nodes.queues)
    return None if znode is None else int(znode.stat.cversion)
