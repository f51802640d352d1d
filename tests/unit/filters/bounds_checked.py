"""Puts broken entries, including bulk loads and markers, through filter and assembly. To be run with NUMBA_BOUNDSCHECK=1.

Ends with IndexError if a kernel reaches outside of its buffer, and with any other error that is not a WAL's.
"""

import random

import numpy as np

from tests.unit.filters.test_window import GLOBAL, MARK, OTHER, RULES, SLAVE, entry, put
from tests.unit.sinks.hbase.test_bulk_loads import OFF, ON, descriptor, load
from tests.unit.wal.encoder import Cell, encode_entry, encode_tags
from walferry.filters.rules import FilterRules, PeerTables
from walferry.filters.visibility import LabelFilter, LabelsRefused
from walferry.filters.window import filter_window
from walferry.sinks.hbase.bulk_loads import BulkLoadRefused, take_bulk_loads
from walferry.sinks.hbase.shipment import assemble
from walferry.source.cluster import VisibilityLabels
from walferry.wal.errors import WalCorruptError
from walferry.wal.scan import scan_entries
from walferry.wal.windows import Window

ENTRIES = [
    entry(put(), put(b"g"), put(b"l", row=b"row2"), ids=(OTHER,), scopes={b"f": GLOBAL, b"g": 0, b"hh": 2}),
    entry(put(b"METAFAMILY", qualifier=b"HBASE::REGION_EVENT::REGION_OPEN"), table=b"hbase:meta"),
    entry(put(b"METAFAMILY", qualifier=b"HBASE::FLUSH"), put(b"METAFAMILY", qualifier=b""), put(b"", row=b"", qualifier=b"")),
    load(descriptor({b"f": ["a", "b"], b"l": ["c"]}), scopes={b"f": GLOBAL, b"l": 0}),
    entry(Cell(b"row", b"f", b"q", 1, 4, b"v", encode_tags([(8, bytes(8)), (4, b"\1"), (2, b"\2")])), put()),
    load(descriptor(ids=(str(SLAVE),), table=b"ns:t"), table=b"ns:t", ids=(SLAVE,)),
]
STRINGS, SHIP = (LabelFilter(policy, lambda: {2: b"secret"}) for policy in (VisibilityLabels.STRINGS, VisibilityLabels.SHIP))
SOME = FilterRules(RULES.source_id, RULES.slave_id, PeerTables(replicate_all=False, table_families={b"t": frozenset({b"f"})}))


def ship(data: bytes) -> bool:
    """Tell whether all of it was filtered and assembled."""
    buf = np.frombuffer(data, np.uint8)
    window = Window(buf, 0, scan_entries(buf, 0, len(buf)).index)
    for rules, source, labels in ((RULES, ON, STRINGS), (SOME, OFF, SHIP)):
        try:
            window, kept = labels.apply(window, filter_window(window, rules, "wal"), "wal")
            alone = take_bulk_loads(window, kept, rules, source, "wal")
        except (WalCorruptError, BulkLoadRefused, LabelsRefused):
            return False
        chosen = np.setdiff1d(np.flatnonzero(kept.cells), np.array(list(alone), np.int64))
        if chosen.size:
            shipment = assemble(window, kept, chosen, MARK)
            assert shipment.cell_bytes == sum(c.size for c in shipment.cells)
    return True


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
