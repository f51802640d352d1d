"""Prints cells in one compiled pass. All bytes from a WAL become printable ASCII, as by HBase's Bytes.toStringBinary."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import read_int64, read_uint8, read_uint16
from walferry.base.kernels.types import Bytes, Ints, IntTable, OutBytes, OutInts
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.wal.cells import KEY_TAIL, MIN_TAG, CellType, cell_end, family_of, row_of, tags_start, value_start
from walferry.hbase.wal.decoded_keys import ClusterIds, decode_keys
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.scan import EntryIndex, read_only
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.observe.inspection.characters import NUMBER_CHARS, QUOTE, escaped_len, put_escaped, put_number, put_time
from walferry.observe.inspection.layouts import LAST_BYTES, LAST_NUMBER, Field, Layout, Piece
from walferry.observe.inspection.selection import SelectedCells

OUT_BYTES = 1 << 20
UUID_CHARS: Final = 36
_TYPE_CHARS: Final = 24  # enough for the name of any type
_LIST_CHARS: Final = 8  # the separator and quotation marks of a list's element, and the number of a tag's type
_TYPES = np.zeros((256, _TYPE_CHARS), np.uint8)
_TYPE_LEN = np.zeros(256, np.int64)
for _kind in CellType:
    _TYPES[_kind, : len(_kind.hbase_name)] = np.frombuffer(_kind.hbase_name.encode(), np.uint8)
    _TYPE_LEN[_kind] = len(_kind.hbase_name)


class EntryRow(enum.IntEnum):
    """The rows of the table of entries. The first four are printed as they are (Field)."""

    POSITION = 0
    NEXT_POSITION = 1
    SEQUENCE_ID = 2
    WRITE_TIME = 3
    REGION_START = 4
    REGION_LEN = 5
    TABLE_START = 6
    TABLE_LEN = 7


class PrintProgress(enum.IntEnum):
    """The elements of the state in which `_print_cells` stops and goes on."""

    CELL = 0  # the next cell to print
    HEADED = 1  # the entry whose header has been printed last
    NEED = 2  # bytes of the next cell, with its entry's header


class PieceRow(enum.IntEnum):
    """The rows of the table of pieces."""

    START = 0  # of the literal
    LENGTH = 1
    FIELD = 2
    OPTIONAL = 3


class Printer:
    """Prints the cells of one file. Errors call the file `path`."""

    def __init__(self, layout: Layout, path: str) -> None:
        self._layout = layout
        self._path = path
        self._header = layout.file.encode()
        self._pieces, self._literals = _compiled_pieces([*layout.entry, *layout.cell])
        self._out = np.empty(OUT_BYTES, np.uint8)

    def print(self, batch: WalBatch, selected: SelectedCells) -> Iterator[bytes]:
        """Yield the text of the selected cells in parts of about OUT_BYTES, or of one cell.

        Raises WalCorruptError at an entry with malformed cluster ids, after the text of the entries before it.
        """
        if not len(selected):
            return
        begins = np.append(True, selected.entry[1:] != selected.entry[:-1])  # at the first cell of each entry
        chosen, entry_of = selected.entry[begins], np.cumsum(begins) - 1
        index = batch.index.chosen(chosen)
        keys = decode_keys(batch.buf, index)
        printed = int(np.searchsorted(entry_of, keys.count))
        if printed and self._header:
            yield self._header
            self._header = b""
        yield from self._cells(batch, chosen, index, entry_of[:printed], selected.start[:printed], keys.cluster_ids)
        if keys.wrong:
            raise WalCorruptError(self._path, batch.entry_offset(int(chosen[keys.count])), keys.wrong)

    def _cells(
        self, batch: WalBatch, chosen: Ints, index: EntryIndex, entry_of: Ints, starts: Ints, ids: ClusterIds
    ) -> Iterator[bytes]:
        columns = (batch.positions[chosen], batch.next_positions[chosen], index.sequence_id, index.write_time)
        names = (index.region_start, index.region_len, index.table_start, index.table_len)
        table = np.stack([*columns, *names])
        texts = np.frombuffer("".join(map(str, ids.ids)).encode(), np.uint8)
        state = np.array([0, -1, 0], np.int64)
        while state[PrintProgress.CELL] < len(starts):
            size = _print_cells(
                read_only(batch.buf), entry_of, starts, table, ids.first, ids.which, texts, self._pieces, self._literals,
                len(self._layout.entry), self._layout.json, self._out, state,
            )  # fmt: skip
            if size:
                yield self._out[:size].tobytes()
            elif state[PrintProgress.NEED] > self._out.size:
                self._out = np.empty(int(state[PrintProgress.NEED]), np.uint8)


def _compiled_pieces(pieces: Sequence[Piece]) -> tuple[Ints, Bytes]:
    """Return the table of pieces, and their literals one after the other."""
    literals = [piece.literal.encode() for piece in pieces]
    table = np.zeros((len(PieceRow), len(pieces)), np.int64)
    table[PieceRow.LENGTH] = [len(literal) for literal in literals]
    table[PieceRow.START] = np.cumsum(table[PieceRow.LENGTH]) - table[PieceRow.LENGTH]
    table[PieceRow.FIELD] = [piece.field for piece in pieces]
    table[PieceRow.OPTIONAL] = [piece.optional for piece in pieces]
    return table, np.frombuffer(b"".join(literals), np.uint8)


@unmanaged
def _print_cells(
    buf: Bytes, entry_of: Ints, starts: Ints, table: IntTable, first_id: Ints, ids: Ints, id_texts: Bytes,
    pieces: IntTable, literals: Bytes, entry_pieces: int, json: bool, out: OutBytes, state: OutInts,
) -> int:  # fmt: skip
    """Print cells from `state[PrintProgress.CELL]` on while they fit into `out`. Returns how many bytes were printed."""
    at = 0
    headed = state[PrintProgress.HEADED]
    cell = state[PrintProgress.CELL]
    need = 0
    while cell < starts.size:
        entry, pos = entry_of[cell], starts[cell]
        first = entry_pieces if entry == headed else 0
        need = 0
        for piece in range(first, pieces.shape[1]):
            need += pieces[PieceRow.LENGTH, piece]
            need += _room(buf, pos, entry, table, first_id, pieces[PieceRow.FIELD, piece], json)
        if need > out.size - at:
            break
        for piece in range(first, pieces.shape[1]):
            field = pieces[PieceRow.FIELD, piece]
            if pieces[PieceRow.OPTIONAL, piece] and _is_empty(buf, pos, entry, first_id, field):
                continue
            at = copy_bytes(out, at, literals, pieces[PieceRow.START, piece], pieces[PieceRow.LENGTH, piece])
            at = _put_field(out, at, buf, pos, entry, table, first_id, ids, id_texts, field, json)
        headed = entry
        cell += 1
    state[PrintProgress.CELL] = cell
    state[PrintProgress.HEADED] = headed
    state[PrintProgress.NEED] = need
    return at


@inlined
def _bytes_of(buf: Bytes, pos: int, entry: int, table: IntTable, field: int) -> tuple[int, int]:
    """Return (start, length) of a field of bytes."""
    if field == Field.REGION:
        return table[EntryRow.REGION_START, entry], table[EntryRow.REGION_LEN, entry]
    if field == Field.TABLE:
        return table[EntryRow.TABLE_START, entry], table[EntryRow.TABLE_LEN, entry]
    if field == Field.ROW:
        return row_of(buf, pos)
    family, length = family_of(buf, pos)
    if field == Field.FAMILY:
        return family, length
    value = value_start(buf, pos)
    if field == Field.QUALIFIER:
        return family + length, value - KEY_TAIL - family - length
    return value, tags_start(buf, pos) - value


@inlined
def _is_empty(buf: Bytes, pos: int, entry: int, first_id: Ints, field: int) -> bool:
    """Return whether a field that is a list is empty."""
    if field == Field.TAGS:
        return tags_start(buf, pos) + 2 + MIN_TAG > cell_end(buf, pos)
    return bool(first_id[entry + 1] == first_id[entry])


@inlined
def _room(buf: Bytes, pos: int, entry: int, table: IntTable, first_id: Ints, field: int, json: bool) -> int:
    """Return how many bytes a field takes at most."""
    if field <= LAST_NUMBER or field == Field.WRITTEN:
        return NUMBER_CHARS
    if field <= LAST_BYTES:
        start, length = _bytes_of(buf, pos, entry, table, field)
        return escaped_len(buf, start, length, json)
    if field == Field.TYPE:
        return _TYPE_CHARS
    if field == Field.CLUSTER_IDS:
        return int(first_id[entry + 1] - first_id[entry]) * (UUID_CHARS + _LIST_CHARS)
    if field == Field.NOTHING:
        return 0
    size = 0
    tag, end = tags_start(buf, pos) + 2, cell_end(buf, pos)
    while tag + MIN_TAG <= end:
        length = read_uint16(buf, tag)
        size += _LIST_CHARS + 2 + escaped_len(buf, tag + 3, length - 1, json)
        tag += 2 + length
    return size


@inlined
def _put_field(
    out: OutBytes, at: int, buf: Bytes, pos: int, entry: int, table: IntTable, first_id: Ints, ids: Ints, id_texts: Bytes,
    field: int, json: bool,
) -> int:  # fmt: skip
    """Print a field to `out[at:]`. Returns the position after it."""
    if field <= Field.WRITE_TIME:
        return put_number(out, at, table[field, entry])
    if field == Field.TIMESTAMP:
        return put_number(out, at, read_int64(buf, value_start(buf, pos) - KEY_TAIL))
    if field == Field.VALUE_LENGTH:
        return put_number(out, at, tags_start(buf, pos) - value_start(buf, pos))
    if field <= LAST_BYTES:
        start, length = _bytes_of(buf, pos, entry, table, field)
        return put_escaped(out, at, buf, start, length, json)
    if field == Field.TYPE:
        code = read_uint8(buf, value_start(buf, pos) - 1)
        return copy_bytes(out, at, _TYPES[code], 0, _TYPE_LEN[code])
    if field == Field.WRITTEN:
        return put_time(out, at, table[EntryRow.WRITE_TIME, entry])
    if field == Field.CLUSTER_IDS:
        for i in range(first_id[entry], first_id[entry + 1]):
            at = _put_separator(out, at, i == first_id[entry], json)
            at = copy_bytes(out, at, id_texts, UUID_CHARS * ids[i], UUID_CHARS)
            at = _put_quote(out, at, json)
        return at
    if field == Field.TAGS:
        return _put_tags(out, at, buf, pos, json)
    return at


@inlined
def _put_tags(out: OutBytes, at: int, buf: Bytes, pos: int, json: bool) -> int:
    """Print the tags as HBase does, each as its type, a colon and its data. Returns the position after them."""
    start = tag = tags_start(buf, pos) + 2
    end = cell_end(buf, pos)
    while tag + MIN_TAG <= end:
        length = read_uint16(buf, tag)
        at = _put_separator(out, at, tag == start, json)
        at = put_number(out, at, (read_uint8(buf, tag + 2) ^ 0x80) - 0x80)  # a signed byte in HBase
        out[np.uint64(at)] = 0x3A
        at = put_escaped(out, at + 1, buf, tag + 3, length - 1, json)
        at = _put_quote(out, at, json)
        tag += 2 + length
    return at


@inlined
def _put_separator(out: OutBytes, at: int, is_first: bool, json: bool) -> int:
    """Print the separator before an element of a list. Returns the position after it."""
    if not is_first:
        out[np.uint64(at)] = 0x2C
        at += 1
        if not json:
            out[np.uint64(at)] = 0x20
            at += 1
    return _put_quote(out, at, json)


@inlined
def _put_quote(out: OutBytes, at: int, json: bool) -> int:
    """Print a quotation mark, in JSON only. Returns the position after it."""
    if json:
        out[np.uint64(at)] = QUOTE
        at += 1
    return at
