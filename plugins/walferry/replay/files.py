"""Finds the WALs that can contain entries of an interval, and the WALs that are gone.

A WAL is named after the time at which its server began it. It contains the entries from then until the server began the next WAL
of the group, give or take some minutes. While HDFS hangs, appended entries wait, and are written to the next WAL once that has
begun. If a roll hangs, the next WAL is named already, but entries still go to the WAL before. So files are also taken from beyond
both ends of the interval, and each entry's own write time decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.names import ServerName
from walferry.replay.holes import SKEW_MS, Hole, holes_of, may_follow_others
from walferry.replay.interval import Interval

SLACK_MS = 300_000  # a RegionServer gives up an entry that HDFS does not take by then (hbase.regionserver.wal.sync.timeout)
OPEN_SLACK_MS = 10_000  # an open WAL begun later than this after the interval is not waited for: HDFS rarely hangs


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """The WALs of one group that can contain entries of the interval, oldest first."""

    group: str
    server: ServerName | None
    wals: tuple[WalFile, ...]
    torn: str = ""  # the newest WAL of a dead server, whose death may have cut off the last entry

    @property
    def bytes(self) -> int:
        """The bytes of the files, as far as they are known."""
        return sum(wal.size for wal in self.wals)


@dataclass(frozen=True)
class FoundWals:
    """The WALs that are left of an interval, the holes in it, and WALs with its entries that are still open."""

    groups: tuple[GroupFiles, ...]
    holes: tuple[Hole, ...]
    open: tuple[WalFile, ...]

    @property
    def wals(self) -> int:
        """The number of WALs to read."""
        return sum(len(group.wals) for group in self.groups)

    @property
    def bytes(self) -> int:
        """The bytes of the WALs."""
        return sum(group.bytes for group in self.groups)


@dataclass(slots=True)
class Around:
    """A group's WALs around an interval: the WALs within it, the last one before, the first one after, and the very first one."""

    first: WalFile | None = None
    before: WalFile | None = None
    within: dict[str, WalFile] = field(default_factory=dict)
    after: WalFile | None = None
    newest: int = 0  # the timestamp of the group's newest WAL

    def add(self, wal: WalFile, interval: Interval) -> None:
        """Keep the WAL if it matters. If it was found twice, the better place counts."""
        begun = wal.name.timestamp
        self.newest = max(self.newest, begun)
        self.first = _chosen(self.first, wal, begun, lambda new, old: new < old)
        if begun <= interval.start - SLACK_MS:
            self.before = _chosen(self.before, wal, begun, lambda new, old: new > old)
        elif begun >= interval.end + SLACK_MS:
            self.after = _chosen(self.after, wal, begun, lambda new, old: new < old)
        else:
            other = self.within.get(wal.name.text)
            self.within[wal.name.text] = wal if other is None or wal.place > other.place else other

    @property
    def row(self) -> list[WalFile]:
        """The WALs from the one before the interval to the one after it, oldest first."""
        within = sorted(self.within.values(), key=lambda wal: wal.name.timestamp)
        return [*filter(None, [self.before]), *within, *filter(None, [self.after])]


def around(wals: Iterable[WalFile], interval: Interval) -> Mapping[str, Around]:
    """Return the WALs that matter, by group. Keeps few WALs, however many there are."""
    groups: dict[str, Around] = {}
    for wal in wals:
        groups.setdefault(wal.name.group, Around()).add(wal, interval)
    return groups


def found_of(
    groups: Mapping[str, Around], interval: Interval, live: frozenset[ServerName], begins: Callable[[WalFile], bool | None]
) -> FoundWals:
    """Return the WALs that are left of an interval, and the holes, from the WALs that `around` kept.

    `live` are the servers that run now, `begins` is as in `holes_of`.
    """
    found, holes, unclosed = [], list[Hole](), list[WalFile]()
    for group, wals in sorted(groups.items()):
        row = wals.row
        server = row[0].name.server if row else None
        newest = row[-1] if row and row[-1].name.timestamp == wals.newest else None
        needed = [wal for wal in row if wal is not wals.after and wal.place is not WalPlace.NOWHERE and _may_hold(wal, interval)]
        if newest and newest.place is WalPlace.SERVER and server in live:
            if newest is row[0] and may_follow_others(interval, newest):
                unclosed.append(newest)  # only a closed file surely shows how it begins
                continue
            if newest in needed:
                needed.pop()
                if newest.name.timestamp < interval.end + OPEN_SLACK_MS:
                    unclosed.append(newest)
        holes += holes_of(interval, wals.first, row, begins)
        if needed:
            torn = needed[-1].name.text if needed[-1] is newest and server not in live else ""
            found.append(GroupFiles(group, server, tuple(needed), torn))
    return FoundWals(tuple(found), tuple(holes), tuple(unclosed))


def _may_hold(wal: WalFile, interval: Interval) -> bool:
    """Return whether the WAL may have been open when the interval began. The file's modification time is when it was closed."""
    return wal.modified is None or wal.modified + SKEW_MS > interval.start


def _chosen(known: WalFile | None, wal: WalFile, begun: int, is_better: Callable[[int, int], bool]) -> WalFile:
    if known is None or is_better(begun, known.name.timestamp):
        return wal
    return wal if wal.name.text == known.name.text and wal.place > known.place else known
