"""Selects and prints broken entries, each into a buffer of just the room that it claims. To be run with NUMBA_BOUNDSCHECK=1.

Ends with IndexError if a kernel reaches outside of its buffer, and with any other error that is not a WAL's.
"""

import json
import random
from unittest.mock import patch

import numpy as np

from tests.unit.hbase.wal.samples import SAMPLE_BYTES, SAMPLE_STARTS
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.observe.inspection import printing
from walferry.observe.inspection.layouts import json_layout, text_layout
from walferry.observe.inspection.printing import Printer
from walferry.observe.inspection.selection import Selection, select

SELECTIONS = (Selection(), Selection(row_prefix=b"r"), Selection(row=b"", tables=(b"t", b"", b"ns:table"), region=b""))


def show(data: bytes) -> int:
    """Return how many cells were printed."""
    buf = np.frombuffer(data, np.uint8)
    batch = WalBatch(buf, 0, scan_entries(buf, 0, len(buf)).index)
    cells = 0
    for selection in SELECTIONS:
        selected = select(batch, selection)
        for layout in (json_layout, text_layout):
            try:
                for part in Printer(layout("file:///wal", values=True), "wal").print(batch, selected):
                    text = part.decode("ascii")
                    cells += layout is json_layout and bool(json.loads(text))
            except WalError:
                continue
    return cells


def main() -> None:
    rng = random.Random(1)
    entries = SAMPLE_BYTES[SAMPLE_STARTS[0] : SAMPLE_STARTS[-1]]
    with patch.object(printing, "OUT_BYTES", 1):
        cells = sum(show(entries[:length]) for length in range(len(entries)))
        for _ in range(2_000):
            broken = bytearray(entries)
            for _ in range(rng.randint(1, 3)):
                broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            cells += show(bytes(broken))
    assert cells > 1000, cells
    print("within bounds")


if __name__ == "__main__":
    main()
