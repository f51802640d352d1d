"""WALs of a server, and the findings about them for an interval of an hour."""

from __future__ import annotations

from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.names import ServerName, parse_wal_name
from walferry.replay.files import FoundWals, around, found_of
from walferry.replay.interval import Interval

MINUTE = 60_000
HOUR = Interval(600 * MINUTE, 660 * MINUTE)
SERVER = "h,1,60000"  # started in the first minute


def wal(minute: float, closed: float | None = None, place: WalPlace = WalPlace.OLD, server: str = SERVER) -> WalFile:
    """A WAL that was begun at `minute` and closed at `closed`."""
    name = parse_wal_name(f"{ServerName.parse(server).encoded()}.{int(minute * MINUTE)}")
    return WalFile(name, f"file:///{name}", 100, None if closed is None else int(closed * MINUTE), place)


def found(*wals: WalFile, live: bool = True, opening: bool | None = False) -> FoundWals:
    servers = frozenset({ServerName.parse(SERVER)} if live else ())
    return found_of(around(wals, HOUR), HOUR, servers, lambda wal: opening)


def minutes(left: FoundWals) -> list[float]:
    return [wal.name.timestamp / MINUTE for group in left.groups for wal in group.wals]
