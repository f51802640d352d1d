"""Another HBase cluster as a sink: writes to its regions, or sends its RegionServers the requests of HBase's own sources.

If the peer cluster refuses direct writes, the rest of the task uses ReplicateWALEntry requests. A single shipment that is unfit
for direct writes also goes as such requests, and so do all bulk loads: the peer cluster's RegionServers copy the source's files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.types import Bytes, Ints
from walferry.base.security.login import Login
from walferry.base.zk.right import Right
from walferry.hbase.rpc.errors import CellTooLarge, ColumnFamilyNotFound, TableNotFound
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, uuid_field
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.sinks.errors import NotAtPeerCluster
from walferry.replication.sinks.hbase.actions import ShipmentUnfit, cell_refused
from walferry.replication.sinks.hbase.bulk_loads import BulkLoadFailed, HFileSender, take_bulk_loads
from walferry.replication.sinks.hbase.direct import DirectRefused, DirectShipper
from walferry.replication.sinks.hbase.peer_cluster import PeerCluster
from walferry.replication.sinks.hbase.replicate import Shipper
from walferry.replication.sinks.hbase.requests import in_order
from walferry.replication.sinks.hbase.shipment import Shipment, assemble, join
from walferry.replication.sinks.sink import SinkRequest
from walferry.replication.source.cluster import SourceCluster

log = logging.getLogger(__name__)


class Transport:
    """The way in which all senders of a task send edits. Any thread may call the methods."""

    def __init__(self, kind: SinkKind) -> None:
        self._lock = threading.Lock()
        self.kind = kind
        self.refused: str | None = None

    def fall_back(self, why: str) -> None:
        """Note that the peer cluster refuses direct writes."""
        with self._lock:
            if self.refused is not None:
                return
            self.kind, self.refused = SinkKind.REPLICATE, why
        log.warning(
            "the peer cluster cannot be written to directly, so its RegionServers get all that follows to replicate: %s", why
        )


class HBaseSink(PeerCluster):
    """The peer cluster, to which edits are shipped as the settings say. Bulk loads of `source` go through `hfiles`."""

    most_senders: int | None = None

    def __init__(
        self, peer: Peer, settings: PeerSettings, deadline: float, *, source: SourceCluster, hfiles: HFileSender,
        login: Login, stop: threading.Event, on_failure: Callable[[], None] = lambda: None, right: Right | None = None,
    ) -> None:  # fmt: skip
        super().__init__(peer, settings, deadline, login=login, stop=stop, on_failure=on_failure, right=right)
        self._source = source
        self._hfiles = hfiles
        self._way = Transport(settings.requests)

    @property
    def kind(self) -> SinkKind:
        """How edits are sent now."""
        return self._way.kind

    @property
    def refused(self) -> str | None:
        """Why the peer cluster has refused direct writes; None if it has not."""
        return self._way.refused

    def take(self, batch: WalBatch, kept: KeptEdits, rules: FilterRules, path: str) -> ShipmentsOf:
        """Return all entries with cells left, and the bulk loads, each alone. Raises WalCorruptError, BulkLoadRefused."""
        alone = take_bulk_loads(batch, kept, rules, self._source, path)
        return ShipmentsOf(batch, kept, alone, np.frombuffer(uuid_field(rules.source_id), np.uint8))

    def join(self, requests: Sequence[SinkRequest]) -> Shipment:
        """Join shipments for one sender into one."""
        return join(cast(Sequence[Shipment], requests))

    def sender(self) -> ShipmentSender:
        """Return a sender over connections of its own."""
        return ShipmentSender(self.shipper(), self._hfiles, self.direct_shipper(), self._way)


@dataclass(frozen=True)
class ShipmentsOf:
    """One WAL batch's entries, for making shipments. `mark` is `filters.uuid_field` of the source."""

    batch: WalBatch
    kept: KeptEdits
    bulk_loads: dict[int, Shipment]
    mark: Bytes

    @property
    def entries(self) -> Ints:
        """The entries to send."""
        chosen = np.flatnonzero(self.kept.cells)
        return np.union1d(chosen, np.array(sorted(self.bulk_loads), np.int64)) if self.bulk_loads else chosen

    @property
    def alone(self) -> Collection[int]:
        """The bulk loads: a sink applies a request's bulk loads after all its other edits."""
        return self.bulk_loads.keys()

    def request(self, entries: Ints) -> Shipment:
        """Return a shipment of these entries."""
        first = int(entries[0])
        return self.bulk_loads[first] if first in self.bulk_loads else assemble(self.batch, self.kept, entries, self.mark)


@dataclass(frozen=True)
class ShipmentSender:
    """Sends shipments in order."""

    shipper: Shipper
    hfiles: HFileSender
    direct: DirectShipper
    way: Transport

    def send(self, requests: Sequence[SinkRequest], deadline: float) -> None:
        """Return when the peer cluster has acknowledged the shipments.

        Raises as Shipper.ship, DirectShipper.ship and HFileSender.ship, NotAtPeerCluster if the peer cluster names the table or
        family that it lacks, and CellRefused for a cell that is too large for it.
        """
        shipments = cast(Sequence[Shipment], requests)
        try:
            if (load := shipments[0].bulk_load) is None:
                self._ship(shipments, deadline)
            else:
                self.hfiles.ship(self.shipper.ship, shipments[0], load, deadline)
        except (TableNotFound, ColumnFamilyNotFound, BulkLoadFailed) as error:
            raise _not_at_peer_cluster(error, shipments) or error from error
        except CellTooLarge as error:
            raise cell_refused(error, shipments) or error from error

    def _ship(self, shipments: Sequence[Shipment], deadline: float) -> None:
        """Write the shipments to the peer cluster's regions, all at once, or else send them to its RegionServers one by one."""
        if self.way.kind is SinkKind.DIRECT:
            try:
                self.direct.ship(join(shipments) if len(shipments) > 1 else shipments[0], deadline)
                return
            except DirectRefused as refused:
                self.way.fall_back(str(refused))
            except ShipmentUnfit as unfit:
                if len(shipments) > 1:  # one of the shipments may be unfit, or only all together
                    for shipment in shipments:
                        self._ship([shipment], deadline)
                    return
                log.info("a shipment goes to the peer cluster's RegionServers to replicate: %s", unfit)
        for shipment in shipments:
            for request in in_order(shipment):
                self.shipper.ship(request, deadline)


def _not_at_peer_cluster(error: WalferryError, shipments: Sequence[Shipment]) -> NotAtPeerCluster | None:
    """Return the table or family that the peer cluster lacks by `error`, or by a bulk load's answer in it; None if it names none.

    Only a table in the shipments' entries counts: the peer cluster is not trusted beyond that.
    """
    answer = error.__cause__ if isinstance(error, BulkLoadFailed) else error
    if not isinstance(answer, TableNotFound | ColumnFamilyNotFound) or answer.table is None:
        return None
    if not any(answer.table.encode() in entries.tobytes() for shipment in shipments for entries in shipment.entries):
        return None
    if isinstance(answer, TableNotFound):
        return NotAtPeerCluster(error, answer.table)
    return NotAtPeerCluster(error, answer.table, answer.family) if answer.family is not None else None
