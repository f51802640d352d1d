"""Finds the cell that is too large for the slave: what the slave says of it need not be whole, and names no table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from walferry.base.texts import one_line
from walferry.hbase.binary_text import to_binary_text
from walferry.hbase.rpc.errors import MAX_TABLE_CHARS, CellTooLarge
from walferry.replication.sinks.errors import CellRefused
from walferry.replication.sinks.hbase.actions import ActionRow, Actions, ShipmentUnfit, find_actions
from walferry.replication.sinks.hbase.shipment import Shipment, join

MAX_ROW_BYTES = 100
_LENGTH_BYTES = 4  # before each cell


def cell_refused(error: CellTooLarge, shipments: Sequence[Shipment]) -> CellRefused | None:
    """The error that names the largest cell that was sent; None if it cannot be told."""
    try:
        actions = find_actions(join(shipments))
    except ShipmentUnfit:
        return None
    if not len(actions):
        return None
    size, action = _largest(actions)
    table = one_line(actions.tables[int(actions.of(ActionRow.TABLE)[action])].decode(), MAX_TABLE_CHARS)
    return CellRefused(error.server, table, to_binary_text(actions.key(action)[:MAX_ROW_BYTES]), size, error.limit)


def _largest(actions: Actions) -> tuple[int, int]:
    """The size of the largest cell, as a server counts it, and its action. An action that is smaller than a cell has none."""
    starts, ends, parts = actions.of(ActionRow.START), actions.of(ActionRow.END), actions.of(ActionRow.PART)
    size, found = 0, 0
    for action in np.argsort(starts - ends, kind="stable").tolist():
        if ends[action] - starts[action] <= size:
            break
        cells, at = actions.cells[int(parts[action])], int(starts[action])
        while at < ends[action]:
            length = _LENGTH_BYTES + int.from_bytes(cells[at : at + _LENGTH_BYTES].tobytes())
            size, found = max((size, found), (length, action), key=lambda each: each[0])
            at += length
    return size, found
