"""Ships rows of the source again, through the peer's sink and the filters that all its edits pass.

What is shipped is a raw scan of a row: all of its versions and delete markers that the source still has. Replication would have
shipped the same cells, so a row that was only incomplete is equal afterwards. Rows that only the slave has, and cells that it has
too many, stay: the source has nothing left that would delete them, they may be another writer's, and a delete that is still
queued removes them by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from walferry.errors import WalferryError
from walferry.filters.rules import FilterRules
from walferry.filters.visibility import LabelFilter
from walferry.filters.window import filter_window
from walferry.hbase.cluster import cluster_id, visibility_labels
from walferry.hbase.errors import PeerError
from walferry.hbase.peers import Peer
from walferry.protos import hbase_pb2 as pb
from walferry.sinks.of_peer import open_sink
from walferry.sinks.sink import Sender, Sink
from walferry.source.cluster import VisibilityLabels
from walferry.source.knobs import Knobs
from walferry.source.session import Session
from walferry.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.tables.tables import Tables
from walferry.verification.job import TableRange
from walferry.wal.uncompressed_windows import plain

REPAIR_SECONDS = 600.0
_REQUEST_BYTES = 4 * 1024 * 1024
_NO_REGION = b"0" * 32  # sinks do not look at it


class RepairFailed(WalferryError):
    """Rows of the source cannot be shipped."""

    retry_helps = False


class _NoHFiles:
    """A repair ships no bulk loads."""

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        """Nothing refers to anything."""


@dataclass
class _Entries:
    """Rows as entries of a WAL, which is what filters and sinks take."""

    data: bytearray = field(default_factory=bytearray)

    def add(self, part: TableRange, cells: bytes, count: int) -> None:
        """Add a row."""
        key = pb.WALKey(
            encoded_region_name=_NO_REGION, table_name=part.table.encode(), log_sequence_number=1,
            write_time=int(time.time() * 1000), following_kv_count=count,
        )  # fmt: skip
        for family in part.families:
            key.scopes.add(family=family, scope_type=pb.REPLICATION_SCOPE_GLOBAL)
        encoded = key.SerializeToString()
        self.data += _varint(len(encoded)) + encoded + cells


@dataclass(frozen=True)
class Repairs:
    """An open way to the slave."""

    sink: Sink
    rules: FilterRules
    labels: LabelFilter
    deadline: float

    def ship(self, source: Tables, part: TableRange, keys: Collection[bytes]) -> None:
        """Ship these rows of a range. Raises what scans, filters and sinks raise."""
        sender = self.sink.sender()
        entries = _Entries()
        spec = ScanSpec(min(keys), max(keys) + b"\0", part.families, max_versions=ALL_VERSIONS, raw=True)
        wanted = frozenset(keys)
        for block in source.scan(part.table, spec):
            for i in range(len(block)):
                if block.key(i) in wanted:
                    entries.add(part, block.row(i), int(block.rows[i + 1] - block.rows[i]))
                if len(entries.data) >= _REQUEST_BYTES:
                    self._send(sender, entries, part)
                    entries = _Entries()
        self._send(sender, entries, part)

    def _send(self, sender: Sender, entries: _Entries, part: TableRange) -> None:
        if not entries.data:
            return
        path = f"rows of table {part.table}"
        found = plain(np.frombuffer(bytes(entries.data), dtype=np.uint8), 0)
        if found.consumed != len(entries.data):
            reason = found.fault.reason if found.fault else "an entry is cut off"
            raise RepairFailed(f"{path} cannot be shipped: {reason}")
        window = found.window
        window, kept = self.labels.apply(window, filter_window(window, self.rules, path), path)
        take = self.sink.take(window, kept, self.rules, path)
        if len(take.entries):
            sender.send(take.request(take.entries), self.deadline)


@contextmanager
def open_repairs(session: Session, peer: Peer, seconds: float = REPAIR_SECONDS) -> Iterator[Repairs]:
    """Reach the peer's slave for the length of a block. Raises SlaveUnreachable, PeerError, WalferryError."""
    deadline = time.monotonic() + seconds
    sink = open_sink(
        peer, session, Knobs.of(session.source.replication, peer), deadline, stop=threading.Event(), lease=_NoHFiles(),
        on_missing_hfiles=lambda count: None, on_failure=lambda: None,
    )  # fmt: skip
    source_id = cluster_id(session.zk, session.nodes)
    known = partial(visibility_labels, session.zk, session.nodes)
    labels = LabelFilter(VisibilityLabels(session.source.visibility_labels), known)
    with sink:
        if sink.id == source_id:
            raise PeerError(peer.id, f"its cluster key {peer.cluster_key} leads to the source cluster itself", "Correct it")
        yield Repairs(sink, FilterRules.of_peer(peer, source_id, sink.id), labels, deadline)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
