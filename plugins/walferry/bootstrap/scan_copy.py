"""Copies a region's rows by a scan, through the peer's own sink.

A raw scan brings all versions, and delete markers with what they hide. Its cells become entries of a WAL in memory, which go the
way of every WAL: through the peer's filters, the rules for visibility labels, and the sink. So the entries name the source as
the cluster that they come from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from walferry.bootstrap.manifest import SnapshotRegion
from walferry.filters.rules import FilterRules
from walferry.filters.visibility import LabelFilter
from walferry.filters.window import filter_window
from walferry.hbase.cluster import cluster_id, visibility_labels
from walferry.hbase.peers import Peer
from walferry.protos import hbase_pb2 as pb
from walferry.sinks.of_peer import open_sink
from walferry.source.cluster import VisibilityLabels
from walferry.source.knobs import Knobs
from walferry.source.session import Session
from walferry.tables.rows import Rows
from walferry.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.tables.tables import Tables
from walferry.wal.header import EMPTY_TRAILER, MAGIC
from walferry.wal.reader import read_windows

REQUEST_SECONDS = 600.0  # how long the slave has for each request; the patience with a silent one is shorter
_KEY_START, _TIMESTAMP_AND_TYPE = 12, 9  # in a cell: where its key begins, and how many bytes end the key


@dataclass(frozen=True)
class _Memory:
    """A WAL in memory."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> memoryview:
        return memoryview(self.data)[offset : offset + length]


class _NoReferences:
    """Scanned entries have no bulk loads, so there is nothing to let go."""

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        raise AssertionError(f"a scan has no files: {names}")


def copy_rows(session: Session, peer: Peer, tables: Tables, region: SnapshotRegion, families: Sequence[bytes]) -> int:
    """Copy all rows that the source has now between the region's borders. Returns the number of cells.

    Raises SlaveUnreachable, Stopped, WalferryError.
    """
    knobs, deadline = Knobs.of(session.source.replication, peer), time.monotonic() + REQUEST_SECONDS
    labels = LabelFilter(
        VisibilityLabels(session.source.visibility_labels), partial(visibility_labels, session.zk, session.nodes)
    )
    spec = ScanSpec(region.start, region.end, tuple(families), max_versions=ALL_VERSIONS, raw=True)
    cells = 0
    with open_sink(
        peer, session, knobs, deadline, stop=threading.Event(), lease=_NoReferences(), on_missing_hfiles=_ignore,
        on_failure=_nothing,
    ) as sink:  # fmt: skip
        rules = FilterRules.of_peer(peer, cluster_id(session.zk, session.nodes), sink.id)
        sender = sink.sender()
        for block in tables.scan(region.table, spec):
            wal = _Memory(as_wal(region, families, block))
            for window in read_windows(wal, str(region), 0, partial_tail="error"):
                window, kept = labels.apply(window, filter_window(window, rules, str(region)), str(region))
                taken = sink.take(window, kept, rules, str(region))
                if len(taken.entries):
                    request = taken.request(taken.entries)
                    sender.send(request, time.monotonic() + REQUEST_SECONDS)
                    cells += request.cell_count
    return cells


def as_wal(region: SnapshotRegion, families: Sequence[bytes], rows: Rows) -> bytes:
    """Write rows as a WAL with one entry. Of cells with equal keys only the first, which is the newest, is written."""
    left_out = repeated(rows)
    cells = b"".join(rows.data[first:after].tobytes() for first, after in _spans(rows, left_out))
    count = len(rows.cells) - 1 - len(left_out)
    key = pb.WALKey(
        encoded_region_name=region.encoded_name.encode(), table_name=region.table.encode(), log_sequence_number=1,
        write_time=int(time.time() * 1000), following_kv_count=count,
    )  # fmt: skip
    for family in families:
        key.scopes.add(family=family, scope_type=pb.REPLICATION_SCOPE_GLOBAL)
    header = pb.WALHeader(writer_cls_name="ProtobufLogWriter")
    return MAGIC + _delimited(header.SerializeToString()) + _delimited(key.SerializeToString()) + cells + EMPTY_TRAILER


def repeated(rows: Rows) -> list[int]:
    """The cells whose keys equal that of the cell before."""
    starts, data = rows.cells[:-1], rows.data
    if len(starts) < 2:
        return []
    lengths = data[starts[:, None] + np.arange(4, 8)].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    ends = starts + _KEY_START + lengths
    tails = data[ends[:, None] - np.arange(1, _TIMESTAMP_AND_TYPE + 1)]
    alike = (lengths[1:] == lengths[:-1]) & (tails[1:] == tails[:-1]).all(axis=1)
    return [i + 1 for i in np.flatnonzero(alike).tolist() if _key(rows, i, ends) == _key(rows, i + 1, ends)]


def _key(rows: Rows, i: int, ends: np.ndarray) -> bytes:
    return rows.data[int(rows.cells[i]) + _KEY_START : int(ends[i])].tobytes()


def _spans(rows: Rows, left_out: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The bytes between the cells that are left out."""
    first = int(rows.cells[0])
    for i in left_out:
        yield first, int(rows.cells[i])
        first = int(rows.cells[i + 1])
    yield first, int(rows.cells[-1])


def _delimited(message: bytes) -> bytes:
    length, out = len(message), bytearray()
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(out) + bytes([length]) + message


def _ignore(count: int) -> None:
    """There are no files that could be missing."""


def _nothing() -> None:
    """There is no lag to tell while the slave is not reached."""
