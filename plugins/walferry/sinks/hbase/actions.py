"""Finds the row mutations in a shipment, as a slave's own sink would (ReplicationSink.replicateEntries).

    mutation   a run of cells of one row and one type within an entry; delete markers make a Delete, all other cells a Put
    _cs.id     int32 count, (int64 most, int64 least significant half)*: the cluster ids of the entry's WALKey

The entries are those that `shipment.assemble` wrote, so their layout is known, and every length in them was checked when they
were read.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import Bytes, Ints, WireType, read_field, read_uint8, read_varint
from walferry.kernels.write import copy_bytes, put_int
from walferry.sinks.hbase.shipment import Shipment
from walferry.wal.cells import CellType, cell_end, row_of, value_start
from walferry.wal.keys import KeyField
from walferry.wal.uuids import read_uuid

PUT: Final = 2  # MutationProto.MutationType
DELETE: Final = 3
_COUNT_BYTES: Final = 4
_GROWTH = 3  # an id has 16 bytes here, and at least 6 in a key


class ActionRow(enum.IntEnum):
    """The rows of the table of actions. Each action has a column. Offsets count from the start of the part's cells."""

    PART = 0
    START = 1
    END = 2
    CELLS = 3
    KIND = 4
    TABLE = 5
    IDS = 6
    BEGINS = 7  # 1: the first of its row in its entry
    ROW_START = 8
    ROW_LEN = 9


class _Names(enum.IntEnum):
    """The elements of the state of a list of distinct names."""

    COUNT = 0
    USED = 1
    LAST = 2


@dataclass(frozen=True)
class Actions:
    """The row mutations of a shipment, in the order of the WAL."""

    cells: tuple[Bytes, ...]  # the shipment's parts
    table: Ints  # [ActionRow, action]
    tables: tuple[bytes, ...]
    cluster_ids: tuple[bytes, ...]  # as the attribute _cs.id has them

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def of(self, row: ActionRow) -> Ints:
        """One row of the table."""
        return cast(Ints, self.table[row])

    def key(self, action: int) -> bytes:
        """The row that an action changes."""
        column = self.table[:, action]
        start = int(column[ActionRow.ROW_START])
        return self.cells[int(column[ActionRow.PART])][start : start + int(column[ActionRow.ROW_LEN])].tobytes()


def find_actions(shipment: Shipment) -> Actions:
    """The row mutations of a shipment without bulk loads."""
    table = np.empty((len(ActionRow), shipment.cell_count), np.int64)
    key_bytes = sum(entries.size for entries in shipment.entries)
    id_bytes = _GROWTH * key_bytes
    names = _Distinct(shipment.entry_count, key_bytes)
    ids = _Distinct(shipment.entry_count, id_bytes + _COUNT_BYTES * shipment.entry_count)
    scratch = np.empty(id_bytes + _COUNT_BYTES, np.uint8)
    count = 0
    for part, (entries, cells) in enumerate(zip(shipment.entries, shipment.cells, strict=True)):
        count = _find_actions(
            entries, cells, part, table, count, names.data, names.ends, names.state, ids.data, ids.ends, ids.state, scratch
        )
        if count < 0:
            raise AssertionError(f"entry {-count - 1} of a shipment's part {part} is not as it was assembled")
    return Actions(shipment.cells, table[:, :count], names.all(), ids.all())


class _Distinct:
    """Byte strings, each once, that the kernel has found in order."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.data = np.empty(most_bytes, np.uint8)
        self.ends = np.zeros(most + 1, np.int64)
        self.state = np.zeros(len(_Names), np.int64)

    def all(self) -> tuple[bytes, ...]:
        """The byte strings, by their numbers."""
        count = int(self.state[_Names.COUNT])
        return tuple(self.data[self.ends[i] : self.ends[i + 1]].tobytes() for i in range(count))


@inlined
def same_bytes(a: Bytes, a_start: int, b: Bytes, b_start: int, length: int) -> bool:
    """Tell whether two ranges hold the same bytes."""
    for i in range(length - 1, -1, -1):  # noqa: SIM110  numba compiles no generators. Neighbours differ at their ends
        if a[np.uint64(a_start + i)] != b[np.uint64(b_start + i)]:
            return False
    return True


@inlined
def _number(buf: Bytes, start: int, length: int, data: Bytes, ends: Ints, state: Ints) -> int:
    """Return the number of the name `buf[start:start + length]`, which it gets here if it is new."""
    count, last = state[_Names.COUNT], state[_Names.LAST]
    if count > 0 and ends[last + 1] - ends[last] == length and same_bytes(data, ends[last], buf, start, length):
        return int(last)
    for i in range(count):
        if ends[i + 1] - ends[i] == length and same_bytes(data, ends[i], buf, start, length):
            state[_Names.LAST] = i
            return int(i)
    ends[count + 1] = copy_bytes(data, ends[count], buf, start, length)
    state[_Names.COUNT] = count + 1
    state[_Names.LAST] = count
    return int(count)


@inlined
def _read_key(buf: Bytes, pos: int, end: int, scratch: Bytes) -> tuple[int, int, int]:
    """Write the cluster ids of the WALKey `buf[pos:end]` to `scratch`. Returns (start of the table's name, its length, bytes
    written); the start is -1 if the key cannot be parsed."""
    table, table_len, ids, at = -1, 0, 0, _COUNT_BYTES
    while pos < end:
        tag, _, first, pos = read_field(buf, pos, end)
        if pos < 0:
            return -1, 0, 0
        field = tag >> 3
        if tag == KeyField.TABLE << 3 | WireType.BYTES:
            table, table_len = first, pos - first
        elif field == KeyField.CLUSTER_ID or field == KeyField.CLUSTER_IDS:
            least, most, sound = read_uuid(buf, first, pos)
            if not sound:
                return -1, 0, 0
            at = put_int(scratch, put_int(scratch, at, most, 8), least, 8)
            ids += 1
    put_int(scratch, 0, ids, _COUNT_BYTES)
    return table, table_len, at


@unmanaged
def _find_actions(
    entries: Bytes, cells: Bytes, part: int, table: Ints, found: int, names: Bytes, name_ends: Ints, name_state: Ints,
    ids: Bytes, id_ends: Ints, id_state: Ints, scratch: Bytes,
) -> int:  # fmt: skip
    """Append the actions of a part to `table`, which has `found` already. Returns how many it has then, or -1 - the entry that
    cannot be parsed."""
    pos, entry, cell = 0, 0, 0
    while pos < entries.size:
        body_len, body = read_varint(entries, pos + 1, entries.size)
        key_len, key = read_varint(entries, body + 1, entries.size)
        count, after = read_varint(entries, key + key_len + 1, entries.size)
        if after != body + body_len or after > entries.size:
            return -1 - entry
        name, name_len, id_len = _read_key(entries, key, key + key_len, scratch)
        if name < 0:
            return -1 - entry
        table_number = _number(entries, name, name_len, names, name_ends, name_state)
        ids_number = _number(scratch, 0, id_len, ids, id_ends, id_state)
        row, row_len, kind_of_cell = 0, -1, -1
        for _ in range(count):
            end = cell_end(cells, cell)
            cell_row, cell_row_len = row_of(cells, cell)
            code = read_uint8(cells, value_start(cells, cell) - 1)
            same_row = cell_row_len == row_len and same_bytes(cells, row, cells, cell_row, row_len)
            if same_row and code == kind_of_cell:
                table[ActionRow.END, found - 1] = end
                table[ActionRow.CELLS, found - 1] += 1
            else:
                deletes = CellType.DELETE <= code <= CellType.DELETE_FAMILY
                table[ActionRow.PART, found] = part
                table[ActionRow.START, found] = cell
                table[ActionRow.END, found] = end
                table[ActionRow.CELLS, found] = 1
                table[ActionRow.KIND, found] = DELETE if deletes else PUT
                table[ActionRow.TABLE, found] = table_number
                table[ActionRow.IDS, found] = ids_number
                table[ActionRow.BEGINS, found] = 0 if same_row else 1
                table[ActionRow.ROW_START, found] = cell_row
                table[ActionRow.ROW_LEN, found] = cell_row_len
                found += 1
            row, row_len, kind_of_cell = cell_row, cell_row_len, code
            cell = end
        pos = after
        entry += 1
    return found if cell == cells.size else -1 - entry
