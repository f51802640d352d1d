"""Finds the time up to which a peer cluster has all edits of the source: the peer is valid through that time.

A group is valid through the begin of its oldest WAL that is not known to be shipped (queues/queue.py). A peer is valid through
the earliest of its groups' times. Groups of dead servers count as long as their queues have WALs.

A server that writes nothing that a peer may want is not rolled by batches, but by HBase, each hour. What batches know of such a
server (needed_rolls.py) is no proof here: they do not notice edits of a region that came and went between two of their looks.

The times are of the source's clocks. Time stamps that clients have chosen do not count, nor do WALs that went into quarantine:
nobody waits for their edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from walferry.observe.status.files import FilesSeen, Read
from walferry.replication.queues.queue import QueuedWal, edits_through

if TYPE_CHECKING:
    from walferry.observe.status.model import QueueStatus

_SHIPPED = Read(None)  # the WAL is closed, and nothing is behind the position


def valid_through(wals: Sequence[QueuedWal], closed: int, files: FilesSeen | None, now_ms: int) -> int:
    """Return the time up to which the peer cluster has a group's edits, in ms since the epoch.

    The first `closed` of its WALs can be shipped.
    """
    for number, wal in enumerate(wals):
        position = wal.position_or_problem
        known = files.read_at(wal.name.text, position) if files is not None and isinstance(position, int) else None
        if number >= closed or known != _SHIPPED:
            return edits_through(min(wal.name.timestamp, now_ms))
    return edits_through(now_ms)


def through_all(queues: Sequence[QueueStatus], now_ms: int) -> int:
    """Return the time up to which the peer cluster has all edits of a peer's queues, which are all that the peer has."""
    return min([edits_through(now_ms), *(group.valid_through_ms for queue in queues for group in queue.groups)])
