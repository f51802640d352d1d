"""Reads and builds the names and values of table hbase:replication, where HBase 3 keeps its replication queues.

    row                       peer "-" owner [ "/" dead server ]    a queue; it moves to another row when a server claims it
    queue:<WAL group>         WAL ":" int64       how far the group is shipped: the offset after the last shipped entry of this
                                                  WAL. All older WALs are shipped, and so is this one if the offset is negative
    queue:<server>            ":0"                keeps the row of a dead server, none of whose groups has an offset

    row                       peer
    hfileref:<HFile>          empty               a bulk-loaded HFile that HBase keeps for the peer
    sid:<encoded region>      int64               the last id that was shipped to a serial peer

A row does not list its WALs. They are all WALs of its server that are not shipped, wherever their files lie. A dead server's row
keeps the name of that server, however often it is claimed. A live server without a row for a peer has shipped nothing.

Source: HBase's TableReplicationQueueStorage, ReplicationQueueId, ReplicationGroupOffset, ReplicationOffsetUtil (branch-3.0).
"""

from __future__ import annotations

from dataclasses import dataclass

from walferry.hbase.errors import PositionError
from walferry.hbase.names import QueueId, ServerName, WalName, as_wal_name

QUEUE_TABLE = "hbase:replication"
QUEUE_FAMILY = b"queue"
HFILE_REF_FAMILY = b"hfileref"
SHIPPED = -1  # the offset of a WAL that is shipped to its end
OWN_WALS = ".rep"  # what the name of a server's WAL group for hbase:replication itself adds to the server's
_MAX_DIGITS = 19
_EXPECTED = "the name of a WAL, a colon and a number"


@dataclass(frozen=True)
class GroupOffset:
    """How far a WAL group is shipped. `wal` is None at the beginning."""

    wal: WalName | None = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.wal or ''}:{self.offset}"

    @property
    def reached(self) -> tuple[int, int]:
        """Orders the offsets of a group: the time in the WAL's name, and the offset in it."""
        return (self.wal.timestamp if self.wal else -1), (1 << 63 if self.offset < 0 else self.offset)

    def position_of(self, wal: WalName) -> int | None:
        """Return where to go on in a WAL of the group; None if it is shipped."""
        if self.wal is None or wal.timestamp > self.wal.timestamp:
            return 0
        return self.offset if wal.timestamp == self.wal.timestamp and self.offset >= 0 else None


BEGIN = GroupOffset()


def parse_offset(value: bytes, place: str) -> GroupOffset:
    """Read a group's offset; `place` names it in errors. Raises PositionError."""
    name, colon, digits = value.decode("utf-8", "replace").rpartition(":")
    number = digits.removeprefix("-")
    if not colon or not number.isascii() or not number.isdigit() or len(number) > _MAX_DIGITS or int(number) >= 1 << 63:
        raise PositionError(place, f"its value {value[:200]!r} is not an offset", _EXPECTED)
    wal = as_wal_name(name)
    if wal is None and name:
        raise PositionError(place, f"its value {value[:200]!r} does not name a WAL", _EXPECTED)
    return GroupOffset(wal, int(digits)) if wal else BEGIN


def queue_row(server: str, queue_id: QueueId) -> str:
    """Return the row of a queue that `server` owns."""
    return "/".join((f"{queue_id.peer_id}-{server}", *queue_id.dead_servers[:1]))


def parse_queue_row(row: bytes) -> tuple[str, QueueId]:
    """Return the owner of a queue, and the queue's id, from its row. Raises a ValueError that names the row."""
    try:
        peer_id, dash, servers = row.decode().partition("-")
        owner, *dead = servers.split("/")
        if not peer_id or not dash or len(dead) > 1:
            raise ValueError("expected peer-server or peer-server/server")
        for server in (owner, *dead):
            ServerName.parse(server)
    except ValueError as error:
        raise ValueError(f"row {row[:200]!r} of {QUEUE_TABLE} is not a queue's: {error}") from None
    return owner, QueueId(peer_id, tuple(dead))


def own_wals_group(server: ServerName) -> str:
    """Return the group of the WALs in which a server writes hbase:replication itself. They are never shipped."""
    return f"{server.encoded()}{OWN_WALS}"


def has_own_wals(group: str, server: ServerName) -> bool:
    """Return whether a group has a server's own WALs, also with hbase.wal.provider=multiwal.

    With multiwal, the group of a namespace called "rep" is named almost alike: <server>.<server>.rep, without a part behind it.
    """
    own = own_wals_group(server)
    return group == own or group.startswith(f"{server.encoded()}.{own}.")
