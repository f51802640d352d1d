"""What a replication queue contains: WALs with their positions, in groups.

A WAL's name has the time at which its file was begun, and edits are younger than their file. But an edit gets its time before it
is written: it may wait for its row's lock for 30 seconds (hbase.rowlock.wait.duration), or for a roll. So all edits are shipped
up to a minute before the begin of the oldest WAL that is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

from walferry.base.zk.errors import AnswerTooLong
from walferry.hbase.errors import PositionError
from walferry.hbase.names import QueueId, WalName, parse_wal_name

EARLIER_MS = 60_000


def edits_through(begun_ms: int) -> int:
    """Return the time (ms since the epoch) up to which all edits are shipped, if the oldest WAL that is left was begun at
    `begun_ms`, or if none was left then."""
    return max(0, begun_ms - EARLIER_MS)


class QueuedWal(NamedTuple):
    """A WAL in a queue."""

    name: WalName
    path: str  # the WAL's znode when it was read; HBase may have moved it since
    position_or_problem: int | PositionError | None  # None: the position was not read
    version: int | None = None  # of the znode, if its position was read
    set_ms: int | None = None  # when the position was set or the WAL queued, by ZooKeeper's clock; None as for `version`

    @property
    def position(self) -> int:
        """Byte offset just after the last shipped entry, 0 at the beginning. Raises PositionError if it cannot be parsed."""
        if isinstance(self.position_or_problem, PositionError):
            raise self.position_or_problem
        if self.position_or_problem is None:
            raise ValueError(f"the position in {self.path} was not read")
        return self.position_or_problem


@dataclass(frozen=True, slots=True)
class NamedWals(Sequence[QueuedWal]):
    """A queue's WALs, made from their names when asked for: people are shown few of all queued WALs."""

    path: str  # the queue's znode
    names: Sequence[str]
    begun: Mapping[str, QueuedWal]  # by znode; all other WALs are at position 0

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> QueuedWal: ...
    @overload
    def __getitem__(self, at: slice) -> NamedWals: ...
    def __getitem__(self, at: int | slice) -> QueuedWal | NamedWals:
        return NamedWals(self.path, self.names[at], self.begun) if isinstance(at, slice) else self._made(self.names[at])

    def __iter__(self) -> Iterator[QueuedWal]:
        return map(self._made, self.names)

    def _made(self, name: str) -> QueuedWal:
        path = f"{self.path}/{name}"
        return self.begun.get(path) or QueuedWal(parse_wal_name(name), path, 0)


@dataclass(frozen=True, slots=True)
class Queue:
    """One peer's WALs at one server, sorted by group and then by age, oldest first."""

    server: str
    id: QueueId
    path: str
    wals: Sequence[QueuedWal]
    server_is_live: bool
    problems: tuple[str, ...] = ()  # children that are not WALs
    unread: AnswerTooLong | None = None  # why its WALs could not be listed; `wals` is empty then
    in_table: bool = False  # HBase 3 keeps it in a table, which does not name its WALs

    @property
    def live(self) -> bool:
        """Whether the server runs and still adds WALs; a queue that came from a dead server gets none."""
        return self.server_is_live and not self.id.recovered

    def of_group(self, group: str) -> Queue:
        """Return the queue with the WALs of one group only."""
        return replace(self, wals=tuple(wal for wal in self.wals if wal.name.group == group))


@dataclass(frozen=True)
class QueuePlace:
    """Where a WAL group was seen."""

    server: str
    queue_id: str
    wals: int  # how many WALs of the group were queued there
    live: bool  # whether the server was adding WALs
    names: tuple[str, ...] = ()  # of the WALs, if the queue is in a table, which does not name them


def groups(queue: Queue) -> dict[str, Sequence[QueuedWal]]:
    """Return the queue's WALs by WAL group, oldest first."""
    found: dict[str, Sequence[QueuedWal]] = {}
    rest = queue.wals
    while rest:
        group = rest[0].name.group
        end = len(rest) if rest[-1].name.group == group else bisect_right(rest, group, key=lambda wal: wal.name.group)
        found[group], rest = rest[:end], rest[end:]
    return found


def closed_groups(queue: Queue) -> dict[str, Sequence[QueuedWal]]:
    """Return the queue's closed WALs by WAL group, oldest first. A live server still writes to each group's newest WAL."""
    return {group: wals[:-1] if queue.live else wals for group, wals in groups(queue).items()}


def positions(wals: Sequence[QueuedWal]) -> Iterator[tuple[str, int | PositionError | None]]:
    """Yield the names of WALs with their positions, or why a position cannot be parsed. Makes no objects for NamedWals."""
    if isinstance(wals, NamedWals):
        for name in wals.names:
            begun = wals.begun.get(f"{wals.path}/{name}")
            yield name, begun.position_or_problem if begun else 0
    else:
        for wal in wals:
            yield wal.name.text, wal.position_or_problem
