"""Finds the row mutations in a shipment, as a peer cluster's own sink would (ReplicationSink.replicateEntries).

    mutation   a run of cells of one row and one type within an entry; delete markers make a Delete, all other cells a Put
    _cs.id     int32 count, (int64 most, int64 least significant half)*: the cluster ids of the entry's WALKey

The entries are those that `shipment.assemble` wrote: their layout is known, and every length was checked when they were read.

The limits below guard against costly shipments. A request carries the cluster ids with each action, not once an entry, and each
list of ids needs groups of its own. So a shipment with very many ids or lists would grow far larger. Each table's regions must be
looked up. Names are found by a hash, and a user can choose names with equal hashes: then each is compared with every other name.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import (
    WireType,
    common_bytes,
    hash_bytes,
    read_field,
    read_uint8,
    read_varint,
    same_bytes,
    word_after,
)
from walferry.base.kernels.types import Bytes, Ints, OutBytes, OutInts, OutIntTable, OutWords
from walferry.base.kernels.write import copy_bytes, put_int
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.base.texts import one_line
from walferry.hbase.binary_text import to_binary_text
from walferry.hbase.rpc.errors import MAX_TABLE_CHARS, CellTooLarge
from walferry.hbase.wal.cells import CellType, cell_end, row_of, value_start
from walferry.hbase.wal.keys import KeyField, read_uuid
from walferry.replication.sinks.errors import CellRefused
from walferry.replication.sinks.hbase.shipment import Shipment, join

PUT: Final = 2  # MutationProto.MutationType
DELETE: Final = 3
PIECE_CELLS: Final = 100_000  # 9 MB of actions
MAX_CLUSTER_IDS: Final = 32  # in an entry: the clusters that its edits have been at
MAX_ID_LISTS: Final = 100  # distinct lists in a shipment
MAX_TABLES: Final = 1000  # in a shipment
_COUNT_BYTES: Final = 4
_ID_BYTES: Final = 16
_MAX_LIST_BYTES: Final = _COUNT_BYTES + MAX_CLUSTER_IDS * _ID_BYTES
_SHOWN_BYTES = 100  # of a name or a row, in messages
_LENGTH_BYTES = 4  # before each cell
_BROKEN: Final = -1
_TOO_MANY_IDS: Final = -2
_TOO_MANY_LISTS: Final = -3
_TOO_MANY_TABLES: Final = -4
_EXCESSES = {
    _TOO_MANY_IDS: f"an entry with more than {MAX_CLUSTER_IDS} cluster ids",
    _TOO_MANY_LISTS: f"entries with more than {MAX_ID_LISTS} different lists of cluster ids",
    _TOO_MANY_TABLES: f"entries of more than {MAX_TABLES} tables",
}


class ActionRow(enum.IntEnum):
    """The rows of the table of actions. Each action is a column. Offsets count from the start of the part's cells."""

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
    ROW_HASH = 10


class ShipmentUnfit(WalferryError):
    """A shipment that cannot be written to regions directly, though other shipments may. Another kind of sink may take it."""


class _Names(enum.IntEnum):
    """The elements of the state of a list of distinct names."""

    COUNT = 0
    LAST = 1


@dataclass(frozen=True)
class Actions:
    """The row mutations of a shipment, in the order of the WAL."""

    cells: tuple[Bytes, ...]  # the shipment's parts
    table: Ints  # [ActionRow, action]
    tables: tuple[bytes, ...]
    cluster_ids: tuple[bytes, ...]  # in the form of the attribute _cs.id

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def of(self, row: ActionRow) -> Ints:
        """Return one row of the table."""
        return cast(Ints, self.table[row])

    def key(self, action: int) -> bytes:
        """Return the row that an action changes."""
        column = self.table[:, action]
        start = int(column[ActionRow.ROW_START])
        return self.cells[int(column[ActionRow.PART])][start : start + int(column[ActionRow.ROW_LEN])].tobytes()


def find_actions(shipment: Shipment) -> Actions:
    """Return the row mutations of a shipment that contains no bulk loads. Raises ShipmentUnfit."""
    table = np.empty((len(ActionRow), shipment.cell_count), np.int64)
    names = _Distinct(min(shipment.entry_count, MAX_TABLES), sum(entries.size for entries in shipment.entries))
    ids = _Distinct(MAX_ID_LISTS, MAX_ID_LISTS * _MAX_LIST_BYTES)
    scratch = np.empty(_MAX_LIST_BYTES, np.uint8)
    count = 0
    for part, (entries, cells) in enumerate(zip(shipment.entries, shipment.cells, strict=True)):
        count, entry = _find_actions(
            entries, cells, part, table, count, names.data, names.ends, names.slots, names.state,
            ids.data, ids.ends, ids.slots, ids.state, scratch,
        )  # fmt: skip
        if count == _BROKEN:
            raise AssertionError(f"entry {entry} of a shipment's part {part} is not as it was assembled")
        if count < 0:
            raise ShipmentUnfit(f"it has {_EXCESSES[count]}")
    return Actions(shipment.cells, table[:, :count], _checked(names.all()), ids.all())


def in_row_order(actions: Actions, some: Ints) -> Ints:
    """Return `some` actions of one region in the order of their rows, and a row's actions in their order.

    Neighbours in a request are then neighbours in the region's memory, which costs the server a fifth less processor time. Rows
    that differ only behind the eight bytes that follow what all of them begin with come in any order.
    """
    parts, starts, lengths = (actions.of(row) for row in (ActionRow.PART, ActionRow.ROW_START, ActionRow.ROW_LEN))
    first = np.frombuffer(actions.key(int(some[0])), np.uint8)
    shared, words = first.size, np.empty(some.size, np.uint64)
    which = np.unique(parts[some]).tolist()
    for part in which:
        shared = _shared_bytes(actions.cells[part], part, parts, starts, lengths, some, first, shared)
    for part in which:
        _read_words(actions.cells[part], part, parts, starts, lengths, some, shared, words)
    return some[np.argsort(words, kind="stable")]


def pieces(shipment: Shipment) -> Iterator[Shipment]:
    """Yield a shipment of one entry in parts of whole rows and about PIECE_CELLS cells, in order; any other shipment as it is.

    The actions of small cells take more bytes than the cells, and one entry may contain millions of cells.
    """
    if shipment.entry_count != 1 or shipment.cell_count <= PIECE_CELLS:
        yield shipment
        return
    (entries,), (cells,) = shipment.entries, shipment.cells
    request = parse_message(pb.ReplicateWALEntryRequest, entries.tobytes())
    start = 0
    while start < cells.size:
        end, count, rows = _end_of_piece(cells, start)
        request.entry[0].associated_cell_count = count
        entries = np.frombuffer(request.SerializeToString(), np.uint8)
        yield replace(
            shipment, entries=(entries,), cells=(cells[start:end],), cell_count=count, row_count=rows, cell_bytes=end - start
        )
        start = end


def cell_refused(error: CellTooLarge, shipments: Sequence[Shipment]) -> CellRefused | None:
    """Return the error that names the largest cell that was sent; None if that cell cannot be found.

    The peer cluster's own message may be cut off, and names no table.
    """
    try:
        actions = find_actions(join(shipments))
    except ShipmentUnfit:
        return None
    if not len(actions):
        return None
    size, action = _largest(actions)
    table = one_line(actions.tables[int(actions.of(ActionRow.TABLE)[action])].decode(), MAX_TABLE_CHARS)
    return CellRefused(error.server, table, to_binary_text(actions.key(action)[:_SHOWN_BYTES]), size, error.limit)


def _largest(actions: Actions) -> tuple[int, int]:
    """Return the size of the largest cell, as a server counts it, and its action. Smaller actions are skipped."""
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


class _Distinct:
    """The distinct byte strings that the kernel has found, in order."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.data = np.empty(most_bytes, np.uint8)
        self.ends = np.zeros(most + 1, np.int64)
        self.slots = np.zeros(2 << most.bit_length(), np.int64)  # a hash table: numbers + 1; never full
        self.state = np.zeros(len(_Names), np.int64)

    def all(self) -> tuple[bytes, ...]:
        """Return the byte strings, indexed by their numbers."""
        count = int(self.state[_Names.COUNT])
        return tuple(self.data[self.ends[i] : self.ends[i + 1]].tobytes() for i in range(count))


def _checked(tables: tuple[bytes, ...]) -> tuple[bytes, ...]:
    for name in tables:
        try:
            name.decode()
        except UnicodeDecodeError as error:
            raise ShipmentUnfit(f"the name of its table {name[:_SHOWN_BYTES]!r} is not UTF-8") from error
    return tables


@unmanaged
def _end_of_piece(cells: Bytes, start: int) -> tuple[int, int, int]:
    """Return the end of the first row that ends PIECE_CELLS cells after `start` or later, or of all; and the cells and rows."""
    at, count, rows, row, row_len = start, 0, 0, 0, -1
    while at < cells.size:
        next_row, next_len = row_of(cells, at)
        if next_len != row_len or not same_bytes(cells, row, cells, next_row, row_len):
            if count >= PIECE_CELLS:
                break
            rows += 1
        row, row_len = next_row, next_len
        at = cell_end(cells, at)
        count += 1
    return at, count, rows


@unmanaged
def _shared_bytes(
    cells: Bytes, part: int, parts: Ints, starts: Ints, lengths: Ints, some: Ints, first: Bytes, shared: int
) -> int:  # fmt: skip
    """Return how many of the `shared` first bytes of the row `first` all rows of the actions of a part begin with."""
    for action in some:
        if parts[action] == part:
            shared = common_bytes(first, 0, cells, starts[action], min(shared, lengths[action]))
    return shared


@unmanaged
def _read_words(
    cells: Bytes, part: int, parts: Ints, starts: Ints, lengths: Ints, some: Ints, skipped: int, words: OutWords
) -> None:  # fmt: skip
    """Note for each action of a part the bytes that follow the first `skipped` of its row, as a number."""
    for i in range(some.size):
        action = some[i]
        if parts[action] == part:
            words[i] = word_after(cells, starts[action], lengths[action], skipped)


@inlined
def _number(buf: Bytes, start: int, length: int, data: OutBytes, ends: OutInts, slots: OutInts, state: OutInts) -> int:
    """Return the number of the name `buf[start:start + length]`, adding it if it is new; -1 if there are too many names."""
    count, last = state[_Names.COUNT], state[_Names.LAST]
    if count > 0 and ends[last + 1] - ends[last] == length and same_bytes(data, ends[last], buf, start, length):
        return int(last)
    slot = hash_bytes(buf, start, length) & (slots.size - 1)
    while slots[slot] != 0:
        i = slots[slot] - 1
        if ends[i + 1] - ends[i] == length and same_bytes(data, ends[i], buf, start, length):
            state[_Names.LAST] = i
            return int(i)
        slot = (slot + 1) & (slots.size - 1)
    if count + 1 == ends.size:
        return -1
    ends[count + 1] = copy_bytes(data, ends[count], buf, start, length)
    slots[slot] = count + 1
    state[_Names.COUNT] = count + 1
    state[_Names.LAST] = count
    return int(count)


@inlined
def _read_key(buf: Bytes, pos: int, end: int, scratch: OutBytes) -> tuple[int, int, int]:
    """Write the cluster ids of the WALKey `buf[pos:end]` to `scratch`. Returns (start of the table's name, its length, bytes
    written); the start is _BROKEN if the key cannot be parsed, and _TOO_MANY_IDS if it contains too many ids.
    """
    table, table_len, ids, at = _BROKEN, 0, 0, _COUNT_BYTES
    while pos < end:
        tag, _, first, pos = read_field(buf, pos, end)
        if pos < 0:
            return _BROKEN, 0, 0
        field = tag >> 3
        if tag == KeyField.TABLE << 3 | WireType.BYTES:
            table, table_len = first, pos - first
        elif field == KeyField.CLUSTER_ID or field == KeyField.CLUSTER_IDS:
            if tag & 7 != WireType.BYTES:
                return _BROKEN, 0, 0
            least, most, sound = read_uuid(buf, first, pos)
            if not sound:
                return _BROKEN, 0, 0
            if ids == MAX_CLUSTER_IDS:
                return _TOO_MANY_IDS, 0, 0
            at = put_int(scratch, put_int(scratch, at, most, 8), least, 8)
            ids += 1
    put_int(scratch, 0, ids, _COUNT_BYTES)
    return table, table_len, at


@unmanaged
def _find_actions(
    entries: Bytes, cells: Bytes, part: int, table: OutIntTable, found: int,
    names: OutBytes, name_ends: OutInts, name_slots: OutInts, name_state: OutInts,
    ids: OutBytes, id_ends: OutInts, id_slots: OutInts, id_state: OutInts, scratch: OutBytes,
) -> tuple[int, int]:  # fmt: skip
    """Append the actions of a part to `table`, which already contains `found`. Returns how many it then contains, or _BROKEN or
    one of _EXCESSES; and the number of the entry at which the search ended.
    """
    pos, entry, cell = 0, 0, 0
    while pos < entries.size:
        body_len, body = read_varint(entries, pos + 1, entries.size)
        key_len, key = read_varint(entries, body + 1, entries.size)
        count, after = read_varint(entries, key + key_len + 1, entries.size)
        if after != body + body_len or after > entries.size:
            return _BROKEN, entry
        name, name_len, id_len = _read_key(entries, key, key + key_len, scratch)
        if name < 0:
            return name, entry
        table_number = _number(entries, name, name_len, names, name_ends, name_slots, name_state)
        ids_number = _number(scratch, 0, id_len, ids, id_ends, id_slots, id_state)
        if table_number < 0:
            return _TOO_MANY_TABLES, entry
        if ids_number < 0:
            return _TOO_MANY_LISTS, entry
        row, row_len, row_hash, kind_of_cell = 0, -1, 0, -1
        for _ in range(count):
            end = cell_end(cells, cell)
            cell_row, cell_row_len = row_of(cells, cell)
            code = read_uint8(cells, value_start(cells, cell) - 1)
            same_row = cell_row_len == row_len and same_bytes(cells, row, cells, cell_row, row_len)
            if same_row and code == kind_of_cell:
                table[ActionRow.END, found - 1] = end
                table[ActionRow.CELLS, found - 1] += 1
            else:
                row_hash = row_hash if same_row else hash_bytes(cells, cell_row, cell_row_len)
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
                table[ActionRow.ROW_HASH, found] = row_hash
                found += 1
            row, row_len, kind_of_cell = cell_row, cell_row_len, code
            cell = end
        pos = after
        entry += 1
    return found if cell == cells.size else _BROKEN, entry
