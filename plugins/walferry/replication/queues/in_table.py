"""Reads replication queues of HBase 3, which keeps them in table hbase:replication (hbase/queue_table.py).

The functions have the same results as those in `reading` and `finding`, which call them. A row tells only how far its groups are
shipped, so the WALs are listed, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from walferry.base.zk.client import Watch
from walferry.hbase.cluster import live_servers
from walferry.hbase.errors import PositionError, StorageError
from walferry.hbase.files.listing import WalPlace, stored_wals
from walferry.hbase.layout import QueueLayout
from walferry.hbase.names import QueueId, ServerName, WalName, as_wal_name
from walferry.hbase.queue_table import (
    BEGIN,
    HFILE_REF_FAMILY,
    QUEUE_FAMILY,
    QUEUE_TABLE,
    GroupOffset,
    has_own_wals,
    parse_offset,
    parse_queue_row,
    queue_row,
)
from walferry.hbase.rpc.connection import CALL_TIMEOUT_SECONDS
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.rows import Rows
from walferry.hbase.tables.scan import PATIENCE_SECONDS, ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.hbase.wal.cells import split_cells
from walferry.replication.queues.consistent import CONSISTENT_READ_TRIES
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.queues.queue import Queue, QueuedWal, QueuePlace
from walferry.replication.source.peers import peer_ids
from walferry.replication.source.session import Session


@dataclass(frozen=True)
class QueueRow:
    """A row of the table: a queue, and the raw offsets of its WAL groups."""

    owner: str  # the server that ships it
    id: QueueId
    offsets: Mapping[str, bytes]

    @property
    def row(self) -> str:
        """The row's name."""
        return queue_row(self.owner, self.id)

    @property
    def server(self) -> str:
        """The server that wrote its WALs."""
        return self.id.dead_servers[0] if self.id.recovered else self.owner

    def offset(self, group: str) -> GroupOffset:
        """Return how far a group is shipped. Raises PositionError."""
        value = self.offsets.get(group)
        return BEGIN if value is None else parse_offset(value, f"{QUEUE_TABLE}/{self.row}/{group!a}")

    def ahead_of(self, other: QueueRow) -> dict[str, bytes]:
        """Return the offsets that have reached further than the other row's. Offsets that cannot be read are left out."""
        ahead = {}
        for group, value in self.offsets.items():
            with suppress(PositionError):
                if self.offset(group).reached > other.offset(group).reached:
                    ahead[group] = value
        return ahead


@contextmanager
def queue_tables(session: Session, seconds: float = PATIENCE_SECONDS) -> Iterator[Tables]:
    """Connect to the source's tables while the block runs. A scan or a call without progress is given up after `seconds`."""
    call_seconds = min(seconds, CALL_TIMEOUT_SECONDS)
    with Tables(
        session.zk, session.nodes, login=session.source.login, patience_seconds=seconds, call_seconds=call_seconds
    ) as tables:
        yield tables


def read_rows(tables: Tables, peer_id: str | None, problems: list[str] | None = None) -> list[QueueRow]:
    """Return the rows of a peer's queues, or of all. Rows that are not queues go into `problems`.

    If the region moves, a scan goes on with a new scanner. It may then miss a row that was claimed meanwhile, so rows are read
    until two readings in a row have found the same queues. Raises StorageError, QueuesMoving, ScanGivenUp, RpcError.
    """
    before: list[QueueRow] | None = None
    for _ in range(CONSISTENT_READ_TRIES):
        odd: list[str] = []
        rows = _read_rows(tables, peer_id, odd)
        if before is not None and [row.row for row in rows] == [row.row for row in before]:
            if problems is not None:
                problems += odd
            return rows
        before = rows
    raise QueuesMoving(f"the rows of {QUEUE_TABLE} kept moving through {CONSISTENT_READ_TRIES} readings; try again later")


def _read_rows(tables: Tables, peer_id: str | None, odd: list[str]) -> list[QueueRow]:
    start, stop = (b"", b"") if peer_id is None else (f"{peer_id}-".encode(), f"{peer_id}.".encode())  # "." follows "-"
    rows = []
    for block in _scanned(tables, ScanSpec(start, stop, families=(QUEUE_FAMILY,))):
        for i in range(len(block)):
            try:
                owner, queue_id = parse_queue_row(block.key(i))
            except ValueError as error:
                odd.append(str(error))
                continue
            rows.append(QueueRow(owner, queue_id, {_text(cell.column[1]): cell.value for cell in split_cells(block.row(i))}))
    return rows


def _text(qualifier: bytes) -> str:
    """Return a qualifier's text, from which `qualifier_of` makes the same bytes again."""
    return qualifier.decode("utf-8", "surrogateescape")


def qualifier_of(group: str) -> bytes:
    """Return the qualifier of a group as it was read."""
    return group.encode("utf-8", "surrogateescape")


def main_row(rows: Sequence[QueueRow]) -> QueueRow | None:
    """Return the row that counts among all rows of one server and peer; None without any.

    There are two if the server's first offset was written while the row was being claimed. Both are then right: all before an
    offset is shipped.
    """
    return max(rows, key=lambda row: (row.id.recovered, row.row), default=None)


def _one_each(rows: Iterable[QueueRow]) -> list[QueueRow]:
    """Return one row for each server and peer, with the offsets that have reached furthest."""
    by_server: dict[tuple[str, str], list[QueueRow]] = defaultdict(list)
    for row in rows:
        by_server[row.id.peer_id, row.server].append(row)
    found = []
    for same in by_server.values():
        main = main_row(same)
        for other in same:
            main = main and replace(main, offsets={**main.offsets, **other.ahead_of(main)})
        found += [main] if main else []
    return found


def _scanned(tables: Tables, spec: ScanSpec) -> Iterator[Rows]:
    try:
        yield from tables.scan(QUEUE_TABLE, spec)
    except MissingTable as error:
        raise StorageError(
            f"there is no table {QUEUE_TABLE}, but the connection's queue_layout {QueueLayout.TABLE} looks for queues there: "
            "the cluster has not had a peer since it runs HBase 3, or runs HBase 2",
            "`walferry peers create` adds the first peer. With HBase 2, set queue_layout to 2.x",
        ) from error


def read_queues(
    session: Session, peer_id: str | None = None, watch: Watch | None = None, problems: list[str] | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> list[Queue]:  # fmt: skip
    """Return the queues of one peer, or of all, with positions. `watch` is called when a server comes or goes.

    A table that does not answer is given up after `seconds`.

    Raises StoreError, WrongRoot, StorageError, ScanGivenUp, RpcError.
    """
    with queue_tables(session, seconds) as tables:
        rows = _one_each(read_rows(tables, peer_id, problems))
    # In this order: a server that dies in between has a row, or no queue; WALs are only added.
    live = {str(server) for server in live_servers(session.zk, session.nodes, watch)}
    peers = [peer_id] if peer_id is not None else peer_ids(session) or []
    rows = [row for row in rows if row.id.peer_id in peers]  # HBase's log cleaner ignores the rows of peers that are gone
    there = {(row.owner, row.id) for row in rows}
    rows += [QueueRow(server, QueueId(peer), {}) for peer in peers for server in live if (server, QueueId(peer)) not in there]
    wals = _by_server(session, {row.server for row in rows}, live)
    found = [_queue(row, wals[row.server], live) for row in rows]
    return sorted(found, key=lambda queue: (queue.server, str(queue.id)))


def read_group(session: Session, peer_id: str, group: str, place: QueuePlace | None) -> list[Queue]:
    """Return the queues that contain WALs of the group, with only these WALs. With `place`, no folder is listed. Raises as
    `read_queues`.
    """
    if place is not None and (queue := _read_at(session, peer_id, group, place)) is not None:
        return [queue]
    queues = (queue.of_group(group) for queue in read_queues(session, peer_id))
    return [queue for queue in queues if queue.wals]


def queue_paths(session: Session, peer_id: str) -> list[str]:
    """Return the rows of the peer's queues. Raises StorageError, ScanGivenUp, RpcError."""
    with queue_tables(session) as tables:
        return [f"{QUEUE_TABLE}/{row.row}" for row in read_rows(tables, peer_id)]


def count_hfile_refs(session: Session, seconds: float) -> Counter[str]:
    """Return how many bulk-loaded HFiles HBase keeps for each peer. A table that does not answer is given up after `seconds`.

    Raises StorageError, ScanGivenUp, RpcError.
    """
    counts: Counter[str] = Counter()
    with queue_tables(session, seconds) as tables:
        for block in _scanned(tables, ScanSpec(families=(HFILE_REF_FAMILY,))):
            for i in range(len(block)):
                counts[block.key(i).decode("utf-8", "replace")] = int(block.rows[i + 1] - block.rows[i])
    return counts


def kept_hfiles(session: Session, peer_id: str, names: Sequence[str]) -> list[str]:
    """Return the places of the references that HBase still has to these HFiles. Raises StorageError, ScanGivenUp, RpcError."""
    row = peer_id.encode()
    with queue_tables(session) as tables:
        blocks = list(_scanned(tables, ScanSpec(row, row + b"\0", families=(HFILE_REF_FAMILY,))))
    there = {_text(cell.column[1]) for block in blocks for i in range(len(block)) for cell in split_cells(block.row(i))}
    return [f"{QUEUE_TABLE}/{peer_id}/hfileref:{name}" for name in names if name in there]


def _read_at(session: Session, peer_id: str, group: str, place: QueuePlace) -> Queue | None:
    """Return the group as it lies at `place` now; None if it is not there, or if its server has died since it was seen."""
    with queue_tables(session) as tables:
        rows = [
            row for row in _one_each(read_rows(tables, peer_id)) if (row.owner, str(row.id)) == (place.server, place.queue_id)
        ]
    live = {str(server) for server in live_servers(session.zk, session.nodes)}
    if not rows and place.live:  # nothing of it was shipped yet
        rows = [QueueRow(place.server, QueueId(peer_id), {})]
    if not rows or place.live != (place.server in live and not rows[0].id.recovered):
        return None
    wals = [wal for name in place.names if (wal := as_wal_name(name)) is not None and wal.group == group]
    queue = _queue(rows[0], wals, live).of_group(group)
    return queue if queue.wals else None


def _by_server(session: Session, servers: Collection[str], live: Collection[str]) -> Mapping[str, Sequence[WalName]]:
    """Return the WALs of these servers that may be shipped, wherever they lie, none of them without all older ones of its group.

    A WAL that is begun while the folders are listed may be seen only if it is archived in time, and HBase archives a younger WAL
    before an older one if all of it is flushed. An offset behind it would pass the older one. So of a server that may begin WALs,
    those count that are not younger than the newest one in its own folder, which is listed first.
    """
    begins, newest = set(live), dict[str, int]()
    found: dict[str, dict[str, WalName]] = defaultdict(dict)
    for file in stored_wals(session.store, begins):
        wal = file.name
        if wal.server is None or (server := str(wal.server)) not in servers:
            continue
        if file.place is not WalPlace.OLD:
            newest[wal.group] = max(wal.timestamp, newest.get(wal.group, -1))
        found[server][wal.text] = wal
    return defaultdict(tuple, {
        server: tuple(wal for wal in wals.values() if server not in begins or wal.timestamp <= newest.get(wal.group, -1))
        for server, wals in found.items()
    })  # fmt: skip


def _queue(row: QueueRow, wals: Iterable[WalName], live: Collection[str]) -> Queue:
    """Return the queue of a row. `wals` are its server's. A WAL that an offset names is in the queue even if it is not there."""
    found, unreadable = {wal.text: wal for wal in wals}, dict[str, PositionError]()
    offsets: dict[str, GroupOffset] = {}
    for group in {*row.offsets, *(wal.group for wal in found.values())}:
        try:
            offsets[group] = row.offset(group)
        except PositionError as error:
            offsets[group], unreadable[group] = BEGIN, error
        if (wal := offsets[group].wal) is not None and offsets[group].offset >= 0 and wal.group == group:
            found.setdefault(wal.text, wal)
    server = ServerName.parse(row.server)
    path = f"{QUEUE_TABLE}/{row.row}"
    queued = []
    for wal in sorted(found.values(), key=lambda wal: (wal.group, wal.timestamp)):
        position = offsets[wal.group].position_of(wal)
        if position is not None and not has_own_wals(wal.group, server):
            queued.append(QueuedWal(wal, f"{path}/{wal.text}", unreadable.get(wal.group, position)))
    problems = tuple(str(error) for error in unreadable.values())
    return Queue(row.owner, row.id, path, tuple(queued), row.owner in live, problems, in_table=True)
