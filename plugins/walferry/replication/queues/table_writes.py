"""Writes to the queues of one WAL group in table hbase:replication of HBase 3.

The lease is in ZooKeeper, and the offsets are not. So each write first checks the lease and the peer's state there, and then
depends on the offset that was seen before, or on the whole row if there was none. What a holder writes late, after it has lost
the lease, is harmless: all entries before its offset are acknowledged, and the offset only grows from the value that it has seen.

    a claim of HBase may move the row at any time     the write fails, and the row is looked for again
    a row that was claimed while its first offset     it is merged into the claimed row
      was being written comes back
    HBase's own setOffset does not look at the old value; it comes from an enabled peer only

A row is deleted once all WALs of its server are shipped, and only if a live server has claimed it. Before that, HBase's Master
may not have finished with the dead server, and would add the row again, from the beginning (AssignReplicationQueuesProcedure).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.errors import Contention
from walferry.hbase.cluster import is_live
from walferry.hbase.errors import PositionError
from walferry.hbase.names import QueueId, WalName, parse_wal_name
from walferry.hbase.queue_table import BEGIN, HFILE_REF_FAMILY, QUEUE_FAMILY, QUEUE_TABLE, SHIPPED, GroupOffset, own_wals_group
from walferry.hbase.tables.mutations import cell_is, deletion_of, mutate, put_of
from walferry.hbase.tables.tables import Tables
from walferry.replication.queues.errors import LastWal, WalGone
from walferry.replication.queues.in_table import QueueRow, main_row, qualifier_of, read_queues, read_rows
from walferry.replication.queues.last_pushed import NO_IDS
from walferry.replication.queues.queue import Queue, QueuedWal, QueuePlace
from walferry.replication.queues.znode_writes import TRIES, Write
from walferry.replication.source.session import Session

MERGES = 5  # of rows of one server that a look-up tries


class TableWrites:
    """The writes of a lease's holder. `write` checks that the lease is held, and the peer disabled."""

    def __init__(self, session: Session, peer_id: str, group: str, write: Write) -> None:
        self._session = session
        self._peer_id = peer_id
        self._group = group
        self._server = parse_wal_name(f"{group}.1").server
        self._write = write
        self._tables = Tables(session.zk, session.nodes, login=session.source.login)
        self._row: QueueRow | None = None
        self._newest: WalName | None = None
        self.finished = False  # the group's last WAL was removed, and no server adds to the group

    def saw(self, queues: Sequence[Queue]) -> None:
        """Note the group's newest WAL."""
        self._remember([wal.name for queue in queues for wal in queue.wals])

    def list_wals(self, place: QueuePlace) -> frozenset[str]:
        """Return which of the group's WALs at `place` are not shipped yet."""
        row = self._look_up()
        wals = [wal for wal in map(parse_wal_name, place.names) if wal.group == self._group]
        self._remember(wals)
        offset = row.offset(self._group) if row else BEGIN
        return frozenset(wal.text for wal in wals if row and offset.position_of(wal) is not None)

    def register_position(self, wal: str, offset: int, pushed: Mapping[str, int] = NO_IDS) -> None:
        """Move the WAL's position to `offset`: see `Lease.register_position`."""
        self._raise_to(GroupOffset(parse_wal_name(wal), offset))

    def set_position(self, wal: QueuedWal, to: int) -> bool:
        """Set a WAL's position for an operator, also to a smaller one. Returns False if the WAL was moved or changed.

        All older WALs of the group then count as shipped, so only the oldest one has a position that can be set.
        """
        row = self._look_up()
        if row is None:
            return False
        try:
            now = row.offset(self._group).position_of(wal.name)
        except PositionError:
            now = None
        as_seen = wal.position_or_problem if isinstance(wal.position_or_problem, int) else None
        return now == as_seen and self._put(row, GroupOffset(wal.name, to))

    def remove_wal(self, wal: str, pushed: Mapping[str, int] = NO_IDS) -> bool:
        """Note that a WAL is shipped to its end: see `Lease.remove_wal`."""
        name = parse_wal_name(wal)
        newest = self._newest
        if newest is None or newest.timestamp <= name.timestamp:
            if is_live(self._session.zk, self._session.nodes, str(self._server)):
                raise LastWal(f"{QUEUE_TABLE}/{self._row.row if self._row else self._peer_id}/{wal}")
            newest = None
        try:
            raised = self._raise_to(GroupOffset(name, SHIPPED))
        except WalGone:
            return False
        if newest is None:
            self.finished = self._remove_finished_row()
        return raised

    def remove_empty_queue(self, server: str, queue_id: str) -> bool:
        """Delete a queue that contains no WALs and gets none; returns whether it is gone now."""
        row = self._look_up()
        if row is None:
            return True
        if (row.owner, str(row.id)) != (server, queue_id):
            return False
        return self._remove_finished_row()

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        """Delete references to bulk-loaded HFiles."""
        if names:
            self._check()
            qualifiers = [name.encode() for name in names]
            mutate(self._tables, QUEUE_TABLE, [deletion_of(self._peer_id.encode(), HFILE_REF_FAMILY, qualifiers)])

    def close(self) -> None:
        """Close the connections to the source's tables."""
        self._tables.close()

    def _remember(self, wals: Sequence[WalName]) -> None:
        self._newest = max([*wals, *([self._newest] if self._newest else [])], key=lambda wal: wal.timestamp, default=None)

    def _check(self) -> None:
        """Check that this is the holder, and the peer disabled. Raises LeaseLost, EnabledPeer, MissingPeer, ConnectError."""
        self._write(lambda multi: None)

    def _look_up(self) -> QueueRow | None:
        """Find the row of the group's queue; None if no row has it. A live server's row may still have to be made."""
        for _ in range(MERGES):
            rows = [row for row in read_rows(self._tables, self._peer_id) if row.server == str(self._server)]
            self._row = main_row(rows)
            if len(rows) <= 1 or self._row is None:
                break
            self._merge(self._row, next(row for row in rows if row is not self._row))
        if self._row is None and is_live(self._session.zk, self._session.nodes, str(self._server)):
            self._row = QueueRow(str(self._server), QueueId(self._peer_id), {})
        return self._row

    def _merge(self, row: QueueRow, other: QueueRow) -> None:
        """Put what another row of the same server has reached into this one, and delete it, if both are as they were seen.

        A live server has claimed `row`, so the Master does not add a row for the dead server any more.
        """
        ahead = other.ahead_of(row)
        changes = [_put(row, ahead)] if ahead else []
        self._mutate([*changes, _deletion(other)], [row, other])

    def _raise_to(self, offset: GroupOffset) -> bool:
        """Move the group's offset ahead. Returns False if it was there already. Raises WalGone, PositionError, Contention."""
        for _ in range(TRIES):
            row = self._row or self._look_up()
            if row is None:
                raise WalGone(self._peer_id, str(offset.wal))
            if offset.reached <= row.offset(self._group).reached:
                return False
            if self._put(row, offset):
                return True
            self._row = None
        raise Contention(
            f"{offset.wal} of peer {self._peer_id} was moved or changed {TRIES} times while its offset was being set"
        )

    def _put(self, row: QueueRow, offset: GroupOffset) -> bool:
        """Set the group's offset if it is as it was seen. The WALs of hbase:replication itself are let go up to this one."""
        assert offset.wal is not None
        cells = {self._group: str(offset).encode()}
        if offset.offset < 0 and self._server is not None:
            own = own_wals_group(self._server)
            cells[own] = f"{own}.{offset.wal.timestamp}:{SHIPPED}".encode()
        # An offset as it was seen shows that the row was not claimed. Without one, the whole row has to.
        seen = replace(row, offsets={self._group: row.offsets[self._group]}) if self._group in row.offsets else row
        if not self._mutate([_put(row, cells)], [seen]):
            return False
        self._row = replace(row, offsets={**row.offsets, **cells})
        return True

    def _mutate(self, changes: Sequence[pb.MutationProto], as_seen: Sequence[QueueRow]) -> bool:
        """Make changes if the rows are as they were seen. A live server may have no row, and then the group no offset."""
        self._check()
        conditions = [
            cell_is(row.row.encode(), QUEUE_FAMILY, qualifier_of(group), row.offsets.get(group))
            for row in as_seen
            for group in {*row.offsets, self._group}
        ]
        return mutate(self._tables, QUEUE_TABLE, changes, conditions)

    def _remove_finished_row(self) -> bool:
        """Delete the row if a live server has claimed it and nothing of it is left to ship. Returns whether the group is gone."""
        row = self._look_up()
        if row is None:
            return True
        left = [queue for queue in read_queues(self._session, self._peer_id) if queue.server == row.owner and queue.id == row.id]
        if any(queue.wals or queue.problems for queue in left) or not row.id.recovered:
            return False
        return self._mutate([_deletion(row)], [row])


def _put(row: QueueRow, cells: Mapping[str, bytes]) -> pb.MutationProto:
    return put_of(row.row.encode(), QUEUE_FAMILY, {qualifier_of(group): value for group, value in cells.items()})


def _deletion(row: QueueRow) -> pb.MutationProto:
    return deletion_of(row.row.encode(), QUEUE_FAMILY)
