"""Puts broken entries, including bulk loads and markers, through filter and assembly. To be run with NUMBA_BOUNDSCHECK=1.

Ends with IndexError if a kernel reaches outside of its buffer, and with any other error that is not a WAL's.
"""

import contextlib
import random

import numpy as np

from tests.unit.hbase.wal.encoder import Cell, encode_entry, encode_tags
from tests.unit.replication.filters.test_entry_filter import GLOBAL, MARK, OTHER, PEER_CLUSTER, RULES, entry, put
from tests.unit.replication.sinks.hbase.test_bulk_loads import OFF, ON, descriptor, load
from walferry.hbase.rpc.codec import CodecError
from walferry.hbase.tables.regions import Region
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules, PeerTables
from walferry.replication.filters.visibility import LabelFilter, LabelsRefused
from walferry.replication.sinks.hbase.actions import ShipmentUnfit, find_actions, in_row_order
from walferry.replication.sinks.hbase.bulk_loads import BulkLoadRefused, take_bulk_loads
from walferry.replication.sinks.hbase.locations import RegionMap
from walferry.replication.sinks.hbase.multi import RegionActions, assemble_multi, read_result
from walferry.replication.sinks.hbase.rounds import Places
from walferry.replication.sinks.hbase.shipment import Shipment, assemble, join
from walferry.replication.source.cluster import VisibilityLabels

ENTRIES = [
    entry(put(), put(b"g"), put(b"l", row=b"row2"), ids=(OTHER,), scopes={b"f": GLOBAL, b"g": 0, b"hh": 2}),
    entry(put(b"METAFAMILY", qualifier=b"HBASE::REGION_EVENT::REGION_OPEN"), table=b"hbase:meta"),
    entry(put(b"METAFAMILY", qualifier=b"HBASE::FLUSH"), put(b"METAFAMILY", qualifier=b""), put(b"", row=b"", qualifier=b"")),
    load(descriptor({b"f": ["a", "b"], b"l": ["c"]}), scopes={b"f": GLOBAL, b"l": 0}),
    entry(Cell(b"row", b"f", b"q", 1, 4, b"v", encode_tags([(8, bytes(8)), (4, b"\1"), (2, b"\2")])), put()),
    load(descriptor(ids=(str(PEER_CLUSTER),), table=b"ns:t"), table=b"ns:t", ids=(PEER_CLUSTER,)),
]
RESULT = b"\x0a\x04\x08\x00\x12\x00\x0a\x06\x08\x01\x1a\x02\x0a\x00\x12\x01e"
RESPONSES = [b"\x0a" + bytes([length]) + RESULT[:cut] for cut in range(len(RESULT) + 1) for length in (0, cut, cut + 1, 0xFF)]
STRINGS, SHIP = (LabelFilter(policy, lambda: {2: b"secret"}) for policy in (VisibilityLabels.STRINGS, VisibilityLabels.SHIP))
SOME = FilterRules(
    RULES.source_id, RULES.peer_cluster_id, PeerTables(replicate_all=False, table_families={b"t": frozenset({b"f"})})
)


def ship(data: bytes) -> bool:
    """Tell whether all of it was filtered and assembled."""
    buf = np.frombuffer(data, np.uint8)
    batch = WalBatch(buf, 0, scan_entries(buf, 0, len(buf)).index)
    for rules, source, labels in ((RULES, ON, STRINGS), (SOME, OFF, SHIP)):
        try:
            batch, kept = labels.apply(batch, filter_batch(batch, rules, "wal"), "wal")
            alone = take_bulk_loads(batch, kept, rules, source, "wal")
        except (WalCorruptError, BulkLoadRefused, LabelsRefused):
            return False
        chosen = np.setdiff1d(np.flatnonzero(kept.cells), np.array(list(alone), np.int64))
        if chosen.size:
            shipment = assemble(batch, kept, chosen, MARK)
            assert shipment.cell_bytes == sum(c.size for c in shipment.cells)
            write_directly(shipment)
    return True


def write_directly(shipment: Shipment) -> None:
    """Make a request to regions of a shipment, and read broken results of it."""
    try:
        actions = find_actions(join([shipment, shipment]))
    except ShipmentUnfit:
        return
    every = np.arange(len(actions))
    in_row_order(actions, every)
    multi = assemble_multi(actions, [RegionActions(b"r", every[1::2]), RegionActions(b"s", every[::2])])
    assert multi.cells.size == 2 * shipment.cell_bytes
    regions = [Region(b"r", b"", b"b", None), Region(b"s", b"row", b"", None)]
    Places.of(actions, every, [RegionMap.of(table, regions) for table in actions.tables])
    for response in RESPONSES:
        with contextlib.suppress(CodecError):
            read_result(multi, response)


def main() -> None:
    rng = random.Random(1)
    whole = b"".join(map(encode_entry, ENTRIES))
    through = sum(ship(whole[:length]) for length in range(len(whole)))
    for _ in range(15_000):
        broken = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        through += ship(bytes(broken))
    assert through > 1000, through
    print("within bounds")


if __name__ == "__main__":
    main()
