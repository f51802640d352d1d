"""Looks at queues that may be moved meanwhile.

HBase moves a queue from a dead server to a live one in one multi that also bumps the cversion of replication/rs. A reader of more
than one queue reads that cversion before and after, and reads again when it has changed. Otherwise it could miss a queue that
moves, or see it twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from walferry.base.zk.client import read
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.source.session import Session

CONSISTENT_READ_TRIES = 20

T = TypeVar("T")


def looked_for(
    session: Session,
    look: Callable[[], T],
    both: Callable[[T, T], T],
    enough: Callable[[T], bool] = lambda found: False,
) -> T:
    """Call `look` as `consistent` does; in the classic layouts call it twice, and let `both` merge the findings.

    In these layouts a queue is copied before it is deleted, and the child version does not change in between. A reader that looks
    only once may look at each of the two places while the queue is at the other.
    """
    found = consistent(session, look, enough)
    return both(found, consistent(session, look, enough)) if session.nodes.locked and not enough(found) else found


def consistent(session: Session, look: Callable[[], T], enough: Callable[[T], bool] = lambda found: False) -> T:
    """What `look` finds while no queue moves, or what it finds if that is `enough`. Raises QueuesMoving."""
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
