"""Models of cells, runs and their order, in plain Python."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from typing import Any

from tests.unit.hbase.wal.encoder import DELETE, DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION, PUT, Cell, encode_tags

TYPES = (PUT, PUT, PUT, DELETE, DELETE_COLUMN, DELETE_FAMILY, DELETE_FAMILY_VERSION)


def stored(cell: Cell) -> bytes:
    """A cell as data blocks and runs have it."""
    key = struct.pack(">H", len(cell.row)) + cell.row + bytes([len(cell.family)]) + cell.family + cell.qualifier
    key += struct.pack(">qB", cell.timestamp, cell.type)
    return struct.pack(">ii", len(key), len(cell.value)) + key + cell.value + struct.pack(">H", len(cell.tags)) + cell.tags


def numbered(cell: Cell, sequence_id: int, write_time: int = 0) -> bytes:
    """A cell of a run."""
    return stored(cell) + struct.pack(">qq", sequence_id, write_time)


def sort_key(cell: Cell) -> tuple[Any, ...]:
    """The order of HBase's CellComparator within one family."""
    return (cell.row, cell.qualifier, -cell.timestamp, -cell.type)


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Cells as a file has them, the last of those with one key."""
    return sorted({sort_key(cell): cell for cell in cells}.values(), key=sort_key)


def random_cells(seed: int, count: int, *, value: int = 100, tags: bool = True) -> list[Cell]:
    """Cells in order, of rows with several columns, versions and markers of deletion."""
    rng = random.Random(seed)
    cells = []
    while len(cells) < count:
        row = b"row-%08x" % rng.getrandbits(32) + rng.randbytes(rng.randrange(8))
        for _ in range(rng.randrange(1, 5)):
            kind = rng.choice(TYPES)
            whole = kind in (DELETE_FAMILY, DELETE_FAMILY_VERSION)
            qualifier = b"" if whole else rng.choice([b"", b"a", b"col-%d" % rng.randrange(20)])
            timestamp = rng.choice([0, 255, 256, rng.randrange(1 << 41), 1_700_000_000_000 + rng.randrange(1000)])
            tag = (rng.choice([1, 8, 70]), rng.randbytes(rng.randrange(20)))
            some_tags = encode_tags([tag]) if tags and rng.random() < 0.2 else b""
            content = b"" if kind != PUT else rng.choice([b"same", rng.randbytes(rng.randrange(2 * value + 1))])
            cells.append(Cell(row, b"fam", qualifier, timestamp, kind, content, some_tags))
    return in_order(cells)


def split_stored(data: bytes) -> list[Cell]:
    """The cells that lie one after the other in `data`: the reverse of `stored`."""
    cells, at = [], 0
    while at < len(data):
        cell, at = _cell_at(data, at)
        cells.append(cell)
    return cells


def split_run(data: bytes) -> list[tuple[Cell, int, int]]:
    """The cells of a run with their sequence ids and write times."""
    cells, at = [], 0
    while at < len(data):
        cell, at = _cell_at(data, at)
        cells.append((cell, *struct.unpack_from(">qq", data, at)))
        at += 16
    return cells


def _cell_at(data: bytes, at: int) -> tuple[Cell, int]:
    key_len, val_len = struct.unpack_from(">ii", data, at)
    key, value = data[at + 8 : at + 8 + key_len], data[at + 8 + key_len : at + 8 + key_len + val_len]
    at += 8 + key_len + val_len
    (tags_len,) = struct.unpack_from(">H", data, at)
    row_end = 2 + int.from_bytes(key[:2])
    family_end = row_end + 1 + key[row_end]
    timestamp, kind = struct.unpack(">qB", key[-9:])
    tags = data[at + 2 : at + 2 + tags_len]
    cell = Cell(key[2:row_end], key[row_end + 1 : family_end], key[family_end:-9], timestamp, kind, value, tags)
    return cell, at + 2 + tags_len
