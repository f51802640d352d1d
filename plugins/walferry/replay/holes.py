"""Finds out which WALs of an interval are gone, as far as the remaining files show it.

Known:

- A WAL is gone if a queue names it and its file lies nowhere. Its name is known.
- A server's first WAL begins with the opening of a region. If a group's first remaining WAL begins with another entry, the WALs
  from the server's start, which its name contains, to that WAL are gone. Their names are not known.
- A server begins a WAL before it closes the one before it. If a WAL in oldWALs was last written well before the next remaining
  WAL was begun, the WALs between them are gone. Their names are not known.

Not known: that a server ran of which no file is left; that the newest WALs of a dead server are gone; and that WALs are missing
in the middle of an archive, which contains no copies of WALs without edits. And a first WAL may begin with an opening by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from walferry.base.errors import WalferryError
from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.replay.interval import Interval, moment

NOWHERE = "a queue names it, but its file is in none of WALs, oldWALs and the archive"
SKEW_MS = 30_000  # clocks may differ by this: HBase's own limit (hbase.master.maxclockskew)


@dataclass(frozen=True)
class Hole:
    """A time for which WALs of a group are gone. `wal` is the WAL that is gone, or empty if its name is not known."""

    group: str
    time: Interval
    why: str
    wal: str = ""

    def __str__(self) -> str:
        what = f"WAL {self.wal}" if self.wal else f"WALs of group {self.group}"
        return f"{what} with entries of {self.time}: gone: {self.why}"


class IntervalGone(WalferryError):
    """Some of the WALs of an interval are gone."""

    retry_helps = False


def holes_of(
    interval: Interval, first: WalFile | None, row: Sequence[WalFile], begins: Callable[[WalFile], bool | None]
) -> Iterator[Hole]:
    """Yield the holes of one group within the interval. `first` is the first known WAL of the group.

    `row` are the WALs around the interval, oldest first, with one before and one after it. `begins` returns whether a WAL begins
    with the opening of a region; None if it has no entry.
    """
    if first is not None:
        yield from _before(interval, first, row, begins)
    for wal, following in pairwise([*row, None]):
        if wal is None:
            continue
        end = interval.end if following is None else following.name.timestamp
        if wal.place is WalPlace.NOWHERE and (time := interval.overlap(wal.name.timestamp, end)):
            yield Hole(wal.name.group, time, NOWHERE, wal.name.text)
        if following and wal.modified is not None and wal.place is WalPlace.OLD and following.place is not WalPlace.ARCHIVE:
            yield from _between(interval, wal, wal.modified, following)


def _between(interval: Interval, wal: WalFile, closed: int, following: WalFile) -> Iterator[Hole]:
    begun = following.name.timestamp
    if closed + SKEW_MS < begun and (time := interval.overlap(closed, begun)):
        why = f"{wal.name} was closed at {moment(closed)}, and {following.name} is the next one that is known"
        yield Hole(wal.name.group, time, why)


def may_follow_others(interval: Interval, first: WalFile) -> Interval | None:
    """Return the part of the interval in which the server ran before it began the group's first known WAL."""
    server = first.name.server
    return None if server is None else interval.overlap(server.start_code, first.name.timestamp)


def _before(
    interval: Interval, first: WalFile, row: Sequence[WalFile], begins: Callable[[WalFile], bool | None]
) -> Iterator[Hole]:
    """Yield the hole between the server's start and the first known WAL."""
    if (time := may_follow_others(interval, first)) is None:
        return
    for wal in row:
        if wal.place is WalPlace.NOWHERE:
            break
        opening = begins(wal)
        if opening is not None:  # a WAL without an entry shows nothing
            if opening:
                return
            break
    server = first.name.server
    started = f"server {server} has run since {moment(server.start_code if server else 0)}"
    yield Hole(first.name.group, time, f"{started}, and {first.name} is the first one that is known")
