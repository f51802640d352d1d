"""Ships scanned rows to a peer's cluster as every edit: through the peer's filters, the visibility label rules, and the sink.
So the peer cluster sees that the rows come from the source.

The rows come from a raw scan, with all versions, and with delete markers and the cells that they hide. They become entries of a
WAL in memory, because filters and sinks take entries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import delimited
from walferry.hbase.cluster import cluster_id
from walferry.hbase.errors import NoPeerCluster
from walferry.hbase.tables.rows import Rows
from walferry.hbase.wal.reader import plain
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules
from walferry.replication.filters.visibility import LabelFilter
from walferry.replication.locks.peer_lock import row_right
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.reading import kept_hfiles
from walferry.replication.sinks.of_peer import open_sink, shipping_settings
from walferry.replication.sinks.sink import Sender, Sink
from walferry.replication.source.session import Session

REQUEST_SECONDS = 600.0  # the peer cluster's time for each request; a silent peer cluster is given up sooner
REQUEST_BYTES = 4 << 20
_NO_REGION = b"0" * 32  # sinks do not look at it
_KEY_START, _TIMESTAMP_AND_TYPE = 12, 9  # in a cell: the offset of its key, and the number of bytes that end the key


class RowsNotShipped(WalferryError):
    """Rows of a scan cannot be shipped."""

    retry_helps = False


@dataclass
class RowShipment:
    """An open connection to the peer cluster. Call `add` with rows of one table and its families, then `flush`."""

    sink: Sink
    sender: Sender
    rules: FilterRules
    labels: LabelFilter
    cells: int = 0  # cells that the peer cluster has acknowledged
    _entries: bytearray = field(default_factory=bytearray)

    def add(self, table: str, families: Sequence[bytes], rows: Rows, chosen: npt.NDArray[np.bool_] | None = None) -> None:
        """Add the rows of a block, or the `chosen` ones. Raises the errors of `flush`."""
        self._entries += entry_of(table, families, rows, chosen)
        if len(self._entries) >= REQUEST_BYTES:
            self.flush(table)

    def flush(self, table: str) -> None:
        """Ship the rows that were added. Raises RowsNotShipped, PeerClusterUnreachable, Stopped, WalferryError."""
        if not self._entries:
            return
        path = f"rows of table {table}"
        found = plain(np.frombuffer(bytes(self._entries), dtype=np.uint8), 0)
        if found.consumed != len(self._entries):
            reason = found.fault.reason if found.fault else "an entry is cut off"
            raise RowsNotShipped(f"{path} cannot be shipped: {reason}")
        self._entries.clear()
        batch, kept = self.labels.apply(found.batch, filter_batch(found.batch, self.rules, path), path)
        taken = self.sink.take(batch, kept, self.rules, path)
        if len(taken.entries):
            request = taken.request(taken.entries)
            self.sender.send([request], time.monotonic() + REQUEST_SECONDS)
            self.cells += request.cell_count


@contextmanager
def row_shipment(session: Session, peer: Peer, attempt: str, name: str, rows: str) -> Iterator[RowShipment]:
    """Connect to the peer cluster for the length of a block, in the attempt of a run that holds the peer lock.

    `attempt`, `name` and `rows` are those of `row_right`. Raises NoPeerCluster, RowsTaken, RightLost, PeerClusterUnreachable and
    other WalferryErrors.
    """
    if not peer.in_hbase:
        raise NoPeerCluster(peer.id, peer.target)
    source_id = cluster_id(session.zk, session.nodes)
    settings = shipping_settings(peer, session.source, look=False)  # a job has a task for each region or range
    with (
        row_right(session, peer.id, attempt, name, rows, settings.call_timeout_seconds) as right,
        open_sink(
            peer, session.source, settings, time.monotonic() + REQUEST_SECONDS, source_id=source_id, group=None,
            stop=threading.Event(), right=right, lease=None,
            kept_hfiles=partial(kept_hfiles, session, peer.id), on_missing_hfiles=lambda count: None, on_failure=lambda: None,
        ) as sink,
    ):  # fmt: skip
        # fails, before a connection, if the peer cluster is the source itself
        rules = FilterRules.of_peer(peer, source_id, sink.id)
        yield RowShipment(sink, sink.sender(), rules, LabelFilter.of(session))


def entry_of(table: str, families: Sequence[bytes], rows: Rows, chosen: npt.NDArray[np.bool_] | None = None) -> bytes:
    """Write rows as one entry of a plain WAL: the length of its WALKey as a varint, the WALKey, the cells.

    Of cells with equal keys, only the first is written: it is the newest, but a peer cluster that got both would keep the last
    one. Writes no entry if no row is chosen.
    """
    wanted = np.ones(len(rows.cells) - 1, dtype=np.bool_)
    if chosen is not None:
        wanted = np.repeat(chosen, np.diff(rows.rows))
    wanted[repeated(rows)] = False
    if not wanted.any():
        return b""
    key = pb.WALKey(
        encoded_region_name=_NO_REGION, table_name=table.encode(), log_sequence_number=1, write_time=int(time.time() * 1000),
        following_kv_count=int(wanted.sum()),
    )  # fmt: skip
    for family in families:
        key.scopes.add(family=family, scope_type=pb.REPLICATION_SCOPE_GLOBAL)
    cells = (rows.data[first:after].tobytes() for first, after in _spans(rows, wanted))
    return b"".join([delimited(key.SerializeToString()), *cells])


def repeated(rows: Rows) -> list[int]:
    """Return the cells whose keys equal the key of the cell before."""
    starts, data = rows.cells[:-1], rows.data
    if len(starts) < 2:
        return []
    lengths = data[starts[:, None] + np.arange(4, 8)].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    ends = starts + _KEY_START + lengths
    tails = data[ends[:, None] - np.arange(1, _TIMESTAMP_AND_TYPE + 1)]
    alike = (lengths[1:] == lengths[:-1]) & (tails[1:] == tails[:-1]).all(axis=1)
    return [i + 1 for i in np.flatnonzero(alike).tolist() if _key(rows, i, ends) == _key(rows, i + 1, ends)]


def _key(rows: Rows, i: int, ends: npt.NDArray[np.int64]) -> bytes:
    return rows.data[int(rows.cells[i]) + _KEY_START : int(ends[i])].tobytes()


def _spans(rows: Rows, wanted: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of the wanted cells, joining neighbours."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False]))))
    for first, after in edges.reshape(-1, 2).tolist():
        yield int(rows.cells[first]), int(rows.cells[after])
