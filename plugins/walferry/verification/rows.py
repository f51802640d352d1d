"""Compares one range of a table row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from walferry.hbase.binary_text import to_binary_text
from walferry.hbase.tables.rows import Rows
from walferry.hbase.wal.cells import Cell, CellType, split_cells
from walferry.verification.digests import row_hashes
from walferry.verification.outcome import DifferenceKind, Sample

Row = tuple[bytes, int, Rows, int]  # key, hash, and where its cells are

MAX_SHOWN_BYTES = 200  # of a row's key
_FOR_PAGES = {ord(each): f"\\x{ord(each):02X}" for each in "<>\"'`"}  # for web pages; `from_binary_text` reads these
_BAD_ROW_BYTES = 100  # of memory, in addition to the key


@dataclass
class Compared:
    """The rows of a range: the number of equal rows, the numbers of differing rows, and the differing rows by key."""

    good: int = 0
    counts: dict[DifferenceKind, int] = field(default_factory=lambda: dict.fromkeys(DifferenceKind, 0))
    bad: dict[bytes, DifferenceKind] = field(default_factory=dict)
    samples: dict[bytes, Sample] = field(default_factory=dict)

    @property
    def bad_rows(self) -> int:
        """All rows that differ."""
        return sum(self.counts.values())

    @property
    def known(self) -> bool:
        """Whether the keys of all differing rows are known."""
        return len(self.bad) == self.bad_rows

    @property
    def bytes(self) -> int:
        """The memory that the keys need, about."""
        return sum(map(len, self.bad)) + _BAD_ROW_BYTES * len(self.bad)

    def without_keys(self) -> Compared:
        """Return the same figures and samples, without the keys."""
        return Compared(self.good, self.counts, {}, self.samples)


def compare_rows(source: Iterable[Rows], peer_cluster: Iterable[Rows], samples: int) -> Compared:
    """Walk along both sides, and describe up to `samples` rows of each kind that differ."""
    found = Compared()
    described = dict.fromkeys(DifferenceKind, 0)

    def note(kind: DifferenceKind, mine: Row | None, theirs: Row | None) -> None:
        key = (mine or theirs or (b"",))[0]
        found.bad[key] = kind
        found.counts[kind] += 1
        if described[kind] < samples:
            described[kind] += 1
            found.samples[key] = Sample(kind, _shown(key), _difference(_cells(mine), _cells(theirs)))

    ours, others = _rows(source), _rows(peer_cluster)
    mine, theirs = next(ours, None), next(others, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and mine[0] < theirs[0]):
            note(DifferenceKind.MISSING, mine, None)
            mine = next(ours, None)
        elif mine is None or theirs[0] < mine[0]:
            note(DifferenceKind.EXTRA, None, theirs)
            theirs = next(others, None)
        else:
            if mine[1] == theirs[1]:
                found.good += 1
            else:
                note(DifferenceKind.DIFFERENT, mine, theirs)
            mine, theirs = next(ours, None), next(others, None)
    return found


def _rows(blocks: Iterable[Rows]) -> Iterator[Row]:
    for block in blocks:
        for i, hashed in enumerate(row_hashes(block).tolist()):
            yield block.key(i), hashed, block, i


def _cells(row: Row | None) -> list[Cell]:
    return list(split_cells(row[2].row(row[3]))) if row else []


def _difference(ours: list[Cell], theirs: list[Cell]) -> str:
    """Return the first cell in which two rows differ, in words."""
    counts = f"{len(ours)} cells at the source, {len(theirs)} at the peer cluster"
    for mine, other in zip_longest(ours, theirs):
        if mine is None or other is None:
            side = "source" if other is None else "peer cluster"
            return f"{counts}; only the {side} has {_name(mine or other)}" if ours and theirs else counts
        if _key(mine) != _key(other):
            return f"{counts}; first difference: {_name(mine)} at the source, {_name(other)} at the peer cluster"
        if mine.value != other.value:
            values = f"{_shown(mine.value, 50)} at the source, {_shown(other.value, 50)} at the peer cluster"
            return f"{counts}; values of {_name(mine)}: {values}"
    return counts


def _key(cell: Cell) -> bytes:
    end = 12 + int.from_bytes(cell.data[4:8])
    return cell.data[12:end]


def _name(cell: Cell) -> str:
    family, qualifier = cell.column
    kind = next((kind.hbase_name for kind in CellType if kind == cell.type), str(cell.type))
    return f"{_shown(family, 60)}:{_shown(qualifier, 60)}/{cell.timestamp}/{kind}"


def _shown(data: bytes, at_most: int = MAX_SHOWN_BYTES) -> str:
    """Return the first bytes as HBase's shell shows them, so that nothing in a row can control a terminal."""
    return to_binary_text(data[:at_most]).translate(_FOR_PAGES) + ("…" if len(data) > at_most else "")
