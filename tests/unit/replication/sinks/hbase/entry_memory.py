"""Prints by how many bytes a process grows while it reads one entry, filters it and finds what goes to the peer cluster's
regions.

python -m tests.unit.replication.sinks.hbase.entry_memory FILE WARM_UP_FILE
"""

import sys
from pathlib import Path

import numpy as np

from tests.unit.replication.filters.test_entry_filter import MARK, RULES
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.sinks.hbase.actions import find_actions, pieces
from walferry.replication.sinks.hbase.shipment import assemble


def peak() -> int:
    """The most memory that this process has had since the last call."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    Path("/proc/self/clear_refs").write_text("5")
    return int(status["VmHWM"].split()[0]) << 10


def ship(path: str) -> int:
    """Do what a task does with each batch, and count the actions."""
    actions = 0
    with open_wal(f"file://{path}") as file:
        for batch in read_wal_batches(file, path, 0, partial_tail="error"):
            kept = filter_batch(batch, RULES, path)
            shipment = assemble(batch, kept, np.flatnonzero(kept.cells), MARK)
            actions += sum(len(find_actions(piece)) for piece in pieces(shipment))
    return actions


ship(sys.argv[2])  # compiles
peak()
before = peak()
print(ship(sys.argv[1]), peak() - before)
