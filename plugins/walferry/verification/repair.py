"""Ships rows of the source again, through the peer's sink and the filters that all its edits pass.

A repair ships a raw scan of a row: all versions and delete markers that the source still has. Replication would have shipped the
same cells, so a row that was only incomplete is equal afterwards. Rows that only the peer cluster has, and extra cells of the
peer cluster, stay: the source has nothing left that would delete them, they may be another writer's, and a delete that is still
queued removes them anyway.

A repair holds the peer lock as batches do, and scans the rows only then. Otherwise a batch could ship a newer value between the
scan and the request, and the older one with the same timestamp would come on top of it for good. Each range takes the lock by
itself, so batches and other ranges get their turns in between. The next holder waits for requests that were not answered.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np

from walferry.hbase.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.replication.locks.peer_lock import holding_peer_after_others
from walferry.replication.peers.reading import Peer, check_shippable
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.shipping.rows import RowShipment, row_shipment
from walferry.verification.job import TableRange

WAIT_SECONDS = 3600.0  # for batches, and for other ranges of the same run

log = logging.getLogger(__name__)


@contextmanager
def repairing(session: Session, peer: Peer, table: str) -> Iterator[RowShipment]:
    """Hold the peer lock while rows of a range are shipped. Waits first for the run that holds the lock now.

    Raises PeerLocked after WAIT_SECONDS, PeerError if the peer may not be shipped any more, and the errors of `row_shipment`.
    """
    run = f"repair-{uuid.uuid4().hex}"  # for this range alone: ranges of one run must not take the lock from each other
    holder = f"a repair of table {table} on {socket.gethostname()}"
    ours = holding_peer_after_others(
        session.source, peer.id, run, holder, wait_seconds=WAIT_SECONDS,
        waiting=lambda why: log.info("the repair of table %s waits: %s", table, why),
    )  # fmt: skip
    with ours as attempt:
        check_shippable(read_peer(session, peer.id))  # the peer may have been paused or removed meanwhile
        with row_shipment(session, peer, attempt, run, f"rows of table {table}") as shipment:
            yield shipment


def ship_rows(shipment: RowShipment, source: Tables, part: TableRange, keys: Collection[bytes]) -> None:
    """Ship these rows of a range as the source has them now. Raises the errors of scans, filters and sinks."""
    spec = ScanSpec(min(keys), max(keys) + b"\0", part.families, max_versions=ALL_VERSIONS, raw=True)
    wanted = frozenset(keys)
    for block in source.scan(part.table, spec):
        chosen = np.array([block.key(i) in wanted for i in range(len(block))], dtype=np.bool_)
        shipment.add(part.table, part.families, block, chosen)
    shipment.flush(part.table)
